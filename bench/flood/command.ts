import { mean } from '../soak/memory.ts';
import { benchFlood, type FloodFigures, type Window } from './flood.ts';

/** Minimum share of the normal load that other minions must get during an attack. */
const leastShare = 0.8;
/** Maximum duration of any sign-in during an attack, in milliseconds. */
const signInMs = 1000;

/**
 * Runs `npm run bench -- flood [seconds [attack]]`.
 * @param attack - beginning of the names of the attacks to perform. Default: all attacks
 * @returns the exit code: 1 if other minions got too little service
 */
export async function runFlood(
  seconds: number,
  attack: string,
  print: (line: string) => void,
): Promise<number> {
  if (!(Number.isInteger(seconds) && seconds > 0)) {
    print('flood: the duration must be a whole number of seconds');
    return 64;
  }
  let isWell = true;
  for await (const figures of benchFlood(seconds, attack)) {
    const { attack: name, flood, without, during, memory, memoryPerMinute, counted } = figures;
    const sent = flood.reduce((sum, turn) => sum + turn.sent, 0);
    print(`# ${name}, ${seconds} s`);
    print(`requests of the attacker ${sent} (${Math.round(sent / seconds)}/s)`);
    print(`others without attack  ${describe(without)}`);
    print(`others during attack   ${describe(during)}`);
    print(`throughput of others   ${(share(figures) * 100).toFixed(1)} %`);
    print(
      `memory                 ${memory.map((it) => it.toFixed(0)).join(', ')} MB: cold, after a ` +
        `minute, at the end; since then ${memoryPerMinute.toFixed(1)} MB a minute`,
    );
    print(`counted                ${JSON.stringify(counted)}`);
    isWell &&= share(figures) >= leastShare && isPrompt(figures);
  }
  print(isWell ? 'all is well' : 'not well');
  return isWell ? 0 : 1;
}

function share({ without, during }: FloodFigures): number {
  return answered(during) / Math.max(1, answered(without));
}

function answered(windows: readonly Window[]): number {
  return windows.reduce((sum, { outcome }) => sum + outcome.answered, 0);
}

function isPrompt({ attack, during }: FloodFigures): boolean {
  if (attack.startsWith('forbidden')) return true;
  return (
    longest(during) < signInMs && during.every(({ outcome }) => outcome.answered === outcome.sent)
  );
}

function longest(windows: readonly Window[]): number {
  return Math.max(...windows.map(({ outcome }) => outcome.longestMs));
}

function describe(windows: readonly Window[]): string {
  const sent = windows.reduce((sum, { outcome }) => sum + outcome.sent, 0);
  const median = mean(windows.map(({ outcome }) => outcome.medianMs)).toFixed(1);
  const load = mean(windows.map((window) => window.load)).toFixed(2);
  return (
    `${answered(windows)} of ${sent} answered, half of them within ${median} ms, ` +
    `all within ${longest(windows).toFixed(1)} ms; the master used ${load} processors`
  );
}

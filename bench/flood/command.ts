import { benchFlood, type FloodFigures } from './flood.ts';
import type { FloodOutcome } from './orders.ts';

/** What others must still get, and how long a sign-in may take. */
const leastShare = 0.8;
const signInMs = 1000;

/**
 * `npm run bench -- flood [seconds]`.
 * @returns the exit code: 1 if others got less than they must
 */
export async function runFlood(seconds: number, print: (line: string) => void): Promise<number> {
  if (!(Number.isInteger(seconds) && seconds > 0)) {
    print('flood: give whole seconds');
    return 64;
  }
  let isWell = true;
  for await (const figures of benchFlood(seconds)) {
    const { attack, flood, before, during, memory, memoryPerMinute, counted } = figures;
    print(`# ${attack}, ${seconds} s`);
    print(`sent by the attacker   ${flood.sent} (${Math.round(flood.sent / seconds)}/s)`);
    print(`others before          ${line(before)}`);
    print(`others during it       ${line(during)}`);
    print(`what others still get  ${(share(figures) * 100).toFixed(1)} %`);
    print(
      `memory                 ${memory[0].toFixed(0)} MB, ${memory[1].toFixed(0)} MB at the end ` +
        `(${memoryPerMinute.toFixed(1)} MB a minute)`,
    );
    print(`counted                ${JSON.stringify(counted)}`);
    isWell &&= share(figures) >= leastShare && isPrompt(figures);
  }
  print(isWell ? 'all is well' : 'not well');
  return isWell ? 0 : 1;
}

function share({ before, during }: FloodFigures): number {
  return during.answered / Math.max(1, before.answered);
}

function isPrompt({ attack, during }: FloodFigures): boolean {
  return attack.startsWith('forbidden') || during.longestMs < signInMs;
}

function line({ sent, answered, medianMs, ms99, longestMs }: FloodOutcome): string {
  const times = [medianMs, ms99, longestMs].map((ms) => `${ms.toFixed(1)} ms`).join(', ');
  return `${answered} of ${sent} answered; half, 99 of 100, all within ${times}`;
}

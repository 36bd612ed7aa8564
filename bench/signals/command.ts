import { benchSignalCrash } from './crash.ts';
import { benchSignalRate } from './rate.ts';

const minions = 20;
const signals = 1_000;
const killsPerLine = 20;

/**
 * Runs `npm run bench -- signals [seconds]`, which measures how many signals are accepted, or `npm
 * run bench -- signals crash [kills [seed]]`, which kills a master while minions send signals.
 * @returns the exit code: 1 if a signal was lost, arrived with another id, or arrived out of order
 */
export async function runSignals(
  [what = '10', ...more]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const [first, second = 1] = (what === 'crash' ? more : [what]).map(Number);
  const count = first ?? 200;
  if (!(Number.isInteger(count) && count > 0 && Number.isInteger(second))) {
    print('signals: give a number of seconds, or crash followed by a number of kills and a seed');
    return 64;
  }
  if (what !== 'crash') {
    print(`# signals of 400 minions for 20 handles, ${count} s; rate limits off`);
    printAll(await benchSignalRate(count), print);
    return 0;
  }
  print(`# a master killed ${count} times while ${minions} minions signal, seed ${second}`);
  const figures = await benchSignalCrash({
    kills: count,
    seed: second,
    minions,
    signals,
    onKill: (done) => {
      if (done % killsPerLine === 0) print(`${done} kills`);
    },
  });
  printAll(figures, print);
  const { lost, permittedLost, otherIds, outOfOrder, dead } = figures;
  return lost + permittedLost + otherIds + outOfOrder + dead === 0 ? 0 : 1;
}

function printAll(figures: object, print: (line: string) => void): void {
  for (const [name, value] of Object.entries(figures)) {
    print(`${name.padEnd(20)} ${Math.round(Number(value))}`);
  }
}

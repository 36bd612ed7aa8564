import { benchCrash } from './crash.ts';

const minions = 20;
const killsPerLine = 20;

/**
 * Runs `npm run bench -- crash [kills [seed]]`.
 * @returns the exit code: 1 if acknowledged data was lost or another condition was violated
 */
export async function runCrash(
  kills: number,
  seed: number,
  print: (line: string) => void,
): Promise<number> {
  if (!(Number.isInteger(kills) && kills > 0 && Number.isInteger(seed))) {
    print('crash: the number of kills and the seed must be whole numbers');
    return 64;
  }
  print(`# a master killed ${kills} times under load, seed ${seed}`);
  const figures = await benchCrash({
    kills,
    seed,
    minions,
    onKill: (done) => {
      if (done % killsPerLine === 0) print(`${done} kills`);
    },
  });
  for (const [name, value] of Object.entries(figures))
    print(`${name.padEnd(20)} ${Math.round(value)}`);
  return figures.lost + figures.signIns + figures.problems === 0 ? 0 : 1;
}

/**
 * `npm run bench`: the figures of docs/BENCHMARKS.md. `npm run bench -- soak [seconds] [share]`: a
 * soak. `npm run bench -- crash [kills [seed]]`: a master that is killed under load.
 */
import { runCrash } from './crash/command.ts';
import { printFigures } from './figures.ts';
import { runSoak } from './soak/command.ts';

const [what, first, second = '1'] = process.argv.slice(2);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

if (what === 'soak') {
  process.exitCode = await runSoak(Number(first ?? '600'), Number(second), print);
} else if (what === 'crash') {
  process.exitCode = await runCrash(Number(first ?? '200'), Number(second), print);
} else await printFigures(print);

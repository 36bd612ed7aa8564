/**
 * `npm run bench`: the figures of docs/BENCHMARKS.md. `npm run bench -- soak [seconds] [share]`: a
 * soak. `npm run bench -- crash [kills [seed]]`: a master that is killed under load.
 * `npm run bench -- flood [seconds]`: what a flood costs those who do not flood.
 */
import { runCrash } from './crash/command.ts';
import { printFigures } from './figures.ts';
import { runFlood } from './flood/command.ts';
import { runSoak } from './soak/command.ts';

const [what, first, second = '1'] = process.argv.slice(2);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

if (what === 'soak') {
  process.exitCode = await runSoak(Number(first ?? '600'), Number(second), print);
} else if (what === 'crash') {
  process.exitCode = await runCrash(Number(first ?? '200'), Number(second), print);
} else if (what === 'flood') {
  process.exitCode = await runFlood(Number(first ?? '5'), print);
} else await printFigures(print);

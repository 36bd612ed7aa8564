/** `npm run bench`: the figures of docs/BENCHMARKS.md. `npm run bench -- soak [seconds] [share]`: a soak. */
import { printFigures } from './figures.ts';
import { runSoak } from './soak/command.ts';

const [what, seconds = '600', share = '1'] = process.argv.slice(2);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

if (what === 'soak') process.exitCode = await runSoak(Number(seconds), Number(share), print);
else await printFigures(print);

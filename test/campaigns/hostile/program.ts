/**
 * A program that runs the hostile-input matrix. Its argument is the plan as JSON; it prints the
 * report as JSON. It runs in a process of its own, because the counts need functions that are
 * compiled after the counter has started.
 */
import { BlockCounter } from './measure.ts';

const plan = JSON.parse(process.argv[2] ?? '{}');
const counter = plan.measuresTime === true ? undefined : new BlockCounter();
const { runMatrix } = await import('./matrix.ts');
const report = await runMatrix(plan, counter, (line) => process.stderr.write(`${line}\n`));
process.stdout.write(JSON.stringify(report));

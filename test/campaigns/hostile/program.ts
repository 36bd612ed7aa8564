/**
 * A program that runs the hostile-input matrix. Its argument is the plan as JSON, and it prints the
 * report as JSON. It needs a process of its own, because V8 counts only functions that it compiles
 * after the counter has started.
 */
import { BlockCounter } from './measure.ts';

const plan = JSON.parse(process.argv[2] ?? '{}');
const counter = plan.measuresTime === true ? undefined : new BlockCounter();
const { runMatrix } = await import('./matrix.ts');
const report = await runMatrix(plan, counter, (line) => process.stderr.write(`${line}\n`));
process.stdout.write(JSON.stringify(report));

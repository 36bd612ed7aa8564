/**
 * `npm run bench`: the figures of docs/BENCHMARKS.md. `npm run bench -- soak [seconds] [share]`: a
 * soak. `npm run bench -- crash [kills [seed]]`: a master that is killed under load.
 * `npm run bench -- flood [seconds]`: what a flood costs those who do not flood. `npm run bench --
 * policy`: what 1,000 rules cost events and returns. `npm run bench -- tenants [count]`: what one more
 * master in a process costs. `npm run bench -- signals [seconds]`, `npm run bench -- signals crash
 * [kills [seed]]`: signals accepted, and kept through kills. `npm run bench -- pillar`: pillar of files. `npm run bench -- fleet [minions]`: one fleet of them.
 */
import { isAsShipped, runAsShipped } from './as-shipped.ts';
import { runCrash } from './crash/command.ts';
import { printFigures, printFleet } from './figures.ts';
import { runFlood } from './flood/command.ts';
import { benchPillar } from './pillar.ts';
import { benchPolicyCost } from './policy-cost.ts';
import { runSignals } from './signals/command.ts';
import { runSoak } from './soak/command.ts';
import { benchTenants } from './tenants.ts';

const [what, first, second = '1'] = process.argv.slice(2);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

if ((what === 'soak' || what === 'fleet') && !isAsShipped()) {
  process.exitCode = runAsShipped(...process.argv.slice(2));
} else if (what === 'soak') {
  process.exitCode = await runSoak(Number(first ?? '600'), Number(second), print);
} else if (what === 'crash') {
  process.exitCode = await runCrash(Number(first ?? '200'), Number(second), print);
} else if (what === 'flood') {
  process.exitCode = await runFlood(Number(first ?? '5'), print);
} else if (what === 'policy') {
  for (const [name, [without, withRules]] of Object.entries(await benchPolicyCost())) {
    const more = ((withRules / without - 1) * 100).toFixed(1);
    print(`${name.padEnd(8)} ${without.toFixed(1)} µs, ${withRules.toFixed(1)} µs (${more} %)`);
  }
} else if (what === 'pillar') {
  for (const [name, perSecond] of Object.entries(await benchPillar())) {
    print(`${name.padEnd(24)} ${Math.round(perSecond)}/s`);
  }
} else if (what === 'fleet') {
  await printFleet(Number(first ?? '2000'), print);
} else if (what === 'signals') {
  process.exitCode = await runSignals(process.argv.slice(3), print);
} else if (what === 'tenants') {
  print(JSON.stringify(await benchTenants(Number(first ?? '10'))));
} else await printFigures(print);

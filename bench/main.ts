/**
 * `npm run bench` measures the figures of docs/BENCHMARKS.md. `npm run bench -- NAME` runs only one
 * benchmark:
 *
 * - `soak [seconds] [share]`: a fleet under load for a long time
 * - `crash [kills [seed]]`: a master that is killed under load
 * - `flood [seconds [attack]]`: the effect of a flood on other minions
 * - `policy`: the cost of 1,000 rules for events and returns
 * - `tenants [count]`: the cost of one more master in a process
 * - `pillar`: pillar from files
 * - `fleet [minions]`: a fleet of minions
 * - `enroll`: enrolment of machines
 * - `start`: processor time until commands, the master and the library have started
 * - `bridge`: the time that a named command adds to a job
 * - `api [seconds]`: the HTTP API
 * - `api URL USER:PASSWORD:EAUTH TARGET`: another HTTP API
 * - `http [seconds]`: delay of the event loop while the HTTP API reads hostile and large bodies
 *   (median, 99.9th percentile and maximum)
 * - `cluster [minions]`: a fleet over three masters and three NATS servers (needs nats-server)
 * - `log`: durable writes of a cluster's store over three NATS servers (needs nats-server)
 * - `sizing [name=number…]`: estimated size of an installation (docs/scaling.md)
 * - `signals [seconds]`: number of signals that are accepted
 * - `signals crash [kills [seed]]`: delivery of signals when the master is killed
 * - `compare CHECKOUT [rounds [bench…]]`: another checkout compared with this one
 */
import { isAsShipped, runAsShipped } from './as-shipped.ts';

const [what, first, second = '1'] = process.argv.slice(2);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/**
 * Benchmarks by name. Their modules are loaded on demand, because unused code would count as memory
 * of the master.
 */
const benches: Readonly<Record<string, () => Promise<number | undefined>>> = {
  soak: async () => {
    const { runSoak } = await import('./soak/command.ts');
    return runSoak(Number(first ?? '600'), Number(second), print);
  },
  signals: async () => {
    const { runSignals } = await import('./signals/command.ts');
    return runSignals(process.argv.slice(3), print);
  },
  crash: async () => {
    const { runCrash } = await import('./crash/command.ts');
    return runCrash(Number(first ?? '200'), Number(second), print);
  },
  flood: async () => {
    const { runFlood } = await import('./flood/command.ts');
    return runFlood(Number(first ?? '5'), process.argv[4] ?? '', print);
  },
  policy: async () => {
    const { benchPolicyCost } = await import('./policy-cost.ts');
    for (const [name, [without, withRules]] of Object.entries(await benchPolicyCost())) {
      const more = ((withRules / without - 1) * 100).toFixed(1);
      print(`${name.padEnd(8)} ${without.toFixed(1)} µs, ${withRules.toFixed(1)} µs (${more} %)`);
    }
    return undefined;
  },
  pillar: async () => {
    const { benchFleet, benchPillar } = await import('./pillar.ts');
    for (const [name, perSecond] of Object.entries(await benchPillar())) {
      print(`${name.padEnd(24)} ${Math.round(perSecond)}/s`);
    }
    const fleet = await benchFleet();
    print(`${fleet.minions} minions, ${fleet.inputs} inputs: ${fleet.renderings} renderings`);
    print(`fleet ${Math.round(fleet.pillarsPerSecond)}/s, ${fleet.memoryMiB.toFixed(1)} MiB`);
    return undefined;
  },
  fleet: async () => {
    const { printFleet } = await import('./fleet.ts');
    await printFleet(Number(first ?? '2000'), print);
    return undefined;
  },
  bridge: async () => {
    const { benchBridge } = await import('./bridge.ts');
    for (const [name, ms] of Object.entries(await benchBridge())) {
      print(`${name.padEnd(10)} ${ms.toFixed(2)} ms`);
    }
    return undefined;
  },
  api: async () => {
    const { runApi, runOtherApi } = await import('./api/command.ts');
    if (first?.startsWith('http')) await runOtherApi(process.argv.slice(3), print);
    else await runApi(Number(first ?? '10'), print);
    return undefined;
  },
  http: async () => {
    const { benchHttpDelay } = await import('./http/delay.ts');
    for (const [name, figures] of await benchHttpDelay(Number(first ?? '10'))) {
      const { median, most999, most, requests } = figures;
      const delays = [median, most999, most].map((ms) => `${ms.toFixed(1)} ms`);
      print(`${name.padEnd(18)} ${delays.join(', ')}; ${requests} requests`);
    }
    return undefined;
  },
  start: async () => {
    const { benchStart } = await import('./start.ts');
    await benchStart(print);
    return undefined;
  },
  tenants: async () => {
    const { benchTenants } = await import('./tenants.ts');
    print(JSON.stringify(await benchTenants(Number(first ?? '10'))));
    return undefined;
  },
  enroll: async () => {
    const { benchEnroll } = await import('./enroll.ts');
    for (const [name, { perMinute, cpuMs }] of Object.entries(await benchEnroll())) {
      print(`${name.padEnd(10)} ${perMinute} enrolments a minute, ${cpuMs} ms of processor each`);
    }
    return undefined;
  },
  compare: async () => {
    const { runComparison } = await import('./compare.ts');
    const bench = process.argv.slice(5);
    await runComparison(
      first ?? '.',
      Number(process.argv[4] ?? '10'),
      bench.length > 0 ? bench : ['fleet', '2000'],
      print,
    );
    return undefined;
  },
  cluster: async () => {
    const { benchClusterFleet } = await import('./cluster-fleet.ts');
    await benchClusterFleet(Number(first ?? '40000'), print);
    return undefined;
  },
  log: async () => {
    const { benchLogStore } = await import('./log-store.ts');
    await benchLogStore(print);
    return undefined;
  },
  sizing: async () => {
    const { printSizing } = await import('./sizing.ts');
    return printSizing(process.argv.slice(3), print);
  },
  all: async () => {
    const { printFigures } = await import('./figures.ts');
    await printFigures(print);
    return undefined;
  },
};

const isOfMemory = what === 'soak' || what === 'fleet' || what === 'flood';
if (isOfMemory && !isAsShipped()) process.exitCode = runAsShipped(...process.argv.slice(2));
else {
  const bench = benches[what ?? 'all'];
  if (bench === undefined)
    print(`unknown benchmark; the names are: ${Object.keys(benches).join(', ')}`);
  process.exitCode = bench === undefined ? 64 : await bench();
}

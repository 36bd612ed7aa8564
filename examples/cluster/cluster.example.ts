import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMinion, createMinionKeys, dialZeromq, type Minion } from '#minion-protocol';
import { ClusterSite } from '../../bench/cluster-site.ts';
import { natsServerProgram } from '../../bench/nats-cluster.ts';
import { type Example, program, type Step } from '../example.ts';

/**
 * Maximum time until three servers have elected a leader and three masters have started on one
 * machine, in milliseconds.
 */
const limitMs = 60_000;
const pauseMs = 250;

/** Three masters of a cluster on one machine, as if each had its own machine. */
export const cluster: Example = {
  description: 'three masters over three NATS servers serve the same minions; one is killed',
  needs: () => [program(natsServerProgram, 'nats-server')],
  run: async (step) => {
    const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-cluster-'));
    const site = new ClusterSite({ directory, limitMs });
    const minions: Minion[] = [];
    try {
      await runSteps(step, site, minions);
    } finally {
      for (const minion of minions) await minion.stop();
      await site.close();
      rmSync(directory, { recursive: true, force: true });
    }
  },
};

async function runSteps(step: Step, site: ClusterSite, minions: Minion[]): Promise<void> {
  await step('start three NATS servers', () => site.startServers(['a', 'b', 'c']));
  await step(
    'saltbridge cluster init: the state and the keys of master a become the state and the keys of the cluster',
    () => site.found('a'),
  );
  for (const name of ['b', 'c']) {
    await step(`saltbridge cluster ticket at a, saltbridge cluster join at ${name}`, () =>
      site.join(name, 'a'),
    );
  }
  await step(
    'all three masters are members and running',
    () => site.status('a', (it) => it.members.filter(({ isAlive }) => isAlive).length === 3),
    (status) => status.members.length === 3,
  );
  await step(
    'one minion connects to each master; master b accepts the three keys',
    () => connectMinions(site, minions),
    (accepted) => accepted === 3,
  );
  await step(
    'minions of all three masters answer a job that is published through a',
    () => ping(site, 'a'),
    (minions) => minions.length === 3,
  );
  await step('kill -9 master c', () => site.kill('c'));
  await step(
    'minions of a and b immediately answer a job that is published through b',
    () => ping(site, 'b', ['minion-a', 'minion-b']),
    (minions) => minions.length === 2,
  );
  await step(
    'a reports that c is down, and still accepts writes: two of three members are running',
    () => site.status('a', (it) => it.members.some(({ isAlive }) => !isAlive)),
    (status) => !status.refusesWrites,
  );
  await step('start c again: its minion reconnects', () => site.start('c'));
  await step(
    'all three minions answer a job that is published through c',
    () => pingUntil(site, 'c', 3),
    (minions) => minions.length === 3,
  );
  await step('kill one of the NATS servers', () => site.killServer());
  await step(
    'all three minions answer a job that is published through a: two of three NATS servers suffice',
    () => pingUntil(site, 'a', 3),
    (minions) => minions.length === 3,
  );
}

/**
 * Connects each minion to a different master.
 * @returns the number of accepted keys
 */
async function connectMinions(site: ClusterSite, minions: Minion[]): Promise<number> {
  const starting = [...site.ports].map(async ([name, { requestPort }]) => {
    const minion = createMinion({
      id: `minion-${name}`,
      transport: dialZeromq({ host: '127.0.0.1', requestPort }),
      keys: await createMinionKeys(),
      acceptanceWaitMs: 500,
    });
    minions.push(minion);
    await minion.start();
  });
  const { keys } = site.api('b');
  while ((await keys.list({ state: 'pending' })).length < starting.length) await sleep(pauseMs);
  const accepted = await keys.accept({ match: 'minion-*' });
  await Promise.all(starting);
  return accepted.length;
}

/** Pings all minions through one of the masters, and returns the minions that responded. */
async function ping(
  site: ClusterSite,
  name: string,
  minions?: readonly string[],
): Promise<string[]> {
  const target = minions === undefined ? { tgt: '*' } : { tgt: [...minions], tgtType: 'list' };
  const answered: string[] = [];
  for await (const update of site.api(name).jobs.run({ ...target, fun: 'test.ping' })) {
    if (update.type === 'return') answered.push(update.minion);
  }
  return answered.sort();
}

async function pingUntil(site: ClusterSite, name: string, count: number): Promise<string[]> {
  const end = performance.now() + limitMs;
  for (;;) {
    const answered = await ping(site, name).catch(() => []);
    if (answered.length >= count || performance.now() > end) return answered;
    await sleep(pauseMs);
  }
}

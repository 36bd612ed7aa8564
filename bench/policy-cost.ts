/**
 * Measures how much a policy of 1,000 rules adds to the processor time of events and returns. This
 * process runs two masters, one with the policy and one without. They take turns, so that other
 * load of the machine affects both.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MasterOptions } from '#config';
import type { Master } from '#master';
import { createMaster } from '#server';
import { limitHeapGrowth } from '#server/process/heap-growth.ts';
import { benchConfig } from './config.ts';
import { ping } from './fleet.ts';
import { acceptAll } from './swarm/accept.ts';
import { makeKeyTexts, type SwarmKeyText } from './swarm/keys.ts';
import { order } from './swarm/order.ts';

const program = fileURLToPath(new URL('./swarm/program.ts', import.meta.url));
const minions = 200;
const turns = 16;
const eventsATurn = 4000;
const pingsATurn = 5;

/**
 * Processor time in microseconds. Each figure is the lowest quartile of the turns, which other load
 * affects least.
 */
export interface PolicyCost {
  readonly events: readonly [without: number, withRules: number];
  readonly returns: readonly [without: number, withRules: number];
}

interface Side {
  readonly master: Master;
  readonly swarm: ChildProcess;
  readonly events: number[];
  readonly returns: number[];
}

/** Returns 1,000 rules. Half of them apply to every minion of the swarm. */
function thousandRules(): MasterOptions['acl'] {
  const rules = Array.from({ length: 1000 }, (_, index) => ({
    name: `rule ${index}`,
    effect: index % 10 === 9 ? ('deny' as const) : ('allow' as const),
    subject: { minion: index % 2 === 0 ? 'swarm-*' : `team${index}-*` },
    action: 'signal' as const,
    resource: { tag: `team${index}/\${minion.id}/*` },
  }));
  return { rules };
}

export async function benchPolicyCost(): Promise<PolicyCost> {
  limitHeapGrowth();
  const root = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const keys = await makeKeyTexts(16);
  const sides: Side[] = [];
  try {
    for (const [name, acl] of [
      ['without', {}],
      ['with', thousandRules()],
    ] as const) {
      sides.push(await openSide(path.join(root, name), acl, keys));
    }
    for (let turn = 0; turn <= turns; turn += 1) {
      // The order changes with each turn, because the first side runs with colder caches.
      for (const side of turn % 2 === 0 ? sides : [...sides].reverse()) await takeTurn(side);
    }
  } finally {
    for (const { swarm } of sides) swarm.disconnect();
    await Promise.all(sides.map(({ master }) => master.close()));
    await rm(root, { recursive: true, force: true });
  }
  const [without, withRules] = sides;
  return {
    events: [undisturbed(without?.events), undisturbed(withRules?.events)],
    returns: [undisturbed(without?.returns), undisturbed(withRules?.returns)],
  };
}

async function openSide(
  rootDir: string,
  acl: MasterOptions['acl'],
  keys: readonly SwarmKeyText[],
): Promise<Side> {
  const limits = { requestsPerSecond: 0, eventsPerSecond: 0, authsPerSecond: 0 };
  const config = benchConfig(rootDir, { limits, acl });
  await acceptAll(config.pkiDir, minions, keys);
  const master = createMaster({ config });
  await master.start();
  const { requestPort, publishPort } = await master.status();
  const swarm = fork(program);
  await order(swarm, { do: 'enlist', count: minions, keys, requestPort, connections: 32 });
  await order(swarm, { do: 'sign-in', concurrency: 64 });
  await order(swarm, { do: 'subscribe', publishPort });
  return { master, swarm, events: [], returns: [] };
}

async function takeTurn({ master, swarm, events, returns }: Side): Promise<void> {
  await order(swarm, { do: 'seal-events', count: eventsATurn });
  events.push(
    await costOf(eventsATurn, async () => {
      await order(swarm, { do: 'events', concurrency: 256 });
    }),
  );
  returns.push(
    await costOf(pingsATurn * minions, async () => {
      for (let count = 0; count < pingsATurn; count += 1) await ping(master, minions);
    }),
  );
}

async function costOf(count: number, work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

/**
 * Returns the lowest quartile of the figures without the first turn, because V8 compiles the code
 * in this turn.
 */
function undisturbed(figures: readonly number[] = []): number {
  const sorted = figures.slice(1).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 4)] ?? 0;
}

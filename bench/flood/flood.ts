/**
 * Measures the effect of a flood of requests on other minions. The master runs in this process with
 * its default limits. The attacker and the other minions run in two more processes, with different
 * addresses. The same load is measured without and with the flood, so that other load of the
 * machine has little effect.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { setPriority, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MasterStatus } from '#master';
import { createMaster } from '#server';
import { limitHeapGrowth } from '#server/process/heap-growth.ts';
import { benchConfig } from '../config.ts';
import { growthPerMinute, type MemorySample, sampleMemory, warm } from '../soak/memory.ts';
import { acceptAll } from '../swarm/accept.ts';
import { makeKeyTexts, type SwarmKeyText } from '../swarm/keys.ts';
import type { Attack, FloodAnswer, FloodOrder, FloodOutcome } from './orders.ts';

/** Effects of one attack. */
export interface FloodFigures {
  readonly attack: Attack;
  readonly flood: readonly FloodOutcome[];
  /** Service that the other minions got without the attack, in each turn. */
  readonly without: readonly Window[];
  readonly during: readonly Window[];
  /** Growth of the master's anonymous memory after the first minute, in megabytes per minute. */
  readonly memoryPerMinute: number;
  /** Anonymous memory of the master in megabytes: at the start, after a minute, and at the end. */
  readonly memory: readonly [cold: number, warm: number, end: number];
  /** Counters of the master by reason, for example for rejected requests. */
  readonly counted: Readonly<Record<string, number>>;
}

/** Service that the other minions got during one turn. */
export interface Window {
  readonly outcome: FloodOutcome;
  /** Processor time of the master, in seconds per second. */
  readonly load: number;
}

const others = 500;
const eventsPerSecond = 2000;
const turns = 5;
const attackersPriority = 10;
const program = fileURLToPath(new URL('./program.ts', import.meta.url));

const floods: readonly (readonly [Attack, perSecond: number, wanted: FloodOrder['do']])[] = [
  ['forbidden events', 20_000, 'demand'],
  ['forbidden events, reconnecting', 20_000, 'demand'],
  ['unknown ids', 2000, 'sign-ins'],
  ['replayed key', 2000, 'sign-ins'],
];

/**
 * Measures each attack. Turns with and without the attack alternate, so that other load of the
 * machine affects both.
 * @param seconds - duration of each attack in seconds. The turns without it take the same time
 * @param name - beginning of the names of the attacks to perform
 */
export async function* benchFlood(seconds: number, name = ''): AsyncGenerator<FloodFigures> {
  limitHeapGrowth();
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const config = benchConfig(rootDir, {});
  const keys = await makeKeyTexts(16);
  await acceptAll(config.pkiDir, others + 2, keys);
  const master = createMaster({ config });
  await master.start();
  const [honest, attacker] = [fork(program), fork(program)];
  // The attacker gets a low priority, because in reality it would not use the master's processors.
  if (attacker.pid !== undefined) setPriority(attacker.pid, attackersPriority);
  try {
    const status = await master.status();
    await enlist(honest, status, keys, others, '127.0.0.1');
    await enlist(attacker, status, keys, 0, '127.0.0.66');
    for (const [attack, perSecond, wanted] of floods) {
      if (!attack.startsWith(name)) continue;
      const turn = seconds / turns;
      const want = (): Promise<FloodOutcome> =>
        order(
          honest,
          wanted === 'sign-ins'
            ? { do: 'sign-ins', seconds: turn }
            : { do: 'demand', seconds: turn, perSecond: eventsPerSecond },
        );
      const { counters } = await master.status();
      const memory = watchMemory();
      const [flood, without, during]: [FloodOutcome[], Window[], Window[]] = [[], [], []];
      for (let count = 0; count < turns; count += 1) {
        without.push(await watched(want));
        const flooding = order(attacker, { do: 'attack', attack, perSecond, seconds: turn });
        during.push(await watched(want));
        flood.push(await flooding);
      }
      const counted = less((await master.status()).counters, counters);
      yield { attack, flood, without, during, ...memory.end(), counted };
    }
  } finally {
    honest.disconnect();
    attacker.disconnect();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

async function watched(work: () => Promise<FloodOutcome>): Promise<Window> {
  const startedAt = performance.now();
  const before = process.cpuUsage();
  const outcome = await work();
  const { user, system } = process.cpuUsage(before);
  return { outcome, load: (user + system) / 1000 / (performance.now() - startedAt) };
}

async function enlist(
  child: ChildProcess,
  { requestPort }: MasterStatus,
  keys: readonly SwarmKeyText[],
  count: number,
  address: string,
): Promise<void> {
  await order(child, { do: 'enlist', count, keys, requestPort, address });
}

async function order(child: ChildProcess, what: FloodOrder): Promise<FloodOutcome> {
  const answered = once(child, 'message');
  child.send(what);
  const [answer]: FloodAnswer[] = await answered;
  if (answer === undefined || 'error' in answer) throw new Error(answer?.error ?? 'no answer');
  return answer;
}

function watchMemory(): { end(): Pick<FloodFigures, 'memory' | 'memoryPerMinute'> } {
  const startedAt = performance.now();
  const samples: MemorySample[] = [];
  const sample = (): void =>
    void samples.push(sampleMemory((performance.now() - startedAt) / 1000));
  sample();
  const timer = setInterval(sample, 500);
  return {
    end: () => {
      clearInterval(timer);
      sample();
      const later = warm(samples);
      const [cold = 0, begin = 0, end = 0] = [samples[0], later[0], samples.at(-1)].map(
        (it) => it?.anonymous,
      );
      return { memory: [cold, begin, end], memoryPerMinute: growthPerMinute(later, 'anonymous') };
    },
  };
}

function less(
  after: Readonly<Record<string, number>>,
  before: Readonly<Record<string, number>>,
): Record<string, number> {
  const grown = Object.entries(after).map(
    ([reason, count]) => [reason, count - (before[reason] ?? 0)] as const,
  );
  return Object.fromEntries(grown.filter(([, count]) => count > 0));
}

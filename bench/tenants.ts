/** Measures the memory and the start time of each additional master in a process. */

import { fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Master } from '#master';
import { createMaster } from '#server';
import { limitHeapGrowth } from '#server/process/heap-growth.ts';
import { benchConfig } from './config.ts';
import { sampleMemory } from './soak/memory.ts';
import { acceptAll } from './swarm/accept.ts';
import { makeKeyTexts, type SwarmKeyText } from './swarm/keys.ts';
import { order } from './swarm/order.ts';

/** Means over all tenants except the first, because its start also loads the program. */
export interface TenantFigures {
  readonly startMs: number;
  /** Anonymous memory after the start, in megabytes. */
  readonly idleMegabytes: number;
  /**
   * Anonymous memory with ten minions that have signed in, in megabytes. RSA threads are then
   * running.
   */
  readonly servingMegabytes: number;
}

const program = fileURLToPath(new URL('./swarm/program.ts', import.meta.url));
const minions = 10;

/**
 * Runs the benchmark.
 * @param count - number of tenants in addition to the first
 */
export async function benchTenants(count: number): Promise<TenantFigures> {
  limitHeapGrowth();
  const root = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const keys = await makeKeyTexts(minions);
  const masters: Master[] = [];
  try {
    const open = async (index: number): Promise<void> => {
      const config = benchConfig(path.join(root, String(index)), {});
      await acceptAll(config.pkiDir, minions, keys);
      const master = createMaster({ config });
      masters.push(master);
      await master.start();
    };
    await open(0);
    await serve(masters[0], keys);
    const before = sampleMemory(0).anonymous;
    const startedAt = performance.now();
    for (let index = 1; index <= count; index += 1) await open(index);
    const startMs = (performance.now() - startedAt) / count;
    const idle = sampleMemory(0).anonymous;
    for (const master of masters.slice(1)) await serve(master, keys);
    const serving = sampleMemory(0).anonymous;
    return {
      startMs,
      idleMegabytes: (idle - before) / count,
      servingMegabytes: (serving - before) / count,
    };
  } finally {
    await Promise.all(masters.map((master) => master.close()));
    await rm(root, { recursive: true, force: true });
  }
}

async function serve(master: Master | undefined, keys: readonly SwarmKeyText[]): Promise<void> {
  if (master === undefined) return;
  const { requestPort } = await master.status();
  const swarm = fork(program);
  await order(swarm, { do: 'enlist', count: minions, keys, requestPort, connections: minions });
  await order(swarm, { do: 'sign-in', concurrency: minions });
  swarm.disconnect();
}

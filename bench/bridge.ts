/**
 * Measures the time that the bridge adds to a job. It runs a named command and `jobs.run` with the
 * same function alternately. The minion responds from memory over real ZeroMQ sockets. The results
 * are medians in milliseconds.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { createMinion, createMinionKeys, dialZeromq } from '#minion-protocol';
import { createMaster } from '#server';
import { benchConfig } from './config.ts';

/** Medians, in milliseconds. */
export interface BridgeFigures {
  readonly jobMs: number;
  readonly commandMs: number;
  /** With an idempotency key, which needs two more writes. */
  readonly keyedMs: number;
}

/**
 * Runs the benchmark.
 * @param count - number of measured calls of each kind; a tenth as many calls run before, without
 * being measured
 */
export async function benchBridge(count = 500): Promise<BridgeFigures> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const rule = allow('bench', {
    subject: { service: 'bridge' },
    action: 'command',
    resource: { fun: 'bench.*', within: 'bench*' },
  });
  const config = benchConfig(rootDir, {
    autoAccept: true,
    limits: { requestsPerSecond: 0 },
    acl: { rules: [rule] },
  });
  const bridge = createBridge({
    commands: [{ name: 'bench.ping', description: 'Answers.', function: 'test.ping' }],
  });
  const master = createMaster({ config, extensions: [bridge] });
  await master.start();
  const { requestPort } = await master.status();
  const transport = dialZeromq({ host: '127.0.0.1', requestPort });
  const minion = createMinion({ id: 'bench', keys: await createMinionKeys(), transport });
  const job = async (): Promise<void> => {
    for await (const _ of master.jobs.run({ tgt: ['bench'], tgtType: 'list', fun: 'test.ping' }));
  };
  const command = async (key?: string): Promise<void> => {
    const more = key === undefined ? {} : { idempotencyKey: key };
    const handle = await bridge.run('bench.ping', { target: ['bench'], ...more });
    const { status } = await handle.outcome;
    if (status !== 'succeeded') throw new Error('the minion did not answer');
  };
  try {
    await minion.start();
    const times = { job: [] as number[], command: [] as number[], keyed: [] as number[] };
    for (let index = -count / 10; index < count; index += 1) {
      const [a, b, c] = [
        await timed(job),
        await timed(() => command()),
        await timed(() => command(`key ${index}`)),
      ];
      if (index < 0) continue;
      times.job.push(a);
      times.command.push(b);
      times.keyed.push(c);
    }
    return {
      jobMs: median(times.job),
      commandMs: median(times.command),
      keyedMs: median(times.keyed),
    };
  } finally {
    await minion.stop();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function median(times: number[]): number {
  return times.sort((left, right) => left - right)[times.length >> 1] ?? Number.NaN;
}

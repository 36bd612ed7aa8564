/**
 * A program with a master that has the keys of the recorded vectors and listens on free ports. It
 * runs in a process of its own, so that its memory can be measured. It answers questions of its
 * parent and ends with it. Its argument is Salt's name of the transport.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resolveMasterConfig } from '#config';
import { parseValue } from '#config/schema.ts';
import { transportName } from '#config/transport-options.ts';
import type { MasterStatus } from '#master';
import { createMaster } from '#server';
import { createMemoryStore } from '#store';
import { directories, layOutVectorMaster, RECORDED_AT } from './vector-master.ts';

/** Questions that the parent can ask. */
export type Question = 'status' | 'memory' | 'publish';

/** Answer to a question. It always has all members. */
export interface Answer {
  readonly status: MasterStatus;
  /** Resident memory in bytes. For `memory`, it is measured after garbage collection. */
  readonly rss: number;
}

const transport = parseValue(transportName, process.argv[2]);
if (transport === undefined) throw new Error('which transport?');
const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-test-'));
const config = resolveMasterConfig({
  ...directories(directory),
  transport,
  interface: '127.0.0.1',
  retPort: 0,
  publishPort: 0,
  // The rate limits are off, because the tests send much more per second than a minion may.
  limits: { requestsPerSecond: 0, eventsPerSecond: 0 },
});
const store = createMemoryStore({ now: () => RECORDED_AT });
await layOutVectorMaster(config, store);
const master = createMaster({ config, store, now: () => RECORDED_AT });
await master.start();

process.on('message', (question: Question) => void answer(question));
process.on('disconnect', () => void end());
await answer('status');

async function answer(question: Question): Promise<void> {
  if (question === 'publish') await publish();
  if (question === 'memory') await freeUnused();
  const reply: Answer = { status: await master.status(), rss: process.memoryUsage.rss() };
  process.send?.(reply);
}

async function publish(): Promise<void> {
  const arg = ['x'.repeat(20_000)];
  for await (const _update of master.jobs.run({ tgt: '*', fun: 'test.echo', arg })) break;
}

/** Runs the garbage collector. Freed buffers are returned some turns of the event loop later. */
async function freeUnused(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    globalThis.gc?.();
    await new Promise(setImmediate);
  }
}

async function end(): Promise<void> {
  await master.close();
  rmSync(directory, { recursive: true, force: true });
}

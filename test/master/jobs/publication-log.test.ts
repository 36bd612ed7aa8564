/** Jobs of a former process that were never sent, and how they are handled. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import type { Master } from '#master';
import { withSlice } from '#master/jobs/job-row.ts';
import { PublicationLog } from '#master/jobs/publication-log.ts';
import type { MasterTransport } from '#minion-protocol';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { type CreateMasterOptions, createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, writeMasterKeys } from '../../helpers/vector-master.ts';

const jid = '20261123000000000001_p1';

function open(directory: string, store: Store): Promise<PublicationLog> {
  return PublicationLog.open({ store, directory, keepMs: 60_000, now: Date.now });
}

/** Changes the file, so that it looks like one of another process. */
function rewrite(directory: string, change: object, number?: number): void {
  const file = path.join(directory, 'publications');
  const [line = '', before = ''] = readFileSync(file, 'utf8').split('\n');
  const { process, identity } = JSON.parse(line);
  const after = number === undefined ? before : String(number).padStart(before.length);
  const changed = { process, identity: { ...identity, ...change } };
  writeFileSync(file, `${JSON.stringify(changed)}\n${after}`);
}

/** Process identity that no process has. */
const ended = { startTicks: 1 };

test('a job whose process ended before sending it was never sent', async (t) => {
  const [directory, store] = [temporaryDirectory(t), createMemoryStore()];
  const former = await open(directory, store);
  const [first, second, third] = [former.next(), former.next(), former.next()];
  former.noteSending(first);
  former.noteSending(second);
  rewrite(directory, ended);
  const next = await open(directory, store);
  t.deepEqual(
    [first, second, third].map((it) => next.wasNeverSent(it)),
    [false, false, true],
  );
  t.false(next.wasNeverSent(next.next()));
  // The record about it is kept.
  rewrite(directory, ended);
  const later = await open(directory, store);
  t.deepEqual(
    [first, second, third].map((it) => later.wasNeverSent(it)),
    [false, false, true],
  );
});

test('jobs of a process that may be running, or of another kernel, are undecided', async (t) => {
  for (const change of [{}, { ...ended, bootId: 'x' }, { ...ended, pidNamespace: 'pid:[1]' }]) {
    const [directory, store] = [temporaryDirectory(t), createMemoryStore()];
    const former = await open(directory, store);
    const publication = former.next();
    rewrite(directory, change);
    t.false((await open(directory, store)).wasNeverSent(publication), JSON.stringify(change));
  }
});

test('a job is not sent if the log is closed and refuses it', async (t) => {
  const log = await open(temporaryDirectory(t), createMemoryStore());
  log.close();
  t.throws(() => log.noteSending(log.next()), { code: 'ERR_MASTER_STOPPED' });
});

function record(minions: string[], number: number, missing: string[] = []) {
  return {
    ...{ jid, fun: 'test.ping', arg: [], tgt: '*', tgtType: 'glob', user: 'u', missing },
    ...{ publishedAt: 0, selfMade: false, minions },
    publications: [{ process: 'p', number, minions: minions.length }],
  };
}

test('a slice adds no ids without a key to the job', (t) => {
  const job = withSlice(record(['a'], 1, ['x']), record(['b'], 2, ['y', 'z']));
  t.deepEqual([job.minions, job.missing], [['a', 'b'], ['x']]);
});

test('a slice removes its minions from those that never received the job', (t) => {
  const both = withSlice(withSlice(record(['a', 'b'], 1), record(['c'], 2)), record(['b', 'd'], 3));
  t.deepEqual(both.minions, ['a', 'c', 'b', 'd']);
  t.deepEqual(
    both.publications?.map(({ number, minions }) => [number, minions]),
    [
      [1, 1],
      [2, 1],
      [3, 2],
    ],
  );
});

async function startMaster(
  t: ExecutionContext,
  directory: string,
  parts: Pick<CreateMasterOptions, 'transports'> = {},
): Promise<Master> {
  const config = resolveMasterConfig({
    ...directories(directory),
    interface: '127.0.0.1',
    retPort: 0,
    publishPort: 0,
  });
  writeMasterKeys(config.pkiDir);
  const master = createMaster({ config, ...parts });
  t.teardown(() => master.close());
  await master.start();
  return master;
}

test('a job that was stored but never sent is reported, and may be published again', async (t) => {
  const directory = temporaryDirectory(t);
  const request = { tgt: ['m1'], tgtType: 'list', fun: 'test.ping', jid };
  const former = await startMaster(t, directory);
  await former.keys.create({ id: 'm1' });
  await former.jobs.publish(request);
  await former.close();
  rewrite(resolveMasterConfig(directories(directory)).stateDir, ended, 0);
  const next = await startMaster(t, directory);
  const reason = async (): Promise<unknown> => (await next.jobs.show(jid)).deliveries[0]?.reason;
  t.is(await reason(), 'not-sent');
  const updates = [];
  for await (const update of next.jobs.follow(jid)) updates.push(update);
  t.like(updates, [
    { type: 'published', notSent: ['m1'] },
    { type: 'finished', silent: ['m1'], deliveries: [{ reason: 'not-sent' }] },
  ]);
  await next.jobs.publish(request);
  t.not(await reason(), 'not-sent');
  await t.throwsAsync(next.jobs.publish(request), { code: 'ERR_ARGS' });
});

test('each publication is noted before it is sent', async (t) => {
  const directory = temporaryDirectory(t);
  const file = path.join(resolveMasterConfig(directories(directory)).stateDir, 'publications');
  const noted: number[] = [];
  const { master: memory } = createMemoryTransport();
  const transport: MasterTransport = {
    ...memory,
    name: 'memory',
    listen: (handler) => memory.listen(handler),
    disconnect: (id) => memory.disconnect(id),
    subscribers: () => [],
    refusals: () => ({}),
    close: () => memory.close(),
    publish: () => {
      noted.push(Number(readFileSync(file, 'utf8').split('\n')[1]));
      return { queued: 0, skipped: 0 };
    },
  };
  const master = await startMaster(t, directory, { transports: [transport] });
  await master.keys.create({ id: 'm1' });
  const request = { tgt: ['m1'], tgtType: 'list', fun: 'test.ping' };
  await Promise.all([master.jobs.publish(request), master.jobs.publish(request)]);
  t.deepEqual(noted, [1, 2]);
});

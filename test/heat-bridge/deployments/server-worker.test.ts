/** The worker of one server, which reads the server's metadata repeatedly. */
import test from 'ava';
import {
  type DeploymentRecord,
  DeploymentRecords,
} from '#guests/deployments/deployment-records.ts';
import { parseServerMetadata } from '#guests/deployments/metadata.ts';
import { watchedValuesOf } from '#guests/deployments/metadata-hooks.ts';
import { ServerWorker, type ServerWorkerDeps } from '#guests/deployments/server-worker.ts';
import { createSilentLogger, type SharedArea } from '#master';
import { until } from '../../helpers/deadline.ts';
import { twoMembers } from '../cluster.ts';
import { memoryState } from '../signals/open-signals.ts';

/** Opens records. All stacks of `a-1`, `a-2` and so on have the owner `a`. */
function openRecords(state: SharedArea, perOwner?: number): Promise<DeploymentRecords> {
  const ownerOf = (stack: string): string => stack.split('-')[0] ?? '';
  const bytes = perOwner === undefined ? {} : { bytes: { perOwner } };
  return DeploymentRecords.open({ state, ownerOf, now: Date.now, ...bytes });
}

/** Starts the worker of a server. Each deployment succeeds at once. */
function startWorker(
  deps: Pick<ServerWorkerDeps, 'closing' | 'read' | 'records'> & Partial<ServerWorkerDeps>,
): ServerWorker {
  const source = { stack: 'a-1', serverId: 'web', collect: undefined, login: undefined };
  return new ServerWorker(
    { server: 'web', source, subject: { kind: 'service', name: 'deployments' } },
    {
      minionOf: async () => 'web1',
      isPresent: async () => true,
      registerHandles: async () => [],
      resolve: () => ({ ok: true, call: { kind: 'command', command: 'demo.go', params: {} } }),
      run: async () => ({ end: 'succeeded', stdout: '', stderr: '', statusCode: 0, outputs: {} }),
      deliver: async () => ({ kind: 'delivered' }),
      turn: async () => {},
      onEnd: () => {},
      intervalMs: 1,
      backOff: { initialDelayMs: 1, maxDelayMs: 1 },
      now: Date.now,
      random: () => 0,
      log: createSilentLogger(),
      ...deps,
    },
  );
}

test('commands and status texts of a deployment are stored only on disk', async (t) => {
  const state = memoryState();
  const records = await openRecords(state);
  const call = { kind: 'command', command: 'demo.go', params: {} } as const;
  const record: DeploymentRecord = {
    ...{ stack: 'demo', server: 'web', id: 'one', name: 'one', minion: 'web1', begunAt: 1 },
    action: 'CREATE',
    state: 'running',
    call,
    body: '{}',
  };
  await records.put(record);
  for (const opened of [records, await openRecords(state)]) {
    const [known] = opened.of('demo', 'web');
    t.deepEqual([known?.call, known?.body], [undefined, undefined]);
    t.like(await opened.storedPartsOf(record), { call, body: '{}' });
  }
});

test('a member that has lost the lease can no longer change deployments', async (t) => {
  const [one, two] = await twoMembers(t);
  const [a, b] = await Promise.all([one, two].map(({ area }) => openRecords(area)));
  if (a === undefined || b === undefined) return t.fail();
  const record: DeploymentRecord = {
    ...{ stack: 'demo', server: 'web', id: 'one', name: 'one', minion: 'web1', begunAt: 1 },
    action: 'CREATE',
    state: 'running',
  };
  await one.begin();
  await a.put(record);
  await two.begin();
  t.like(b.of('demo', 'web'), [{ state: 'running' }]);
  await t.throwsAsync(a.put({ ...record, state: 'signalling' }), { code: 'ERR_REVISION' });
  await b.put({ ...record, state: 'done', end: 'succeeded' });
  await one.applied();
  t.like(a.of('demo', 'web'), [{ state: 'done', end: 'succeeded' }]);
  await a.forgetStack('demo');
  await two.applied();
  t.deepEqual(b.ofStack('demo'), []);
});

test('while a minion is away, the same metadata is not processed again', async (t) => {
  const parsed = parseServerMetadata({
    deployments: [{ id: 'one', name: 'one', group: 'saltbridge', config: 'demo.go' }],
  });
  if (!parsed.ok) return t.fail(parsed.problem);
  let reads = 0;
  let looks = 0;
  let resolved = 0;
  let onEnd = (): void => {};
  const ended = new Promise<void>((resolve) => {
    onEnd = resolve;
  });
  const closing = new AbortController();
  const worker = startWorker({
    records: await openRecords(memoryState()),
    read: async () => {
      reads += 1;
      return { kind: 'metadata', metadata: parsed.metadata, watched: new Map() };
    },
    isPresent: async () => {
      looks += 1;
      return looks > 5;
    },
    resolve: () => {
      resolved += 1;
      return { ok: true, call: { kind: 'command', command: 'demo.go', params: {} } };
    },
    onEnd,
    closing: closing.signal,
  });
  await ended;
  closing.abort();
  await worker.done;
  t.is(reads, 6);
  t.is(resolved, 2, 'at first, and when the minion is there');
});

test('records of the stacks of one owner share a limit on their size', async (t) => {
  const state = memoryState();
  const perOwner = 4_096;
  const records = await openRecords(state, perOwner);
  const recordOf = (stack: string, id: string, name: string): DeploymentRecord => ({
    ...{ stack, server: 'web', id, name, minion: 'web1', begunAt: 1, endedAt: 1 },
    action: 'CREATE',
    state: 'done',
  });
  await records.put(recordOf('a-1', 'one', 'x'.repeat(2_000)));
  const next = recordOf('a-2', 'two', 'x'.repeat(2_000));
  for (const opened of [records, await openRecords(state, perOwner)]) {
    t.false(opened.hasRoomFor(next), 'another stack of the same owner');
    t.true(opened.hasRoomFor({ ...next, stack: 'b-1' }), 'a stack of another owner');
  }
  await records.put(recordOf('a-1', 'one', 'short'));
  t.true(records.hasRoomFor(next), 'a record that became smaller');
  await records.put(next);
  await records.keepOnly('a-2', 'web', new Set(['two']));
  t.is(records.of('a-2', 'web').length, 1, 'a deployment that Heat lists');
  await records.keepOnly('a-2', 'web', new Set());
  t.is(records.of('a-2', 'web').length, 0, 'deleted early, because half of the limit is used');
  await records.forgetStack('a-1');
  t.true(records.hasRoomFor(recordOf('a-3', 'three', 'x'.repeat(3_500))));
});

for (const [what, metadata] of [
  ['deployment', { deployments: [{ id: 'one', group: 'saltbridge', config: 'demo.go' }] }],
  [
    'change that runs no hook',
    {
      a: 1,
      'saltbridge:cfn-hup': { h: { triggers: 'post.remove', path: 'Metadata.a', action: 'x' } },
    },
  ],
] as const) {
  test(`a ${what} waits while the records of the owner reach their limit`, async (t) => {
    const parsed = parseServerMetadata(metadata);
    if (!parsed.ok) return t.fail(parsed.problem);
    const closing = new AbortController();
    const records = await openRecords(memoryState(), 256);
    let reads = 0;
    const worker = startWorker({
      records,
      read: async () => {
        reads += 1;
        const { metadata: read } = parsed;
        return { kind: 'metadata', metadata: read, watched: watchedValuesOf(read.values) };
      },
      closing: closing.signal,
    });
    await until('three reads', () => reads >= 3);
    closing.abort();
    await worker.done;
    t.regex(worker.status.problem ?? '', /deployments wait: .* reach their size limit/);
    t.deepEqual(records.of('a-1', 'web'), []);
  });
}

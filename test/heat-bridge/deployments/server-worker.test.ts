/** The worker of one server, which reads the server's metadata repeatedly. */
import test from 'ava';
import {
  type DeploymentRecord,
  DeploymentRecords,
} from '#guests/deployments/deployment-records.ts';
import { parseServerMetadata } from '#guests/deployments/metadata.ts';
import { ServerWorker } from '#guests/deployments/server-worker.ts';
import { createSilentLogger } from '#master';
import { twoMembers } from '../cluster.ts';
import { memoryState } from '../signals/open-signals.ts';

test('commands and status texts of a deployment are stored only on disk', async (t) => {
  const state = memoryState();
  const records = await DeploymentRecords.open(state, Date.now);
  const call = { kind: 'command', command: 'demo.go', params: {} } as const;
  const record: DeploymentRecord = {
    ...{ stack: 'demo', server: 'web', id: 'one', name: 'one', minion: 'web1', begunAt: 1 },
    action: 'CREATE',
    state: 'running',
    call,
    body: '{}',
  };
  await records.put(record);
  for (const opened of [records, await DeploymentRecords.open(state, Date.now)]) {
    const [known] = opened.of('demo', 'web');
    t.deepEqual([known?.call, known?.body], [undefined, undefined]);
    t.like(await opened.storedPartsOf(record), { call, body: '{}' });
  }
});

test('a member that has lost the lease can no longer change deployments', async (t) => {
  const [one, two] = await twoMembers(t);
  const [a, b] = await Promise.all(
    [one, two].map(({ area }) => DeploymentRecords.open(area, Date.now)),
  );
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
  const worker = new ServerWorker(
    {
      server: 'web',
      source: { stack: 'demo', serverId: 'web', collect: undefined, login: undefined },
      subject: { kind: 'service', name: 'deployments' },
    },
    {
      records: await DeploymentRecords.open(memoryState(), Date.now),
      read: async () => {
        reads += 1;
        return { kind: 'metadata', metadata: parsed.metadata };
      },
      minionOf: async () => 'web1',
      isPresent: async () => {
        looks += 1;
        return looks > 5;
      },
      registerHandles: async () => [],
      resolve: () => {
        resolved += 1;
        return { ok: true, call: { kind: 'command', command: 'demo.go', params: {} } };
      },
      run: async () => ({ end: 'succeeded', stdout: '', stderr: '', statusCode: 0, outputs: {} }),
      deliver: async () => ({ kind: 'delivered' }),
      turn: async () => {},
      onEnd,
      intervalMs: 1,
      backOff: { initialDelayMs: 1, maxDelayMs: 1 },
      closing: closing.signal,
      now: Date.now,
      random: () => 0,
      log: createSilentLogger(),
    },
  );
  await ended;
  closing.abort();
  await worker.done;
  t.is(reads, 6);
  t.is(resolved, 2, 'at first, and when the minion is there');
});

/** Members of a cluster share one queue of reactions. */
import test, { type ExecutionContext } from 'ava';
import type { LogStore } from '#cluster/log/log-store.ts';
import { createSilentLogger } from '#master';
import type { CompiledReaction } from '#salt/reactor/compile-reactions.ts';
import { type OpenRun, ReactionQueue } from '#salt/reactor/reaction-queue.ts';
import type { ReactionReports } from '#salt/reactor/reaction-reports.ts';
import { ReactionWorker } from '#salt/reactor/reaction-worker.ts';
import { StoreError } from '#store';
import { until } from '../../helpers/deadline.ts';
import { TestCluster } from '../../store-suite/cluster.ts';

const gone = new Set<string>();

function openQueue(
  t: ExecutionContext,
  store: Pick<LogStore, 'get' | 'list' | 'onChange' | 'write'>,
  member: string,
): Promise<ReactionQueue> {
  const end = new AbortController();
  t.teardown(() => end.abort());
  return ReactionQueue.open({
    store,
    cluster: {
      member,
      isGone: (name) => gone.has(name),
      follow: (prefix, listener) => store.onChange(prefix, listener, end.signal),
    },
    log: createSilentLogger(),
    keepMs: 60_000,
    keepMarksMs: 60_000,
    now: Date.now,
  });
}

/** Returns the part of a store that the queue uses. */
function storeOf(store: LogStore): Pick<LogStore, 'get' | 'list' | 'onChange'> {
  return {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    onChange: (prefix, listener, signal) => store.onChange(prefix, listener, signal),
  };
}

function run(jid: string): OpenRun {
  return {
    ...{ jid, reaction: 'one', tag: 'a/b', depth: 0, queuedAt: 0, isSent: false },
    call: { kind: 'runner', fun: 'manage.present', arg: [], kwarg: {} },
  };
}

interface Site {
  readonly stores: readonly [LogStore, LogStore];
  readonly a: ReactionQueue;
  readonly b: ReactionQueue;
}

async function site(t: ExecutionContext): Promise<Site> {
  gone.clear();
  const cluster = new TestCluster(t);
  await cluster.found();
  const stores = [await cluster.open('a'), await cluster.open('b')] as const;
  const [a, b] = [await openQueue(t, stores[0], 'a'), await openQueue(t, stores[1], 'b')];
  return { stores, a, b };
}

test('the effects of one event at two members are queued once', async (t) => {
  const { stores, a, b } = await site(t);
  const mark = { minion: 'm1', request: 'r', place: 'p' };
  const window = { values: [1], lengthMs: 60_000 };
  const marked = await Promise.all([
    a.add(run('1'), { mark, window: undefined }),
    b.add(run('2'), { mark, window: undefined }),
  ]);
  t.deepEqual(marked.sort(), ['queued', 'repeated']);
  const within = await Promise.all([
    a.add(run('3'), { mark: undefined, window }),
    b.add(run('4'), { mark: undefined, window }),
  ]);
  t.deepEqual(within.sort(), ['once', 'queued']);
  await Promise.all(stores.map((store) => store.barrier()));
  const counted = { all: 2, own: 2 };
  t.deepEqual(
    [a, b].map((it) => it.count('one', run('1').sender)),
    [counted, counted],
  );
});

test('another member takes over the work of a lost member, which can then end nothing', async (t) => {
  const { stores, a, b } = await site(t);
  await a.add(run('1'), { mark: undefined, window: undefined });
  await stores[1].barrier();
  t.deepEqual([b.abandoned(true), a.abandoned(true)], [[], []]);
  gone.add('a');
  t.deepEqual([b.abandoned(true), b.abandoned(false)], [['1'], []]);
  // Two processes of member b run, as at a restart that the first one does not notice.
  const again = await openQueue(t, stores[1], 'b');
  const taken = await Promise.all([b.take('1'), again.take('1')]);
  t.is(taken.filter((it) => it !== undefined).length, 1);
  await stores[0].barrier();
  t.deepEqual(
    a.open.map(({ member }) => member),
    ['b'],
  );
  t.deepEqual(a.count('one', undefined), { all: 1, own: 1 });
  t.is(await a.end('1', 'succeeded'), undefined);
  const owner = taken[0] === undefined ? again : b;
  t.like(await owner.end('1', 'succeeded'), { jid: '1', outcome: 'succeeded' });
  await stores[0].barrier();
  t.deepEqual(a.open, []);
  t.deepEqual(a.count('one', undefined), { all: 0, own: 0 });
});

test('a process that has lost a run without notice has no effect', async (t) => {
  const { stores, a } = await site(t);
  await a.add(run('1'), { mark: undefined, window: undefined });
  const blind = await ReactionQueue.open({
    store: stores[0],
    cluster: { member: 'a', isGone: () => false, follow: () => {} },
    log: createSilentLogger(),
    keepMs: 1,
    keepMarksMs: 1,
    now: Date.now,
  });
  t.deepEqual(blind.abandoned(false), ['1']);
  await blind.take('1');
  await blind.add(run('2'), { mark: undefined, window: undefined });
  await t.throwsAsync(blind.end('2', 'succeeded'), { code: 'ERR_REVISION' });
  t.is(await a.end('1', 'succeeded'), undefined);
});

test('a run that was stored despite a failed write is taken by the process that queued it', async (t) => {
  const { stores } = await site(t);
  const [store] = stores;
  let isFailing = true;
  const failing: Pick<LogStore, 'get' | 'list' | 'onChange' | 'write'> = {
    ...storeOf(store),
    write: async (operations) => {
      const revision = await store.write(operations);
      if (isFailing) throw new StoreError('ERR_CLUSTER_OUTCOME', 'too few have confirmed it');
      return revision;
    },
  };
  const queue = await openQueue(t, failing, 'a');
  const added = queue.add(run('1'), { mark: undefined, window: undefined });
  await t.throwsAsync(added, { code: 'ERR_CLUSTER_OUTCOME' });
  isFailing = false;
  t.deepEqual(queue.abandoned(false), ['1']);
  t.like(await queue.take('1'), { jid: '1', member: 'a' });
  t.like(await queue.end('1', 'succeeded'), { outcome: 'succeeded' });
});

/** Executes the runs of one member. Each run lasts until the test ends it. */
function workerOf(t: ExecutionContext, queue: ReactionQueue, running: Map<string, () => void>) {
  const closing = new AbortController();
  t.teardown(() => closing.abort());
  const unused = (): never => {
    throw new Error('not asked');
  };
  const worker = new ReactionWorker({
    policy: {
      get current() {
        return unused();
      },
    },
    targets: { resolveCertain: unused, resolveWithin: unused },
    jobs: { run: unused },
    dispatcher: { republish: unused },
    runners: { run: unused },
    wheel: { run: unused },
    commands: () => ({
      run: ({ jid }) =>
        new Promise((resolve) => running.set(jid, () => resolve({ outcome: 'succeeded' }))),
    }),
    reactions: () => [
      { reaction: { name: 'one', maxConcurrent: 2, timeoutSeconds: 60 } } as CompiledReaction,
    ],
    queue,
    reports: { count: () => {} } as unknown as ReactionReports,
    isReachable: async () => false,
    closing: closing.signal,
    log: createSilentLogger(),
  });
  queue.onEnded = (reaction) => worker.startNext(reaction);
  return worker;
}

test('the concurrent runs of a reaction are limited over all members', async (t) => {
  const { stores, a, b } = await site(t);
  const applied = () => Promise.all(stores.map((store) => store.barrier()));
  const running = new Map<string, () => void>();
  const members = [a, b].map((queue) => ({ queue, worker: workerOf(t, queue, running) }));
  const call = { kind: 'command', fun: 'x', arg: [], kwarg: {}, target: { tgt: '*' } } as const;
  const added = Array.from({ length: 6 }, (_, index) => ({ ...run(String(index)), call }));
  await Promise.all(
    added.map(async (it, index) => {
      const member = members[index % 2];
      await member?.queue.add(it, { mark: undefined, window: undefined });
      member?.worker.start(it);
    }),
  );
  const ended = new Set<string>();
  while (ended.size < added.length) {
    await applied();
    await until('a run', () => running.size > 0);
    t.true(running.size <= 2);
    t.deepEqual(a.first('one', 2), b.first('one', 2));
    const [[jid, end] = ['', () => {}]] = running;
    running.delete(jid);
    ended.add(jid);
    end();
    await until('its end', () => a.open.length === added.length - ended.size);
  }
  t.deepEqual(a.first('one', 2), []);
});

test('the member with the run repeats a failed write once the store accepts it', async (t) => {
  const { stores } = await site(t);
  const [store] = stores;
  let isFailing = false;
  const failing = {
    ...storeOf(store),
    write: async (operations: Parameters<LogStore['write']>[0]) => {
      if (isFailing) throw new StoreError('ERR_CLUSTER_ALONE', 'too few are alive');
      return store.write(operations);
    },
  };
  const queue = await openQueue(t, failing, 'a');
  for (const jid of ['1', '2']) await queue.add(run(jid), { mark: undefined, window: undefined });
  isFailing = true;
  await t.throwsAsync(queue.end('1', 'succeeded'), { code: 'ERR_CLUSTER_ALONE' });
  queue.leave('2');
  isFailing = false;
  t.deepEqual(queue.abandoned(false), ['1', '2']);
  for (const jid of ['1', '2']) {
    t.like(await queue.take(jid), { jid });
    t.like(await queue.end(jid, 'interrupted'), { jid });
  }
  t.deepEqual(queue.first('one', 1), []);
});

test('runs of a member that leaves are available at once', async (t) => {
  const { stores, a, b } = await site(t);
  await a.add(run('1'), { mark: undefined, window: undefined });
  await stores[1].barrier();
  let told = 0;
  b.onLeft = () => {
    told += 1;
  };
  await a.leaveAll();
  await stores[1].barrier();
  t.deepEqual([told, b.abandoned(true)], [1, ['1']]);
});

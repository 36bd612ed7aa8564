/** What a crash leaves: a run that was acknowledged is done, and under one jid alone. */
import test, { type ExecutionContext } from 'ava';
import { openRunsPrefix, unpackOpenRun } from '../../../master/reactor/reaction-queue.ts';
import { createMemoryTransport, type MasterTransport } from '../../../minion-protocol/index.ts';
import { createMemoryStore, type Store, StoreError } from '../../../store/index.ts';
import { until, within } from '../../helpers/deadline.ts';
import { RECORDED_AT } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { acl, grant, puppet, type Stage, startStage, startWeb, tag } from './stage.ts';

const startEvent = recorded('minion_event', 'start event v3');

/** An event that needs no rule: after it, the minion's version is known, and nothing of it is kept. */
const own = 'minion_ping';

interface Disk {
  readonly store: Store;
  /** Writes that still succeed. */
  left: number;
}

/** A store that keeps nothing any more after some writes, as if the process had ended there. */
function fragileStore(memory: Store): Disk {
  const disk: Disk = {
    left: Number.POSITIVE_INFINITY,
    store: new Proxy(memory, {
      get(target, name) {
        if (name === 'write') {
          return async (operations: Parameters<Store['write']>[0]) => {
            disk.left -= 1;
            if (disk.left < 0) throw new StoreError('ERR_STORE_CLOSED', 'gone');
            return target.write(operations);
          };
        }
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    }),
  };
  return disk;
}

/** Sends a request; whether it was acknowledged. */
async function isAcknowledged(stage: Stage, request: Uint8Array, nonce: string): Promise<boolean> {
  try {
    return openReply(startEvent, await stage.ask(request), nonce) === null;
  } catch {
    return false;
  }
}

async function sent({ master }: Stage): Promise<void> {
  while ((await master.reactions.runs())[0]?.state !== 'running') {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A master that ends with a run in the queue: its store and its directory. */
async function leaveWaiting(t: ExecutionContext): Promise<Pick<Stage, 'store' | 'directory'>> {
  const memory = createMemoryStore({ now: () => RECORDED_AT });
  const disk = fragileStore(memory);
  const { emit, master, directory, ...rest } = await startStage(t, {}, { store: disk.store });
  await startWeb(t, rest);
  await emit({}, own);
  disk.left = 1;
  await emit({ env: 'live' });
  await master.close();
  return { store: memory, directory };
}

for (let writes = 0; writes <= 5; writes += 1) {
  test(`a master that ends after ${writes} writes has done the run once, or leaves it`, async (t) => {
    const memory = createMemoryStore({ now: () => RECORDED_AT });
    const disk = fragileStore(memory);
    const first = await startStage(t, {}, { store: disk.store });
    const jids: string[] = [];
    const functions = {
      'test.kwarg': (_call: unknown, { jid }: { readonly jid: string }) => {
        jids.push(jid);
        return true;
      },
    };
    await startWeb(t, first, functions);
    await first.emit({}, own);
    const nonce = freshNonce();
    const request = altered(startEvent, { load: { tag, data: { env: 'live' }, nonce } });
    disk.left = writes;
    const wasAcknowledged = await isAcknowledged(first, request, nonce);
    t.is(wasAcknowledged, writes > 0);
    // The run, the job and a serial are kept: then the job leaves, and is not to be cut off.
    if (writes >= 3) await until('the job to run', () => jids.length > 0);
    await first.master.close();

    const second = await startStage(t, {}, { store: memory, directory: first.directory });
    await startWeb(t, second, functions);
    t.true(await isAcknowledged(second, request, nonce), 'sent again');
    const [run] = await second.ended(1);
    t.is((await second.master.reactions.runs()).length, 1);
    await until('the job to run', () => jids.length > 0);
    t.deepEqual([...new Set(jids)], [run?.jid]);
  });
}

test('a request that comes again, also to the next master, leads to no second run', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const first = await startStage(t, {}, { store });
  const { calls } = await startWeb(t, first);
  const nonce = freshNonce();
  const request = altered(startEvent, { load: { tag, data: { env: 'live' }, nonce } });
  for (let time = 0; time < 3; time += 1) t.true(await isAcknowledged(first, request, nonce));
  await first.ended(1);
  await first.master.close();
  const startAt = RECORDED_AT + 2000;
  const second = await startStage(t, {}, { store, directory: first.directory, startAt });
  t.true(await isAcknowledged(second, request, nonce));
  t.is((await second.master.reactions.runs()).length, 1);
  t.is((await second.counters())['reaction-repeated'], 1);
  t.is(calls.length, 1);
});

test('an event that was dropped does not lead to a run when it comes again', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const once = { ...puppet, oncePer: 60 };
  const first = await startStage(t, { reactions: [once] }, { store });
  await startWeb(t, first);
  await first.emit({ env: 'live' });
  const nonce = freshNonce();
  const request = altered(startEvent, { load: { tag, data: { env: 'live' }, nonce } });
  t.true(await isAcknowledged(first, request, nonce));
  await first.ended(1);
  await first.master.close();
  const config = { reactions: [puppet] };
  const second = await startStage(t, config, { store, directory: first.directory });
  t.true(await isAcknowledged(second, request, nonce));
  t.is((await second.master.reactions.runs()).length, 1);
});

test('a run that waits is done by the next master, in which its right is asked for anew', async (t) => {
  for (const [rules, state] of [
    [[grant], 'succeeded'],
    [[], 'denied'],
  ] as const) {
    const left = await leaveWaiting(t);
    const config = { acl: acl(...rules) };
    const second = await startStage(t, config, left);
    await startWeb(t, second);
    t.is((await second.ended(1))[0]?.state, state);
  }
});

test('a run of a reaction that is gone is not done', async (t) => {
  const left = await leaveWaiting(t);
  const second = await startStage(t, { reactions: [] }, left);
  const { calls } = await startWeb(t, second);
  t.is((await second.ended(1))[0]?.state, 'removed');
  t.deepEqual(calls, []);
});

test('a job that has left is not published again, though its minions know nothing of it', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const first = await startStage(t, {}, { store });
  let began: () => void = () => {};
  const beginning = new Promise<void>((resolve) => {
    began = resolve;
  });
  await startWeb(t, first, {
    'test.kwarg': async (_call, { signal }) => {
      began();
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      return true;
    },
  });
  await first.emit({ env: 'live' });
  await within('the job to begin', beginning);
  await within('the job to be known as sent', sent(first));
  await first.master.close();
  const second = await startStage(t, {}, { store, directory: first.directory });
  const { calls, minion } = await startWeb(t, second);
  t.is((await second.ended(1))[0]?.state, 'interrupted');
  t.is(minion.state.state, 'connected');
  const jobs = await second.master.jobs.list();
  await second.emit({ env: 'test' });
  await second.ended(2);
  t.deepEqual(calls, [{ env: 'test' }]);
  t.is(jobs.length, 1);
});

test('what is under way before the start is over is not taken for left by another master', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const first = createMemoryTransport();
  const late = createMemoryTransport();
  const request = altered(startEvent, {
    load: { tag, data: { env: 'live' }, nonce: freshNonce() },
  });
  const listen: MasterTransport['listen'] = async (...handlers) => {
    await first.dial('peer', '192.0.2.9').request(request, 10_000);
    await within('the job to have left', sentIn(store));
    return late.master.listen(...handlers);
  };
  const second = new Proxy(late.master, {
    get: (target, name) => {
      const value: unknown = name === 'listen' ? listen : Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const stage = await startStage(t, {}, { store, transports: [first.master, second] });
  const [run, ...more] = await stage.master.reactions.runs();
  t.deepEqual(more, []);
  t.is(run?.state, 'running');
});

async function sentIn(store: Store): Promise<void> {
  for (;;) {
    for await (const { value } of store.list(openRunsPrefix)) {
      if (unpackOpenRun(value).isSent) return;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

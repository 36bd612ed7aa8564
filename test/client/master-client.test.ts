/** Tests that the client has the interface and the errors of a master. */

import path from 'node:path';
import test from 'ava';
import { connectMaster, RemoteError } from '#client';
import type { JobUpdate } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';
import { openPublication } from '#minion-protocol/publication.ts';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories, startVectorMaster, type VectorMaster } from '../helpers/vector-master.ts';
import { aesKey, altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { keys } from '../helpers/vectors.ts';

function clientOf({ directory }: VectorMaster): ReturnType<typeof connectMaster> {
  return connectMaster({ socketPath: directories(directory).socket ?? '' });
}

test('a client reads the same data as the master in the process', async (t) => {
  const running = await startVectorMaster(t);
  const client = clientOf(running);
  t.deepEqual(await client.status(), await running.master.status());
  t.deepEqual(await client.keys.list(), await running.master.keys.list());
  t.deepEqual(await client.keys.local(), await running.master.keys.local());
  t.deepEqual(await client.events.denials(), []);
  t.deepEqual(await client.presence(), []);
});

test('a client follows a job to its end', async (t) => {
  const running = await startVectorMaster(t);
  const updates: JobUpdate['type'][] = [];
  for await (const update of clientOf(running).jobs.run({ tgt: '*', fun: 'test.ping' })) {
    updates.push(update.type);
    if (update.type !== 'published') continue;
    const nonce = freshNonce();
    const load = { jid: update.jid, nonce };
    await running.ask(altered(recorded('return', 'simple v3'), { load }));
  }
  t.deepEqual(updates, ['published', 'return', 'finished']);
});

test('arguments of every type reach the minions unchanged', async (t) => {
  const running = await startVectorMaster(t);
  const minion = running.dial(keys.minionId);
  t.teardown(() => minion.close());
  const envelope = new Promise<Uint8Array>((resolve) => {
    void minion.subscribe(0, null, resolve);
  });
  const arg = [1, 2n ** 60n, 'text', new Uint8Array([0, 255]), null, { $bytes: 'x', list: [true] }];
  for await (const _update of clientOf(running).jobs.run({ tgt: '*', fun: 'test.arg', arg })) break;
  const packed = await within('the publication', envelope);
  t.deepEqual(JSON.stringify(argumentsIn(packed), plain), JSON.stringify(arg, plain));
});

test('the start events that a client requests are requested from the minions', async (t) => {
  const running = await startVectorMaster(t);
  const fired = await running.eventsDuring(async () => {
    await clientOf(running).jobs.publish({ tgt: '*', fun: 'test.ping', startEvent: true });
  });
  t.is(fired.find(({ tag }) => tag.endsWith('/publish'))?.data.start_event, true);
});

test('a client receives the events from its subscription until it stops', async (t) => {
  const running = await startVectorMaster(t);
  const end = new AbortController();
  const events = await clientOf(running).events.subscribe({ match: 'salt/minion/*' }, end.signal);
  const first = (async () => {
    for await (const { tag } of events) return tag;
    return undefined;
  })();
  const fire = async (): Promise<void> => {
    const load = { nonce: freshNonce() };
    await running.ask(altered(recorded('minion_event', 'start event v3'), { load }));
  };
  // The subscription is active some turns of the event loop after the call, so fire events until
  // one arrives.
  let told: string | undefined;
  void first.then((tag) => {
    told = tag;
  });
  while (told === undefined) await fire();
  t.is(told, `salt/minion/${keys.minionId}/start`);
});

test('the code of an error of the master is the code of the error of the client', async (t) => {
  const client = clientOf(await startVectorMaster(t));
  await t.throwsAsync(
    client.jobs.run({ tgt: '*', fun: 'nonsense' })[Symbol.asyncIterator]().next(),
    {
      name: 'RemoteError',
      code: 'ERR_ARGS',
    },
  );
});

test('arguments that are nested too deeply are refused before anything is sent', async (t) => {
  const client = connectMaster({ socketPath: path.join(temporaryDirectory(t), 'none.sock') });
  const nested: WireValue[] = [];
  let inner = nested;
  for (let depth = 0; depth < 20_000; depth += 1) {
    const next: WireValue[] = [];
    inner.push(next);
    inner = next;
  }
  const publication = client.jobs.publish({ tgt: '*', fun: 'test.arg', arg: [nested] });
  const error = await t.throwsAsync<RemoteError>(publication, {
    code: 'ERR_ARGS',
    message: /more than 256 levels/,
  });
  t.false(error?.wasSent);
});

test('if no master listens, the error names the socket and the remedy', async (t) => {
  const socketPath = path.join(temporaryDirectory(t), 'none.sock');
  const error = await t.throwsAsync(connectMaster({ socketPath }).status(), { code: 'ERR_SOCKET' });
  t.true(error?.message.includes(socketPath));
  t.regex(error?.message ?? '', /saltbridge master/);
});

function argumentsIn(packed: Uint8Array): unknown {
  const load = openPublication(packed, { key: aesKey });
  return isWireMap(load) ? load.arg : undefined;
}

/** Replacer for JSON that converts bytes and large numbers to text. */
function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Uint8Array ? [...value] : value;
}

test('a plan has the same result over the local socket', async (t) => {
  const { master, directory } = await startVectorMaster(t);
  const client = connectMaster({ socketPath: directories(directory).socket });
  const request = { tgt: `G|@os|x or L@${keys.minionId},gone`, tgtType: 'compound' };
  const plan = await client.jobs.plan(request);
  t.deepEqual(plan, await master.jobs.plan(request));
  t.deepEqual(
    plan.minions.map(({ reason }) => reason),
    ['matched', 'missing'],
  );
});

test('a delimiter is sent over the local socket, and an empty one is refused', async (t) => {
  const { directory } = await startVectorMaster(t);
  const client = connectMaster({ socketPath: directories(directory).socket });
  const request = { tgt: 'os|x', tgtType: 'grain', fun: 'test.ping' };
  const run = client.jobs.run({ ...request, delimiter: '|' })[Symbol.asyncIterator]();
  t.like(await run.next(), { value: { type: 'published', minions: [keys.minionId] } });
  await run.return?.();
  const refused = client.jobs.run({ ...request, delimiter: '' })[Symbol.asyncIterator]();
  await t.throwsAsync(refused.next(), { instanceOf: RemoteError, code: 'ERR_BAD_TGT' });
});

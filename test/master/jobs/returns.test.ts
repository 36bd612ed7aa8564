/** Whose return is taken: asked of the sender, for this function, once [THREATS M-03, M-04]. */
import test, { type ExecutionContext } from 'ava';
import type { WireValue } from '../../../minion-protocol/index.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const pingReturn = recorded('return', 'simple v3');
const selfMade = recorded('return', 'standalone job, jid req v3');

/** Two accepted minions, and a job that was published to one of them. */
async function startWithJob(
  t: ExecutionContext,
  minion: string,
): Promise<VectorMaster & { readonly jid: string }> {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'other', publicPem: pem('other_minion').publicPem },
    ],
    config: { limits: { requestsPerSecond: 0 } },
  });
  const follow = master.master.jobs.run({ tgt: minion, fun: 'test.ping' });
  for await (const update of follow) {
    if (update.type === 'published') return { ...master, jid: update.jid };
  }
  throw new Error('nothing was published');
}

async function giveBack(
  master: Pick<VectorMaster, 'ask' | 'eventsDuring'>,
  load: Readonly<Record<string, WireValue | undefined>>,
): Promise<{ value: WireValue; tags: string[] }> {
  const nonce = freshNonce();
  let value: WireValue = null;
  const events = await master.eventsDuring(async () => {
    const reply = await master.ask(altered(pingReturn, { load: { ...load, nonce } }));
    value = openReply(pingReturn, reply, nonce);
  });
  return { value, tags: events.map(({ tag }) => tag) };
}

test('a return is taken for a job that was published to its sender', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const { jid } = master;
  t.deepEqual(await giveBack(master, { jid }), {
    value: null,
    tags: [`salt/job/${jid}/ret/${keys.minionId}`],
  });
});

test('what later releases add to a return is kept, signed or not', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const { jid } = master;
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const nonce = freshNonce();
  const events = await master.eventsDuring(() =>
    master.ask(
      altered(pingReturn, { load: { jid, nonce, traceparent, sig: Buffer.alloc(256, 0xf0) } }),
    ),
  );
  t.is(events.length, 1);
  t.is(events[0]?.data.traceparent, traceparent);
  t.deepEqual(events[0]?.data.sig, Buffer.alloc(256, 0xf0));
});

test('a return that comes hours later, to a master that was restarted since, is taken', async (t) => {
  const first = await startWithJob(t, keys.minionId);
  const { jid, directory, store, clock } = first;
  await first.master.close();
  const startAt = clock.now + 20 * 3_600_000;
  clock.now = startAt;
  const config = { publishSession: 1_000_000 };
  const master = await startVectorMaster(t, { directory, store, startAt, config });
  const before = await master.master.jobs.show(jid);
  t.is(before.deliveries[0]?.state, 'reconnecting');
  const late = await giveBack(master, { jid, ts: startAt / 1000 });
  t.deepEqual(late, { value: null, tags: [`salt/job/${jid}/ret/${keys.minionId}`] });
  t.is((await master.master.jobs.show(jid)).deliveries[0]?.state, 'answered');
});

test('a job that was published to others takes no return of this minion', async (t) => {
  const master = await startWithJob(t, 'other');
  t.deepEqual(await giveBack(master, { jid: master.jid }), { value: false, tags: [] });
  t.is((await master.counters())['return-addressee-only'], 1);
});

test('a job that never was takes no return', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  for (const jid of [
    '20200102030405678901',
    '../../x',
    'x\n',
    `${master.jid}/`,
    '\0',
    'REQ',
    '0',
  ]) {
    t.deepEqual(await giveBack(master, { jid }), { value: false, tags: [] }, jid);
  }
  t.is((await master.counters())['return-known-job'], 7);
});

test('a job id that is no text, or too long, is no return', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  for (const jid of [undefined, null, 7, [], {}, '', '1'.repeat(65)]) {
    const { tags } = await giveBack(master, { jid });
    t.deepEqual(tags, []);
  }
  t.is((await master.counters())['malformed-return'], 7);
});

test('another function than the published one is refused', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  for (const fun of ['test.echo', ['test.ping', 'test.echo'], undefined, '']) {
    t.deepEqual((await giveBack(master, { jid: master.jid, fun })).tags, []);
  }
  t.deepEqual((await giveBack(master, { jid: master.jid })).tags.length, 1);
});

test('a second return changes nothing: the first one stays', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const { jid } = master;
  await giveBack(master, { jid, return: 'first' });
  t.deepEqual(await giveBack(master, { jid, return: 'second' }), { value: null, tags: [] });
  t.is((await master.counters())['repeated-return'], 1);
  const kept: string[] = [];
  for await (const { value } of master.store.list(['returns', jid])) {
    kept.push(Buffer.from(value).toString('latin1'));
  }
  t.is(kept.length, 1);
  t.true(kept[0]?.includes('first'));
});

test('fields of a return reach the event, but never in place of who and what it was', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const { jid } = master;
  const nonce = freshNonce();
  const load = {
    jid,
    nonce,
    minions: ['other'],
    tgt: 'other',
    cmd: '_return',
    out: 'x',
    user: 'root',
  };
  const [event] = await master.eventsDuring(() => master.ask(altered(pingReturn, { load })));
  t.is(event?.data.id, keys.minionId);
  t.is(event?.tag, `salt/job/${jid}/ret/${keys.minionId}`);
});

test('a return that is too large is counted, and the job says so in its place', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { returnBytes: 4096 } } });
  const load = { return: 'x'.repeat(5000), jid: 'req', nonce: freshNonce() };
  const [event] = await master.eventsDuring(() => master.ask(altered(pingReturn, { load })));
  t.like(event?.data, { retcode: 1, success: false });
  t.regex(String(event?.data.return), /too large/);
  t.is((await master.counters())['return-bytes'], 1);
  t.is((await giveBack(master, { return: 'x', jid: 'req' })).tags.length, 1);
});

test('self-made jobs are bounded by the hour', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { requestsPerSecond: 0 } } });
  const ask = async (): Promise<WireValue> => {
    const nonce = freshNonce();
    return openReply(selfMade, await master.ask(altered(selfMade, { load: { nonce } })), nonce);
  };
  let kept = 0;
  while (kept < 700 && (await ask()) === null) kept += 1;
  // One more may come every six seconds.
  t.true(kept >= 600 && kept < 660, `${kept} were kept`);
  t.is((await master.counters())['return-self-made-jobs-per-hour'], 1);
});

test('a self-made job is never one that was published', async (t) => {
  const master = await startWithJob(t, 'other');
  const events = await master.eventsDuring(() =>
    master.ask(
      altered(selfMade, { load: { nonce: freshNonce(), fun: 'test.ping', tgt: 'other' } }),
    ),
  );
  t.not(events[0]?.data.jid, master.jid);
  t.is(events[0]?.data.tgt, keys.minionId);
});

test('a return of protocol 2 counts for the id whose key the master knows, not for others', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const vector = recorded('return', 'simple v2');
  const load = { jid: master.jid, id: 'nobody' };
  const reply = await master.ask(altered(vector, { load }));
  t.deepEqual(reply, Buffer.from('a8626164206c6f6164', 'hex'));
});

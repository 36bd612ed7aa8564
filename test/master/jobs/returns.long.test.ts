/**
 * A return is accepted only from a minion that was asked, for its function, and once [THREATS M-03,
 * M-04].
 */

import test, { type ExecutionContext } from 'ava';
import type { JobReturn, MasterExtension } from '#master';
import {
  fromJson,
  parseArgument,
  parseArguments,
  parseYaml,
  readMarkedJson,
  separateKeywords,
  toJson,
  writeMarkedJson,
} from '#master';
import { markedJson } from '#master/arguments/arguments.ts';
import { describeDeliveries, type MinionFacts } from '#master/jobs/follow-job.ts';
import { toArguments } from '#master/jobs/job-arguments.ts';
import { JobCache } from '#master/jobs/job-cache.ts';
import { stateErrorEvents } from '#master/jobs/job-events.ts';
import type { JobRecord } from '#master/jobs/job-row.ts';
import {
  isWireMap,
  type MasterTransport,
  minionTopic,
  type OutgoingPublication,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { openPublication } from '#minion-protocol/publication.ts';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { BROADCAST_TOPIC } from '#minion-protocol/transport/transport.ts';
import { readJsonInSteps } from '#runtime';
import { createMemoryStore, type Store } from '#store';
import { Float } from '#template/python/values.ts';
import { readCases } from '../../cli/fixture.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { RECORDED_AT, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import {
  aesKey,
  altered,
  byVersion,
  freshNonce,
  loadOf,
  openReply,
  recorded,
} from '../../helpers/vector-requests.ts';
import {
  base64,
  canonical,
  canonicalWire,
  cases,
  type JsonObject,
  keys,
  object,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const pingReturn = recorded('return', 'simple v3');
const selfMade = recorded('return', 'standalone job, jid req v3');

/** Starts a master with two accepted minions and a job for one of them. */
async function startWithJob(
  t: ExecutionContext,
  minion: string,
  extensions: readonly MasterExtension[] = [],
): Promise<VectorMaster & { readonly jid: string }> {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'other', publicPem: pem('other_minion').publicPem },
    ],
    config: { limits: { requestsPerSecond: 0 } },
    extensions,
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

test('a return is accepted for a job that was published to its sender', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const { jid } = master;
  t.deepEqual(await giveBack(master, { jid }), {
    value: null,
    tags: [`salt/job/${jid}/ret/${keys.minionId}`],
  });
});

test('a return that exceeds the share of its owner reaches callers and events completely', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [{ directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem }],
    config: { limits: { requestsPerSecond: 0, storedReturnBytes: 10_000 } },
  });
  const value = 'x'.repeat(20_000);
  const received: WireValue[] = [];
  let jid = '';
  for await (const update of master.master.jobs.run({ tgt: '*', fun: 'test.ping' })) {
    if (update.type === 'return') received.push(update.return);
    if (update.type !== 'published') continue;
    jid = update.jid;
    const nonce = freshNonce();
    const events = await master.eventsDuring(async () => {
      const load = { jid, nonce, return: value };
      t.is(openReply(pingReturn, await master.ask(altered(pingReturn, { load })), nonce), null);
    });
    t.deepEqual(
      events.map(({ data }) => data.return),
      [value],
    );
  }
  t.deepEqual(received, [value]);
  const { returns } = await master.master.jobs.show(jid);
  t.like(returns[0], { minion: keys.minionId, retcode: 0, success: true });
  t.regex(String(returns[0]?.return), /^This return was not stored: .*stored_return_bytes/);
  const metrics = await master.master.metrics();
  const samplesOf = (name: string) => metrics.find((it) => it.name === name);
  t.like(samplesOf('saltbridge_returns_not_stored_total'), { samples: [{ value: 1 }] });
  t.like(samplesOf('saltbridge_returns_stored_bytes'), { type: 'gauge' });
});

test('fields that later releases add to a return are stored, signed or not', async (t) => {
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
  t.deepEqual(events[0]?.data.sig, new Uint8Array(256).fill(0xf0));
});

test('a return is accepted hours later, even after a restart of the master', async (t) => {
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

test('a job published to other minions accepts no return of this minion', async (t) => {
  const master = await startWithJob(t, 'other');
  t.deepEqual(await giveBack(master, { jid: master.jid }), { value: false, tags: [] });
  t.is((await master.counters())['return-addressee-only'], 1);
});

test('an unknown job accepts no return', async (t) => {
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

test('a return with an invalid or long job id is refused', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  for (const jid of [undefined, null, 7, [], {}, '', '1'.repeat(65)]) {
    const { tags } = await giveBack(master, { jid });
    t.deepEqual(tags, []);
  }
  t.is((await master.counters())['malformed-return'], 7);
});

test('a return with a different function than the published one is refused', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  for (const fun of ['test.echo', ['test.ping', 'test.echo'], undefined, '']) {
    t.deepEqual((await giveBack(master, { jid: master.jid, fun })).tags, []);
  }
  t.deepEqual((await giveBack(master, { jid: master.jid })).tags.length, 1);
});

test('a second return does not replace the first', async (t) => {
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

test('secrets are removed only from returns that are stored or emitted', async (t) => {
  let examined = 0;
  const open: MasterExtension['open'] = async () => ({
    redactReturn: (_minion, load) => {
      examined += 1;
      return { ...load, return: 'open' };
    },
  });
  const master = await startWithJob(t, keys.minionId, [{ name: 'redacting', open }]);
  const { jid } = master;
  await giveBack(master, { jid: '20200102030405678901' });
  await giveBack(master, { jid, fun: 'test.echo' });
  t.is(examined, 0);
  await giveBack(master, { jid, return: 'secret' });
  await giveBack(master, { jid, return: 'secret' });
  t.is(examined, 1);
  for (let kept = 0; kept < 700; kept += 1) await giveBack(master, { jid: 'req' });
  t.true(examined < 700);
  const refused = examined;
  await giveBack(master, { jid: 'req' });
  t.is(examined, refused);
});

test('fields of a return reach the event, but cannot replace sender and job', async (t) => {
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

test('an oversized return is counted, and the job contains a note in its place', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { returnBytes: 4096 } } });
  const load = { return: 'x'.repeat(5000), jid: 'req', nonce: freshNonce() };
  const [event] = await master.eventsDuring(() => master.ask(altered(pingReturn, { load })));
  t.like(event?.data, { retcode: 1, success: false });
  t.regex(String(event?.data.return), /too large/);
  t.is((await master.counters())['return-bytes'], 1);
  t.is((await giveBack(master, { return: 'x', jid: 'req' })).tags.length, 1);
});

test('self-made jobs are limited per hour', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { requestsPerSecond: 0 } } });
  const ask = async (): Promise<WireValue> => {
    const nonce = freshNonce();
    return openReply(selfMade, await master.ask(altered(selfMade, { load: { nonce } })), nonce);
  };
  const begun = performance.now();
  let kept = 0;
  while (kept < 700 && (await ask()) === null) kept += 1;
  // One more return is allowed every six seconds.
  const most = 601 + (performance.now() - begun) / 6000;
  t.true(kept >= 600 && kept <= most, `${kept} were kept`);
  t.is((await master.counters())['return-self-made-jobs-per-hour'], 1);
});

test('the bytes of self-made jobs are bounded, and highstates of 5 MB fit', async (t) => {
  const master = await startVectorMaster(t);
  const ask = async (size: number): Promise<WireValue> => {
    const nonce = freshNonce();
    const load = { nonce, return: 'x'.repeat(size) };
    return openReply(selfMade, await master.ask(altered(selfMade, { load })), nonce);
  };
  const replies: WireValue[] = [];
  for (let n = 0; n < 16; n += 1) replies.push(await ask(5_000_000));
  t.is(replies.filter((reply) => reply === null).length, 14);
  t.is(await ask(10), false);
  t.is((await master.counters())['return-self-made-bytes'], 3);
});

test('a self-made job cannot have the id of a published job', async (t) => {
  const master = await startWithJob(t, 'other');
  const events = await master.eventsDuring(() =>
    master.ask(
      altered(selfMade, { load: { nonce: freshNonce(), fun: 'test.ping', tgt: 'other' } }),
    ),
  );
  t.not(events[0]?.data.jid, master.jid);
  t.is(events[0]?.data.tgt, keys.minionId);
});

test('a return of protocol 2 counts for the id of the verified key only', async (t) => {
  const master = await startWithJob(t, keys.minionId);
  const vector = recorded('return', 'simple v2');
  const load = { jid: master.jid, id: 'nobody' };
  const reply = await master.ask(altered(vector, { load }));
  t.deepEqual(reply, Buffer.from('a8626164206c6f6164', 'hex'));
});

// Recorded returns: replies and events are the same as Salt's, and stored values are returned
// unchanged.

const vectors = cases(vectorFile('return'), 'cases');
const published = vectors.filter((vector) => loadOf(vector).jid !== 'req');
const selfMadeReturns = vectors.filter((vector) => loadOf(vector).jid === 'req');

for (const [version, group] of byVersion(published)) {
  test(`answers recorded returns of protocol ${version} like Salt, with the same events`, async (t) => {
    const master = await startVectorMaster(t, { prepare: publishRecordedJobs });
    for (const vector of group) {
      const name = text(vector.name);
      const events = await master.eventsDuring(async () => {
        const reply = await master.ask(base64(vector.request_b64));
        t.is(openReply(vector, reply), null, name);
      });
      t.deepEqual(events.slice(-1).map(comparable), recordedEvents(vector), name);
    }
  });

  test(`stores the content of recorded returns of protocol ${version}`, async (t) => {
    const { ask, store } = await startVectorMaster(t, { prepare: publishRecordedJobs });
    for (const vector of group) {
      await ask(base64(vector.request_b64));
      const { jid, fun, retcode = 0, success = true, ...load } = loadOf(vector);
      const [kept, ...more] = await keptReturns(store, String(jid));
      t.deepEqual(more, []);
      t.is(kept?.minion, keys.minionId);
      t.deepEqual([kept?.fun, kept?.retcode, kept?.success], [fun, retcode, success]);
      t.is(canonical(kept?.return ?? null), canonical(load.return ?? null), text(vector.name));
    }
  });
}

test('a recorded failed state fires the events of the failure before the return', async (t) => {
  const resource = { tag: 'test.*' };
  const rule = { name: 'old', effect: 'allow', subject: { minion: '*' }, resource } as const;
  const acl = { rules: [{ ...rule, action: 'signal' }] } as const;
  for (const config of [{}, { acl }]) {
    const master = await startVectorMaster(t, { prepare: publishRecordedJobs, config });
    const [failed] = published.filter(({ name }) => text(name).startsWith('state run failed'));
    if (failed === undefined) return t.fail('no such case');
    const events = await master.eventsDuring(() => master.ask(base64(failed.request_b64)));
    const { jid } = loadOf(failed);
    t.deepEqual(
      events.map(({ tag }) => tag),
      [
        // Salt's old tag, which the minion chooses, is a signal that a rule has to permit.
        ...('acl' in config ? ['test.fail_without_changes'] : []),
        `salt/job/${jid}/sub/${keys.minionId}/error/state.sls`,
        `salt/job/${jid}/ret/${keys.minionId}`,
      ],
    );
  }
});

test('the failed states in a return cannot forge events, and fire a limited number', (t) => {
  const failed = { result: false };
  const eventsOf = (results: WireMap) =>
    stateErrorEvents({ fun: 'state.sls', retcode: 2, return: results }, '1', 'evil');
  const forged = eventsOf({
    'salt/minion/web1.example_|-a_|-b_|-com/start': failed,
    'salt/key/x_|-y': failed,
    'cmd_|-a_|-b_|-run': failed,
    'pkg_|-ok_|-ok_|-installed': { result: true },
  });
  t.deepEqual(
    forged.map(({ oldTag }) => oldTag),
    [undefined, undefined, 'cmd.run'],
  );
  t.true(forged.every(({ tag }) => tag === 'salt/job/1/sub/evil/error/state.sls'));
  const many = Array.from({ length: 5_000 }, (_, at) => [`cmd_|-${at}_|-${at}_|-run`, failed]);
  const events = eventsOf(Object.fromEntries(many));
  t.is(events.length, 101);
  t.is(events.at(-1)?.data.return, 'Error: 4900 further failed states');
});

for (const [version, vectors] of byVersion(selfMadeReturns)) {
  test(`a recorded self-made job of protocol ${version} gets a job id of the master`, async (t) => {
    const master = await startVectorMaster(t);
    for (const vector of vectors) {
      const events = await master.eventsDuring(() => master.ask(base64(vector.request_b64)));
      const [event] = events;
      t.is(events.length, 1, text(vector.name));
      t.regex(event?.tag ?? '', /^salt\/job\/202311142213\d{8}\/ret\/vecminion$/);
      const [recorded] = cases(vector, 'events_fired');
      const { jid: _jid, ...data } = loadOf({ request_load: recorded?.data ?? null });
      const { jid, _stamp, ...fired } = event?.data ?? {};
      t.is(canonicalWire(fired), canonicalWire(data), text(vector.name));
      const record = await jobsIn(master.store).record(String(jid));
      t.true(record?.selfMade);
      t.deepEqual(record?.minions, [keys.minionId]);
    }
  });
}

async function keptReturns(store: Store, jid: string): Promise<JobReturn[]> {
  const returns: JobReturn[] = [];
  for await (const result of jobsIn(store).returns(jid)) returns.push(result);
  return returns;
}

function jobsIn(store: Store): JobCache {
  const now = (): number => RECORDED_AT;
  return new JobCache({ store, isOn: true, keepMs: 86_400_000, keepMarksMs: 1, now });
}

async function publishRecordedJobs(store: Store): Promise<void> {
  for (const vector of published) {
    const { jid, fun } = loadOf(vector);
    await jobsIn(store).add({
      jid: String(jid),
      fun: String(fun),
      arg: [],
      tgt: '*',
      tgtType: 'glob',
      user: 'root',
      minions: [keys.minionId],
      missing: [],
      publishedAt: RECORDED_AT,
      selfMade: false,
    });
  }
}

function comparable({ tag, data }: { tag: string; data: WireMap }): unknown {
  const { _stamp, ...rest } = data;
  return { tag, data: canonicalWire(rest) };
}

function recordedEvents(vector: JsonObject): unknown[] {
  return cases(vector, 'events_fired').map(({ tag, data }) => ({
    tag,
    data: canonicalWire(toWireValue(data)),
  }));
}

// Jobs with recorded targets: the load and the topics of the publication must be the recorded ones.
// Other requests to the recorded master are left out.

const accepted = [
  { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
  { directory: 'minions', id: 'web1', publicPem: pem('minion2').publicPem },
] as const;

/** Fields of a publication that depend on the target. */
const targetFields = ['tgt', 'tgt_type', 'delimiter'];

const publishVectors = cases(vectorFile('publish'), 'cases').filter(
  ({ load, master_opts: options }) =>
    typeof object(load).fun === 'string' && object(options).order_masters !== true,
);

for (const vector of publishVectors) {
  test(`a job like "${vector.name}" is published as by a real master`, async (t) => {
    const sent: OutgoingPublication[] = [];
    const { master } = await startVectorMaster(t, { keys: accepted, transport: recording(sent) });
    const recorded = object(vector.load);
    const { tgt } = recorded;
    const job = master.jobs.run({
      tgt: Array.isArray(tgt) ? tgt.map(text) : text(tgt),
      tgtType: text(recorded.tgt_type),
      ...(recorded.delimiter === undefined ? {} : { delimiter: text(recorded.delimiter) }),
      fun: text(recorded.fun),
    });
    await job[Symbol.asyncIterator]().next();
    // Salt publishes the job even if no minion matches. Here nothing is sent then.
    if (recorded.tgt === 'none*') {
      t.deepEqual(sent, []);
      return;
    }
    const [publication] = sent;
    t.is(canonicalWire(targetOf(publication)), canonicalWire(expectedTarget(recorded)));
    if (object(vector.master_opts).zmq_filtering !== true) return;
    t.deepEqual(topicsOf(publication).sort(), recordedTopics(vector).sort());
  });
}

/** Returns a transport without subscribers that records what is published. */
function recording(sent: OutgoingPublication[]): MasterTransport {
  const { master } = createMemoryTransport();
  return {
    name: master.name,
    listen: (handler) => master.listen(handler),
    publish: (publication) => {
      sent.push(publication);
      return master.publish(publication);
    },
    disconnect: (id) => master.disconnect(id),
    subscribers: () => master.subscribers(),
    refusals: () => master.refusals(),
    close: (graceMs) => master.close(graceMs),
  };
}

function targetOf(publication: OutgoingPublication | undefined): WireMap {
  const load = publication && openPublication(publication.envelope, { key: aesKey });
  if (!isWireMap(load)) throw new TypeError('nothing was published');
  return pick(load);
}

/** Returns the expected target. A list that is given as text is published as a list. */
function expectedTarget(recorded: JsonObject): WireMap {
  const load = toWireValue(recorded);
  if (!isWireMap(load)) throw new TypeError('no load');
  const { tgt_type: tgtType, tgt } = load;
  const isListText = tgtType === 'list' && typeof tgt === 'string';
  return pick(isListText ? { ...load, tgt: tgt.split(',') } : load);
}

function pick(load: WireMap): WireMap {
  return Object.fromEntries(Object.entries(load).filter(([name]) => targetFields.includes(name)));
}

function topicsOf(publication: OutgoingPublication | undefined): string[] {
  return publication?.minionIds?.map(minionTopic) ?? [BROADCAST_TOPIC];
}

function recordedTopics({ zeromq_topics: topics }: JsonObject): string[] {
  if (!Array.isArray(topics)) throw new TypeError('no topics');
  return topics.map(text);
}

const fleet = Array.from({ length: 15_000 }, (_, index) => `minion-${index}`);

function recordOf(number: number, minions: readonly string[] = fleet): JobRecord {
  return {
    jid: `2026112100000000${String(number).padStart(4, '0')}`,
    fun: 'test.ping',
    arg: [],
    tgt: '*',
    tgtType: 'glob',
    user: 'root',
    minions,
    missing: [],
    publishedAt: 0,
    selfMade: false,
  };
}

function openCache(t: ExecutionContext): JobCache {
  const store = createMemoryStore();
  t.teardown(() => store.close());
  return new JobCache({ store, isOn: true, keepMs: 60_000, keepMarksMs: 1, now: Date.now });
}

test.serial('a large return is encoded and written in two slices', async (t) => {
  const cache = openCache(t);
  const { job } = await cache.add(recordOf(0));
  const slicesFor = async (minion: string, length: number): Promise<number> => {
    const rest = { fun: 'test.echo', retcode: 0, success: true, receivedAt: 0 };
    const result = { minion, return: 'x'.repeat(length), ...rest };
    return (await slicesOf(() => cache.addReturn(job.jid, result))).length;
  };
  t.deepEqual([await slicesFor('m1', 1000), await slicesFor('m2', 2_000_000)], [0, 1]);
});

test('memory holds only some jobs of a whole fleet, and all can be found', async (t) => {
  const cache = openCache(t);
  const records = Array.from({ length: 40 }, (_, number) => recordOf(number));
  for (const record of records) await cache.add(record);
  const known = records.filter(({ jid }) => cache.remembered(jid) !== undefined);
  t.true(known.length * fleet.length <= 250_000);
  t.is(known.at(-1), records.at(-1));
  const [first] = records;
  t.is((await cache.find(first?.jid ?? ''))?.minions.size, fleet.length);
});

test('a job stays in memory while a client listens to it', async (t) => {
  const cache = openCache(t);
  const { job, stopListening } = await cache.add(recordOf(0), () => {});
  for (let number = 1; number < 40; number += 1) await cache.add(recordOf(number));
  t.is(cache.remembered(job.jid), job);
  stopListening();
  await cache.add(recordOf(40));
  t.is(cache.remembered(job.jid), undefined);
});

test('the latest job stays in memory, for any number of minions', async (t) => {
  const cache = openCache(t);
  const crowd = Array.from({ length: 260_000 }, (_, index) => `minion-${index}`);
  const { job } = await cache.add(recordOf(0, crowd));
  t.is(cache.remembered(job.jid), job);
});

const publishedAt = 1000;
const record = { minions: ['m1'], missing: [], publishedAt };
const noReports = { returns: [], running: new Set<string>(), isFollowed: false };

function facts(lastHeardAt?: number, isAccepted = true, isReconnecting = false): MinionFacts {
  return {
    isAccepted: () => isAccepted,
    lastHeardAt: () => lastHeardAt,
    isReconnecting: () => isReconnecting,
  };
}

test('the retcode of a return decides success or failure', (t) => {
  const states = [0, false, { 'test.ping': 0 }, 1, true, { 'test.ping': 0, 'cmd.run': 2 }].map(
    (retcode) => {
      const returns = [{ minion: 'm1', retcode, receivedAt: 2000 }];
      return describeDeliveries(record, { ...noReports, returns }, facts())[0]?.state;
    },
  );
  t.deepEqual(states, ['answered', 'answered', 'answered', 'failed', 'failed', 'failed']);
});

test('a minion that reports the job is running, and a minion that has not reported is waiting', (t) => {
  const running = { ...noReports, running: new Set(['m1']), isFollowed: true };
  t.deepEqual(describeDeliveries(record, running, facts()), [{ minion: 'm1', state: 'running' }]);
  const followed = { ...noReports, isFollowed: true };
  t.deepEqual(describeDeliveries(record, followed, facts()), [{ minion: 'm1', state: 'waiting' }]);
});

test('a return takes precedence over earlier reports', (t) => {
  const returns = [{ minion: 'm1', retcode: 0, receivedAt: 2000 }];
  const progress = { returns, running: new Set(['m1']), isFollowed: true };
  const [line] = describeDeliveries(record, progress, facts());
  t.deepEqual(line, { minion: 'm1', state: 'answered', receivedAt: 2000 });
});

test('a name without a key is not awaited', (t) => {
  const missing = { minions: [], missing: ['m9'], publishedAt };
  const followed = { ...noReports, isFollowed: true };
  const [line] = describeDeliveries(missing, followed, facts(undefined, false));
  t.deepEqual(line, { minion: 'm9', state: 'silent', reason: 'key-not-accepted' });
});

test('a minion that did not return after a restart is reconnecting, unless its key is deleted', (t) => {
  const state = (given: MinionFacts) => describeDeliveries(record, noReports, given)[0];
  const missed = facts(5000, true, true);
  t.deepEqual(state(missed), { minion: 'm1', state: 'reconnecting', lastHeardAt: 5000 });
  t.is(state(facts(5000, false, true))?.reason, 'key-not-accepted');
});

test('the reason for a missing return is the first certain one', (t) => {
  const reason = (given: MinionFacts, skipped = 0): unknown =>
    describeDeliveries({ ...record, skipped }, noReports, given)[0]?.reason;
  t.is(reason(facts(5000, false)), 'key-not-accepted');
  t.is(reason(facts(publishedAt), 3), 'no-return');
  t.is(reason(facts(publishedAt - 1), 3), 'queue-full');
  t.is(reason(facts(publishedAt - 1)), 'not-heard-since');
  t.is(reason(facts()), 'never-heard');
  t.is(reason(facts(), 1), 'queue-full');
});

// Arguments as callers give them, and as they are published.

const fun = 'test.arg';

test('keywords are given by name or as a marked last map, and published alike', (t) => {
  const marked = { __kwarg__: true, a: 1 };
  t.deepEqual(separateKeywords(['x', marked], { b: 2 }), { arg: ['x'], kwarg: { a: 1, b: 2 } });
  t.deepEqual(toArguments({ fun, arg: ['x', marked] }), ['x', marked]);
  t.deepEqual(toArguments({ fun, arg: ['x'], kwarg: { a: 1 } }), ['x', marked]);
  t.deepEqual(toArguments({ fun, arg: ['x', { __kwarg__: true }] }), ['x']);
  t.deepEqual(toArguments({ fun, arg: [{ a: 1 }] }), [{ a: 1 }]);
});

test('a duplicate keyword is published once, with the value that was checked', (t) => {
  const arg = [{ __kwarg__: true, a: 1 }];
  t.deepEqual(separateKeywords(arg, { a: 2 }).kwarg, { a: 2 });
  t.deepEqual(toArguments({ fun, arg, kwarg: { a: 2 } }), [{ __kwarg__: true, a: 2 }]);
});

const odd: readonly (readonly [what: string, arg: WireValue[], kwarg?: WireMap])[] = [
  ['a mark of false among keywords', [], { __kwarg__: false, cmd: 'id' }],
  ['a mark of true among keywords', [], { __kwarg__: true, cmd: 'id' }],
  ['a mark of false in the last map', [{ __kwarg__: false, cmd: 'id' }]],
  ['a mark of 1 in the last map', [{ __kwarg__: 1, cmd: 'id' }]],
  ['a marked map that is not the last', [{ __kwarg__: true, cmd: 'id' }, 'x']],
  [
    'two marked maps',
    [
      { __kwarg__: true, a: 1 },
      { __kwarg__: true, a: 2 },
    ],
  ],
  [
    'a mark in a map with other keys than text',
    [
      new Map<WireValue, WireValue>([
        ['__kwarg__', true],
        [1, 2],
      ]),
    ],
  ],
  ["a keyword of Salt's own", [], { __pub_jid: '20240102030405123456' }],
  ["a keyword of Salt's own in the last map", [{ __kwarg__: true, __pub_user: 'root' }]],
  ["a text that is a keyword of Salt's own", ['__kwarg__=False', 'x']],
];

for (const [what, arg, kwarg] of odd) {
  test(`${what} is refused, also among several functions`, (t) => {
    const refusal = { code: 'ERR_ARGS' };
    t.throws(() => toArguments({ fun, arg, ...(kwarg && { kwarg }) }), refusal);
    const list: WireValue[] =
      kwarg === undefined ? arg : [...arg, { ...kwarg, __kwarg__: true, __x: 1 }];
    t.throws(() => toArguments({ fun: [fun, fun], arg: [[], list] }), refusal);
  });
}

interface ArgumentCase {
  readonly inputs: string[];
  readonly noParse: string[];
  readonly args: unknown[];
  readonly kwargs: [string, unknown][];
}

test('arguments are parsed as by Salt', (t) => {
  const cases = readCases<ArgumentCase>('arguments.json');
  const read = cases.map(({ inputs, noParse }) => {
    const { arg, kwarg } = parseArguments(inputs, noParse);
    return { inputs, noParse, args: [...arg], kwargs: Object.entries(kwarg) };
  });
  t.true(cases.length >= 250);
  const expected = cases.map(({ args, kwargs, ...rest }) => ({
    ...rest,
    args: args.map((value) => fromJson(value)),
    kwargs: kwargs.map(([name, value]) => [name, fromJson(value)]),
  }));
  t.deepEqual(read, expected);
});

test('a float without a fraction is a number in JSON, and a mark in requests of clients', (t) => {
  const value = { a: new Float(1), b: [new Float(-0), 2, 0.5] };
  const text = '{"a":1.0,"b":[-0.0,2,0.5]}';
  t.is(writeMarkedJson(value), text);
  t.deepEqual({ ...Object(readMarkedJson(text)) }, value);
  t.is(writeMarkedJson(value, 'mark'), '{"a":{"$float":"1.0"},"b":[{"$float":"-0.0"},2,0.5]}');
  t.deepEqual(toJson({ a: new Float(1) }, 'exact'), Object({ a: new Float(1) }));
});

test('values without a JSON form pass the local socket unchanged', (t) => {
  const value = { id: 20180828195351562601n, list: [new Float(1), 1, 1.5, -(2n ** 70n)] };
  let read: unknown;
  const reading = readJsonInSteps(writeMarkedJson(value, 'mark'), markedJson);
  for (let step = reading.next(); ; step = reading.next()) {
    if (step.done !== true) continue;
    read = step.value;
    break;
  }
  t.deepEqual({ ...Object(read) }, value);
});

test('a name of Object.prototype is an ordinary keyword', (t) => {
  const { kwarg } = parseArguments(['__proto__=1', 'constructor={toString: 2}']);
  t.deepEqual(Object.keys(kwarg), ['__proto__', 'constructor']);
  t.is(Object.getPrototypeOf(kwarg), null);
});

test('multiplying aliases are text', (t) => {
  const ten = (name: string) => `[${`*${name}, `.repeat(10)}]`;
  const laughs = `[&a [x], &b ${ten('a')}, &c ${ten('b')}, &d ${ten('c')}, ${ten('d')}]`;
  t.is(parseArgument(laughs), laughs);
});

function nested(open: string, close: string, depth: number): string {
  return open.repeat(depth) + close.repeat(depth);
}

test('a block on the last line of YAML has a line break only if the text ends with one', (t) => {
  t.deepEqual(parseYaml('[x]'), ['x']);
  t.deepEqual(parseYaml('- |\n  x'), ['x']);
  t.deepEqual(parseYaml('- >\n  x\n  y'), ['x y']);
  t.deepEqual(parseYaml('- |+\n  x\n'), ['x\n']);
});

test('nested data is accepted up to 64 levels', (t) => {
  t.notThrows(() => parseYaml(nested('[', ']', 64)));
  t.notThrows(() => parseYaml(`- ["${'['.repeat(100)}"]`));
  for (const text of [
    nested('[', ']', 65),
    nested('{a: ', '}', 65),
    '- '.repeat(65),
    '? '.repeat(65),
    Array.from({ length: 66 }, (_, level) => `${' '.repeat(level)}a:`).join('\n'),
    Array.from({ length: 66 }, (_, level) => `${' '.repeat(level)}-`).join('\n'),
  ]) {
    t.throws(() => parseYaml(text), { instanceOf: SyntaxError, message: /too deeply/ });
  }
});

test('a text that would end the process is an ordinary argument', (t) => {
  for (const text of ['['.repeat(100_000), '{a: '.repeat(50_000), '- '.repeat(100_000)]) {
    t.is(parseArgument(text), text);
  }
});

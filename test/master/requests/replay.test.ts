/** A request that comes twice has one effect, and the same answer [THREATS C-43, M-02]. */
import test from 'ava';
import { JobCache } from '../../../master/jobs/job-cache.ts';
import type { WireValue } from '../../../minion-protocol/index.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { RECORDED_AT, startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, loadOf, openReply, recorded } from '../../helpers/vector-requests.ts';
import { base64, keys } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const selfMade = recorded('return', 'standalone job, jid req v3');

for (const version of [2, 3]) {
  test(`an event of protocol ${version} that comes twice is fired once and answered the same`, async (t) => {
    const vector = recorded('minion_event', `start event v${version}`);
    const master = await startVectorMaster(t);
    const events = await master.eventsDuring(async () => {
      for (let time = 0; time < 3; time += 1) {
        t.is(openReply(vector, await master.ask(base64(vector.request_b64))), null);
      }
    });
    t.is(events.length, 1);
  });
}

test('a repetition with another time stamp is a repetition', async (t) => {
  const master = await startVectorMaster(t);
  const events = await master.eventsDuring(async () => {
    for (const ts of [0, 7, 299]) {
      await master.ask(altered(startEvent, { load: { ts: RECORDED_AT / 1000 + ts } }));
    }
  });
  t.is(events.length, 1);
});

for (const version of [2, 3]) {
  test(`what a client of protocol ${version} encrypts again with its nonce is a repetition`, async (t) => {
    const vector = recorded('minion_event', `start event v${version}`);
    const [first, again] = [altered(vector, {}), altered(vector, {})];
    t.notDeepEqual(first, again, 'another IV');
    const master = await startVectorMaster(t);
    const events = await master.eventsDuring(async () => {
      t.is(openReply(vector, await master.ask(first)), null);
      t.is(openReply(vector, await master.ask(again)), null);
    });
    t.is(events.length, 1);
  });

  test(`the same nonce with another load is another request of protocol ${version}`, async (t) => {
    const vector = recorded('minion_event', `start event v${version}`);
    const master = await startVectorMaster(t);
    const events = await master.eventsDuring(async () => {
      await master.ask(altered(vector, {}));
      await master.ask(altered(vector, { load: { data: 'another' } }));
    });
    t.is(events.length, 2);
  });
}

test('an event from before the start is not fired again by the next master', async (t) => {
  const first = await startVectorMaster(t);
  await first.ask(base64(startEvent.request_b64));
  await first.master.close();
  const second = await startVectorMaster(t, { ...first, startAt: RECORDED_AT + 1000 });
  const events = await second.eventsDuring(async () => {
    t.is(openReply(startEvent, await second.ask(base64(startEvent.request_b64))), null);
  });
  t.deepEqual(events, []);
  t.is((await second.counters())['event-before-start'], 1);
  const fresh = altered(startEvent, { load: { nonce: freshNonce(), ts: RECORDED_AT / 1000 + 1 } });
  t.is((await second.eventsDuring(() => second.ask(fresh))).length, 1);
});

test('a self-made job that is reported twice is kept once, also after a restart', async (t) => {
  const first = await startVectorMaster(t);
  const request = base64(selfMade.request_b64);
  const events = await first.eventsDuring(async () => {
    for (let time = 0; time < 3; time += 1) {
      t.is(openReply(selfMade, await first.ask(request)), null);
    }
  });
  t.is(events.length, 1);
  t.is((await first.counters())['repeated-return'], 2);
  await first.master.close();
  const second = await startVectorMaster(t, { ...first, startAt: RECORDED_AT + 1000 });
  t.deepEqual(await second.eventsDuring(() => second.ask(request)), []);
  const nonce = freshNonce();
  const another = altered(selfMade, { load: { nonce } });
  t.is((await second.eventsDuring(() => second.ask(another))).length, 1);
});

test('a self-made job that is not kept is told once all the same', async (t) => {
  const master = await startVectorMaster(t);
  const request = altered(selfMade, { load: { nocache: true } });
  const events = await master.eventsDuring(async () => {
    await master.ask(request);
    await master.ask(request);
  });
  t.is(events.length, 1);
});

test('a return that comes twice is kept and told once, also after a restart', async (t) => {
  const vector = recorded('return', 'simple v3');
  const jid = String(loadOf(vector).jid);
  const first = await startVectorMaster(t, {
    prepare: async (store) => {
      const cache = new JobCache({
        store,
        isOn: true,
        keepMs: 86_400_000,
        keepMarksMs: 1,
        now: Date.now,
      });
      await cache.add({
        jid,
        fun: 'test.ping',
        arg: [],
        tgt: '*',
        tgtType: 'glob',
        user: 'root',
        minions: [keys.minionId],
        missing: [],
        publishedAt: RECORDED_AT,
        selfMade: false,
      });
    },
  });
  const request = base64(vector.request_b64);
  const events = await first.eventsDuring(async () => {
    await first.ask(request);
    t.is(openReply(vector, await first.ask(request)), null);
  });
  t.is(events.length, 1);
  await first.master.close();
  const second = await startVectorMaster(t, first);
  t.deepEqual(await second.eventsDuring(() => second.ask(request)), []);
  t.is((await second.counters())['repeated-return'], 1);
});

const stamps: readonly (readonly [string, WireValue | undefined])[] = [
  ['301 s old', RECORDED_AT / 1000 - 301],
  ['301 s ahead', RECORDED_AT / 1000 + 301],
  ['missing', undefined],
  ['null', null],
  ['text', '1700000000'],
  ['a fraction', RECORDED_AT / 1000 + 0.5],
  ['a list', [RECORDED_AT / 1000]],
  ['true', true],
  ['beyond 2^53', 2n ** 60n],
  ['not a number', Number.NaN],
];

test('a request whose time stamp is off or odd is refused', async (t) => {
  const master = await startVectorMaster(t);
  for (const [title, ts] of stamps) {
    t.is(await refusedAs(master, altered(startEvent, { load: { ts } })), 'ERR_EXPIRED', title);
  }
  for (const seconds of [-299, 299]) {
    const nonce = freshNonce();
    const load = { ts: RECORDED_AT / 1000 + seconds, nonce };
    t.is(openReply(startEvent, await master.ask(altered(startEvent, { load })), nonce), null);
  }
});

const nonces: readonly (readonly [string, WireValue | undefined])[] = [
  ['missing', undefined],
  ['null', null],
  ['empty', ''],
  ['31 digits', keys.nonce.slice(1)],
  ['33 digits', `${keys.nonce}0`],
  ['upper case', keys.nonce.toUpperCase()],
  ['a line feed at the end', `${keys.nonce}\n`],
  ['bytes that are no text', new Uint8Array(32).fill(255)],
  ['a number', 7],
  ['a list', [keys.nonce]],
  ['a megabyte', 'a'.repeat(1_000_000)],
];

test('a nonce is 32 hex digits; anything else is refused in encrypted requests', async (t) => {
  const master = await startVectorMaster(t);
  for (const [title, nonce] of nonces) {
    t.is(await refusedAs(master, altered(startEvent, { load: { nonce } })), 'ERR_NONCE', title);
  }
  await isHeard(t, master);
});

/** A repeated request has only one effect and gets the same reply [THREATS C-43, M-02]. */

import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import type { MasterOptions } from '#config';
import type { PillarProvider } from '#master';
import { type Reply, send, type VerifiedRequest } from '#master';
import { JobCache } from '#master/jobs/job-cache.ts';
import { DigestPool, DigestQueue, marksPerBlock } from '#master/requests/digest-queue.ts';
import { ReplayCache } from '#master/requests/replay-cache.ts';
import {
  type CrypticleKey,
  type MasterTransport,
  packWire,
  parseKeyString,
  parsePrivateKey,
  type WireValue,
} from '#minion-protocol';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import type { Peer, RequestHandler } from '#minion-protocol/transport/transport.ts';
import { TransportError } from '#minion-protocol/transport/transport.ts';
import { minionToken, x931Sign } from '#minion-protocol/x931.ts';
import { createMemoryStore, type Store, StoreError } from '#store';
import { until } from '../../helpers/deadline.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { RECORDED_AT, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import {
  type Alteration,
  aesKey,
  altered,
  freshNonce,
  loadOf,
  openReply,
  recorded,
} from '../../helpers/vector-requests.ts';
import { base64, cases, keys, pem, vectorFile } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const selfMade = recorded('return', 'standalone job, jid req v3');

for (const version of [2, 3]) {
  test(`a repeated event of protocol ${version} is fired once and answered the same`, async (t) => {
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
  test(`a request of protocol ${version} encrypted again with its nonce is a repetition`, async (t) => {
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

  test(`the same nonce with another load is a new request of protocol ${version}`, async (t) => {
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

test('a self-made job that is reported twice is stored once, even after a restart', async (t) => {
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

test('a self-made job that is not stored is reported once', async (t) => {
  const master = await startVectorMaster(t);
  const request = altered(selfMade, { load: { nocache: true } });
  const events = await master.eventsDuring(async () => {
    await master.ask(request);
    await master.ask(request);
  });
  t.is(events.length, 1);
});

test('a return that arrives twice is stored and reported once, even after a restart', async (t) => {
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

test('a request with a wrong or malformed time stamp is refused', async (t) => {
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

const ttlSeconds = 300;
const startedAt = 1_700_000_000;
const usual = send(null);

function request(
  nonce: string,
  { tag = 'a', ...more }: Partial<VerifiedRequest> & { readonly tag?: string } = {},
): VerifiedRequest {
  const ts = 'ts' in more ? more.ts : startedAt;
  const load = { cmd: '_minion_event', tag };
  return {
    minionId: 'm1',
    isProven: true,
    isKeyCurrent: () => true,
    address: '127.0.0.1',
    version: 3,
    nonce,
    ts,
    bytes: 100,
    mac: Buffer.alloc(32),
    packed: packWire({ ...load, nonce, ...(ts === undefined ? {} : { ts }) }),
    load,
    encAlgo: 'OAEP-SHA1',
    sigAlgo: 'PKCS1v15-SHA1',
    ...more,
  };
}

/** Returns a guard whose clock is in seconds, and a handler that counts its calls. */
function guardAt(clock: { seconds: number }, reply: Reply = usual) {
  const guard = new ReplayCache({ ttlSeconds, now: () => clock.seconds * 1000 });
  let runs = 0;
  const run = async (): Promise<Reply> => {
    runs += 1;
    return reply;
  };
  return {
    guard,
    ask: (it: VerifiedRequest) => guard.once(it, run),
    runs: () => runs,
  };
}

for (const reply of [usual, send(false), send({ a: 1 })]) {
  const text = JSON.stringify(reply.kind === 'send' ? reply.value : reply.kind);
  test(`a repeated request gets ${text} again and is not run`, async (t) => {
    const { ask, runs } = guardAt({ seconds: startedAt }, reply);
    t.deepEqual(await ask(request('n')), reply);
    t.deepEqual(await ask(request('n')), reply);
    t.is(runs(), 1);
  });
}

test('a request repeated while the first is in progress waits for its answer', async (t) => {
  const { ask, runs } = guardAt({ seconds: startedAt }, send(7));
  const both = await Promise.all([ask(request('n')), ask(request('n'))]);
  t.deepEqual(both, [send(7), send(7)]);
  t.is(runs(), 1);
});

test('requests with another nonce, load or minion are new', async (t) => {
  const { ask, runs } = guardAt({ seconds: startedAt });
  await ask(request('n'));
  await ask(request('o'));
  await ask(request('n', { tag: 'b' }));
  await ask(request('n', { minionId: 'm2' }));
  t.is(runs(), 4);
});

test('a mark lasts exactly as long as its time stamp is valid', async (t) => {
  const clock = { seconds: startedAt };
  const { ask, runs } = guardAt(clock);
  await ask(request('n'));
  clock.seconds = startedAt + ttlSeconds;
  await ask(request('n'));
  t.is(runs(), 1);
  clock.seconds += 1;
  await ask(request('later', { ts: clock.seconds }));
  await ask(request('n'));
  t.is(runs(), 3);
});

test('a request without a time stamp is recognized after any time', async (t) => {
  const clock = { seconds: startedAt };
  const { ask, runs } = guardAt(clock);
  await ask(request('n', { ts: undefined }));
  clock.seconds += 100 * ttlSeconds;
  await ask(request('o', { ts: undefined }));
  await ask(request('n', { ts: undefined }));
  t.is(runs(), 2);
});

test('a failed request is tried again', async (t) => {
  const guard = new ReplayCache({ ttlSeconds, now: () => startedAt * 1000 });
  const failed = guard.once(request('n'), () => Promise.reject(new Error('broken')));
  await t.throwsAsync(async () => failed, { message: 'broken' });
  t.deepEqual(await guard.once(request('n'), async () => usual), usual);
});

test('a forgotten nonce is accepted as a new request', async (t) => {
  const { guard, ask, runs } = guardAt({ seconds: startedAt });
  await ask(request('n'));
  guard.forget('m1');
  await ask(request('n'));
  t.is(runs(), 2);
});

/** Returns eight bytes that are different for different numbers, except by chance. */
function digestOf(value: number): Buffer {
  const digest = Buffer.alloc(8, 0xff);
  digest.writeUInt32BE(value);
  return digest;
}

interface Mark {
  readonly value: number;
  readonly expiresAt: number;
}

test('queues hold the latest unexpired marks, like separate lists would', (t) => {
  const minion = fc.nat(2);
  const step = fc.oneof(
    { weight: 10, arbitrary: fc.record({ minion, add: fc.nat(50), for: fc.nat(20) }) },
    { weight: 3, arbitrary: fc.record({ minion, wait: fc.nat(15) }) },
    { weight: 1, arbitrary: fc.record({ minion, release: fc.constant(true) }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const pool = new DigestPool();
      const fresh = (): { readonly queue: DigestQueue; list: readonly Mark[] } => {
        return { queue: new DigestQueue(pool, 20), list: [] };
      };
      const all = [fresh(), fresh(), fresh()];
      let now = 0;
      for (const it of steps) {
        const one = all[it.minion] ?? fresh();
        if ('release' in it) {
          one.queue.release();
          all[it.minion] = fresh();
        } else if ('wait' in it) {
          now += it.wait;
          one.queue.removeExpired(now);
          const first = one.list.findIndex((mark) => mark.expiresAt >= now);
          one.list = first === -1 ? [] : one.list.slice(first);
        } else {
          one.queue.add(digestOf(it.add), now + it.for);
          one.list = [...one.list, { value: it.add, expiresAt: now + it.for }].slice(-20);
        }
      }
      for (const { queue, list } of all) {
        t.is(queue.size, list.length);
        for (let value = 0; value <= 50; value += 1) {
          t.is(
            queue.has(digestOf(value)),
            list.some((mark) => mark.value === value),
          );
        }
      }
      const most = all.reduce((sum, { list }) => {
        return sum + (list.length === 0 ? 0 : Math.ceil(list.length / marksPerBlock) + 1);
      }, 0);
      t.true(pool.inUse <= most, 'blocks that hold no mark were given back');
    }),
  );
});

test('entries added after the end of a queue use no memory', (t) => {
  const pool = new DigestPool();
  const queue = new DigestQueue(pool, 20);
  queue.add(digestOf(1), 10);
  queue.release();
  queue.add(digestOf(2), 10);
  t.is(pool.inUse, 0);
  t.false(queue.has(digestOf(2)));
});

// A minion cannot act as another one: its identity is that of the key that decrypted the request
// [THREATS M-01].

const startEventV2 = recorded('minion_event', 'start event v2');
const victim = 'victim';
const victimSession: CrypticleKey = parseKeyString(keys.ephemeral);
const otherToken = minionToken(parsePrivateKey(pem('other_minion').privatePem));

/** Starts a master. Both minions are accepted and have a session. */
async function startWithVictim(t: ExecutionContext): Promise<VectorMaster> {
  return await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions', id: victim, publicPem: pem('other_minion').publicPem },
    ],
  });
}

interface Attack {
  readonly title: string;
  readonly reason: string;
  readonly alteration: Alteration;
}

const attacks: readonly Attack[] = [
  { title: 'another id inside', reason: 'ERR_BAD_ID', alteration: { load: { id: victim } } },
  { title: 'no id inside', reason: 'ERR_BAD_ID', alteration: { load: { id: undefined } } },
  { title: 'a list as id', reason: 'ERR_BAD_ID', alteration: { load: { id: [keys.minionId] } } },
  {
    title: 'another id outside, with a key of its own',
    reason: 'no-session',
    alteration: { envelope: { id: victim } },
  },
  {
    title: 'an unknown id outside and inside',
    reason: 'no-session',
    alteration: { envelope: { id: 'nobody' }, load: { id: 'nobody' } },
  },
  { title: 'no id outside', reason: 'ERR_BAD_ID', alteration: { envelope: { id: undefined } } },
  {
    title: 'the key that all minions share',
    reason: 'ERR_BAD_HMAC',
    alteration: { key: aesKey },
  },
  { title: 'no token', reason: 'ERR_TOKEN', alteration: { load: { tok: undefined } } },
  { title: 'null as token', reason: 'ERR_TOKEN', alteration: { load: { tok: null } } },
  { title: 'a list as token', reason: 'ERR_TOKEN', alteration: { load: { tok: [1, 2] } } },
  { title: 'a number as token', reason: 'ERR_TOKEN', alteration: { load: { tok: 7 } } },
  {
    title: 'a token of 1,025 bytes',
    reason: 'ERR_TOKEN',
    alteration: { load: { tok: new Uint8Array(1025).fill(255) } },
  },
  {
    title: 'a garbled token',
    reason: 'token',
    alteration: { load: { tok: new Uint8Array(256).fill(90) } },
  },
  { title: 'an empty token', reason: 'token', alteration: { load: { tok: '' } } },
  { title: "another minion's token", reason: 'token', alteration: { load: { tok: otherToken } } },
  {
    title: 'a token over another text',
    reason: 'token',
    alteration: {
      load: { tok: x931Sign(parsePrivateKey(pem('minion').privatePem), Buffer.from('tlas')) },
    },
  },
];

test('every forged variant of a request is refused, and counted by its reason', async (t) => {
  const master = await startWithVictim(t);
  for (const { title, reason, alteration } of attacks) {
    t.is(await refusedAs(master, altered(startEvent, alteration)), reason, title);
  }
  await isHeard(t, master);
});

test("another minion's session key cannot be used under one's own id", async (t) => {
  const master = await startWithVictim(t);
  t.is(await refusedAs(master, altered(startEvent, { key: victimSession })), 'ERR_BAD_HMAC');
});

test('a request of protocol 2 with an id must have the token of that id, if it has one', async (t) => {
  const master = await startWithVictim(t);
  for (const load of [{ tok: otherToken }, { id: victim }, { tok: new Uint8Array(256) }]) {
    t.is(await refusedAs(master, altered(startEventV2, { load })), 'token');
  }
  const nobody = altered(startEventV2, { load: { id: 'nobody', tok: undefined } });
  t.is(await refusedAs(master, nobody), 'not-accepted');
});

test('a minion that proved protocol 3 is refused below it, even after a restart', async (t) => {
  const first = await startVectorMaster(t);
  t.is(openReply(startEventV2, await first.ask(altered(startEventV2, {}))), null);
  await isHeard(t, first);
  t.is(await refusedAs(first, altered(startEventV2, {})), 'version');
  t.is(await refusedAs(first, altered(startEventV2, { load: { tok: undefined } })), 'version');
  await first.master.close();
  const second = await startVectorMaster(t, first);
  t.is(await refusedAs(second, altered(startEventV2, {})), 'version');
  await second.master.keys.unpin(keys.minionId);
  const nonce = freshNonce();
  const reply = await second.ask(altered(startEventV2, { load: { nonce } }));
  t.is(openReply(startEventV2, reply, nonce), null);
});

test('a sign-in proves no version, so no minion can pin another one', async (t) => {
  const master = await startVectorMaster(t);
  const signIn = recorded('auth', 'v3 OAEP-SHA1 PKCS1v15-SHA1 accepted, first contact (no token)');
  await master.ask(Buffer.from(String(signIn.request_b64), 'base64'));
  const reply = await master.ask(altered(startEventV2, {}));
  t.is(openReply(startEventV2, reply), null);
});

test("below the pin a sign-in is refused with Salt's text", async (t) => {
  const master = await startVectorMaster(t);
  await isHeard(t, master);
  const signIn = recorded('auth', 'v2 accepted, first contact (no token)');
  t.is(await refusedAs(master, Buffer.from(String(signIn.request_b64), 'base64')), 'auth-version');
});

test('a file request without an id is answered, and sets no pin', async (t) => {
  const master = await startVectorMaster(t);
  await isHeard(t, master);
  const request = recorded('aes_functions', '_file_hash v2');
  t.is(openReply(request, await master.ask(altered(request, {}))), '');
});

test('an event of protocol 2 without a token is refused as by older masters', async (t) => {
  const master = await startWithVictim(t);
  const nonce = freshNonce();
  const before = (await master.counters()).unproven ?? 0;
  const events = await master.eventsDuring(async () => {
    const request = altered(startEventV2, { load: { nonce, tok: undefined } });
    t.deepEqual({ ...Object(openReply(startEventV2, await master.ask(request), nonce)) }, {});
  });
  t.deepEqual(events, []);
  t.is((await master.counters()).unproven, before + 1);
});

// Requests that delay other requests: a transport limits the number of requests in progress.

const peer: Peer = {
  address: '127.0.0.1',
  transport: 'memory',
  publishPort: 4505,
  identify: () => {},
  noteRefusal: () => {},
};

/**
 * Returns a function that sends a request like a transport, and returns whether its slot was
 * released before the reply.
 */
async function startAsker(
  t: ExecutionContext,
  parts: { readonly config?: Partial<MasterOptions>; readonly pillar?: PillarProvider } = {},
) {
  let handler: RequestHandler | undefined;
  const memory = createMemoryTransport().master;
  const transport: MasterTransport = {
    ...pick(memory),
    listen: (given) => {
      handler = given;
      return memory.listen(given);
    },
  };
  await startVectorMaster(t, { ...parts, transport });
  return (request: Uint8Array, from: Peer = peer) => {
    const asked = { hasEnded: false, isAnswered: false };
    const end = (): void => {
      if (!asked.isAnswered) asked.hasEnded = true;
    };
    const answer = Promise.resolve(handler?.(request, from, { release: end })).then((reply) => {
      asked.isAnswered = true;
      return reply;
    });
    return { asked, answer };
  };
}

function pick(memory: MasterTransport): MasterTransport {
  return {
    name: memory.name,
    listen: (handler) => memory.listen(handler),
    publish: (publication) => memory.publish(publication),
    disconnect: (id) => memory.disconnect(id),
    subscribers: () => memory.subscribers(),
    refusals: () => memory.refusals(),
    close: (graceMs) => memory.close(graceMs),
  };
}

test('others do not wait for a slow pillar provider', async (t) => {
  let provide = (): void => {};
  const provided = new Promise<void>((resolve) => {
    provide = resolve;
  });
  const ask = await startAsker(t, { pillar: () => provided.then(() => ({})) });
  const request = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const { asked, answer } = ask(altered(request, { load: { nonce: freshNonce() } }));
  await until('the end of its turn', () => asked.hasEnded);
  provide();
  t.true(((await answer)?.length ?? 0) > 0);
});

test('others do not wait for a request over its rate', async (t) => {
  const ask = await startAsker(t, { config: { limits: { requestsPerSecond: 4, burst: 1 } } });
  const fire = () =>
    ask(altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } }));
  // The token is known after this request, which has another rate.
  const selfMade = cases(vectorFile('return'), 'cases').find(
    (it) => it.version === 3 && loadOf(it).jid === 'req',
  );
  await ask(altered(selfMade ?? {}, { load: { nonce: freshNonce() } })).answer;
  const both = [fire(), fire()];
  await Promise.all(both.map(({ answer }) => answer));
  t.deepEqual(both.map(({ asked }) => asked.hasEnded).sort(), [false, true]);
});

test('a request gives its slot back while its token is checked', async (t) => {
  const ask = await startAsker(t);
  const fire = () =>
    ask(altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } }));
  const first = fire();
  t.true(first.asked.hasEnded);
  await first.answer;
  // The token is known now.
  const second = fire();
  t.false(second.asked.hasEnded);
  await second.answer;
});

test('a connection learns which of its requests were refused, not which the master failed to answer', async (t) => {
  const ask = await startAsker(t);
  const verified: string[] = [];
  let refused = 0;
  const counting: Peer = {
    ...peer,
    identify: (id) => void verified.push(id),
    noteRefusal: () => {
      refused += 1;
    },
  };
  const valid = altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } });
  const unknown = packWire({ enc: 'clear', load: { cmd: 'nosuch' }, version: 3 });
  for (const request of [valid, Buffer.of(0), unknown]) await ask(request, counting).answer;
  t.is(verified.length, 1);
  t.is(refused, 2);
  const failing: Peer = {
    ...counting,
    identify: () => {
      throw new Error('a failure of the master');
    },
  };
  await ask(
    altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } }),
    failing,
  ).answer;
  t.is(refused, 2);
});

// Returns that cannot be stored: minions treat any reply as an acknowledgement.

const [vector] = cases(vectorFile('return'), 'cases').filter(
  (it) => it.version === 3 && loadOf(it).jid !== 'req',
);
/** Returns a store that rejects new data while `isFull`. */
function fillableStore(): { readonly store: Store; isFull: boolean } {
  const memory = createMemoryStore({ now: () => RECORDED_AT });
  const disk = {
    isFull: false,
    store: new Proxy(memory, {
      get(target, name) {
        if (name === 'write' && disk.isFull) {
          return async () => {
            throw new StoreError('ERR_STORE_FULL', 'full');
          };
        }
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    }),
  };
  return disk;
}

test('a return that cannot be stored gets no reply and no event, and is stored when sent again', async (t) => {
  if (vector === undefined) return t.fail('no recorded return');
  const { jid, fun } = loadOf(vector);
  const disk = fillableStore();
  const master = await startVectorMaster(t, {
    store: disk.store,
    prepare: async (store) => {
      const cache = new JobCache({
        store,
        isOn: true,
        keepMs: 86_400_000,
        keepMarksMs: 1,
        now: () => RECORDED_AT,
      });
      await cache.add({
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
    },
  });
  // The first request proves the protocol version, which is stored as well.
  t.is(openReply(startEvent, await master.ask(base64(startEvent.request_b64))), null);
  const request = base64(vector.request_b64);
  disk.isFull = true;
  const events = await master.eventsDuring(async () => {
    const unanswered = { instanceOf: TransportError, code: 'ERR_TIMEOUT' };
    await t.throwsAsync(master.ask(request), unanswered);
  });
  t.deepEqual(events, []);
  t.is((await master.counters())['return-not-kept'], 1);
  t.deepEqual((await master.master.jobs.show(String(jid))).returns, []);
  disk.isFull = false;
  t.is(openReply(vector, await master.ask(request)), null);
  t.is((await master.master.jobs.show(String(jid))).returns.length, 1);
});

test('a minion that proves its version while the store fails is served', async (t) => {
  const disk = fillableStore();
  const master = await startVectorMaster(t, { store: disk.store });
  disk.isFull = true;
  t.is(openReply(startEvent, await master.ask(base64(startEvent.request_b64))), null);
});

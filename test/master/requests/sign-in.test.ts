/** Sign-ins of strangers: limited, without stored state, and without affecting known minions. */

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { LiveConfig, type MasterOptions, resolveMasterConfig } from '#config';
import { createLogger } from '#master';
import { createFullnessCheck } from '#master/auth/sign-in.ts';
import {
  generateKeyString,
  isWireMap,
  packWire,
  parsePrivateKey,
  unpackWire,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import { connectMinion, otherKey } from '../../helpers/connected-minion.ts';
import { waitMs } from '../../helpers/deadline.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { base64, cases, keys, pem, text, vectorFile } from '../../helpers/vectors.ts';

const accepted = recorded('auth', 'v3 OAEP-SHA1 PKCS1v15-SHA1 accepted, first contact (no token)');
const recordedSignIn: WireMap = map(unpackWire(base64(accepted.request_b64)));

/** Returns the recorded sign-in with changed fields. */
function signIn(changes: Readonly<Record<string, WireValue>> = {}): Buffer {
  const load = { ...map(recordedSignIn.load ?? null), nonce: freshNonce(), ...changes };
  return packWire({ ...recordedSignIn, load });
}

/**
 * Returns the maximum number of sign-ins of one address that may have been processed, at five per
 * second.
 */
function mostSince(begun: number): number {
  return 20 + (performance.now() - begun) / 200;
}

test('a flood from one address is refused without signatures, and does not delay others', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { authsPerSecond: 5 } } });
  const begun = performance.now();
  const strangers = Array.from({ length: 300 }, (_, index) =>
    master.ask(signIn({ id: `stranger-${index}` }), '192.0.2.66'),
  );
  const answer = map(unpackWire(await master.ask(signIn(), '192.0.2.1')));
  t.true(answer.sig instanceof Uint8Array, 'the accepted minion got a signed answer');
  const signed = (await Promise.all(strangers)).filter((reply) => reply.length > 200);
  const most = mostSince(begun);
  t.true(signed.length >= 5 && signed.length <= most, `${signed.length} signed answers`);
  t.true(((await master.counters())['auth-rate'] ?? 0) >= 300 - most);
});

test('a flood with the known key of a minion affects only its own address', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { authsPerSecond: 5 } } });
  const begun = performance.now();
  const flood = Array.from({ length: 300 }, () => master.ask(signIn(), '192.0.2.66'));
  const answer = map(unpackWire(await master.ask(signIn(), '192.0.2.1')));
  t.true(answer.sig instanceof Uint8Array);
  const signed = (await Promise.all(flood)).filter((reply) => reply.length > 200);
  t.true(signed.length <= mostSince(begun), `${signed.length} signed answers`);
});

test('requests that differ only in an algorithm do not share a reply', async (t) => {
  const master = await startVectorMaster(t);
  const nonce = freshNonce();
  const [sha1, sha224] = await Promise.all(
    ['PKCS1v15-SHA1', 'PKCS1v15-SHA224'].map((sig_algo) => master.ask(signIn({ nonce, sig_algo }))),
  );
  t.notDeepEqual(sha1, sha224);
});

test('identical simultaneous requests share one reply', async (t) => {
  const master = await startVectorMaster(t);
  const request = signIn();
  const [first, second] = await Promise.all([master.ask(request), master.ask(request)]);
  t.deepEqual(first, second);
});

test('a wrong key changes nothing for the owner of an id', async (t) => {
  const master = await startVectorMaster(t);
  const before = await master.master.keys.list();
  const reply = await master.ask(signIn({ pub: pem('other_minion').publicPem }), '192.0.2.66');
  t.deepEqual(signedLoad(reply).ret, false);
  const after = await master.master.keys.list();
  t.deepEqual(
    after.filter(({ state }) => state === 'accepted'),
    before.map((key) => ({ ...key, conflicts: 1 })),
  );
  t.deepEqual(
    after.filter(({ state }) => state === 'denied').map(({ id }) => id),
    [keys.minionId],
  );
  await isHeard(t, master);
  t.true(map(unpackWire(await master.ask(signIn()))).sig instanceof Uint8Array);
});

test('any number of wrong keys leaves one denied key for an id', async (t) => {
  const master = await startVectorMaster(t);
  for (const name of ['other_minion', 'minion2', 'master']) {
    await master.ask(signIn({ pub: pem(name).publicPem }));
  }
  const denied = readdirSync(path.join(master.directory, 'pki', 'minions_denied'));
  t.deepEqual(denied, [keys.minionId]);
});

test('a pending key stays, and another key is denied and counted', async (t) => {
  const master = await startVectorMaster(t, { keys: [] });
  await master.ask(signIn());
  await master.ask(signIn({ pub: pem('other_minion').publicPem }));
  const [key] = await master.master.keys.accept({ match: '*' });
  t.is(key?.from, 'pending');
  t.true(map(unpackWire(await master.ask(signIn()))).sig instanceof Uint8Array);
  t.is(map(unpackWire(signedBytes(await master.ask(signIn())))).enc, 'pub');
});

test('pending keys are limited, in total and for each address', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { pendingKeys: 5, pendingKeysPerAddress: 3, authsPerSecond: 0 } },
  });
  const knock = (id: string, address: string): Promise<Buffer> =>
    master.ask(signIn({ id, pub: pem('other_minion').publicPem }), address);
  for (let index = 0; index < 6; index += 1) {
    t.deepEqual(signedLoad(await knock(`a-${index}`, '192.0.2.1')).ret, true);
  }
  t.is((await master.master.status()).keys.pending, 3);
  for (let index = 0; index < 6; index += 1) await knock(`b-${index}`, '192.0.2.2');
  t.is((await master.master.status()).keys.pending, 5);
  t.is((await master.counters())['auth-pending-full'], 7);
  t.true(map(unpackWire(await master.ask(signIn(), '192.0.2.1'))).sig instanceof Uint8Array);
});

test('an unusable key is refused and not stored', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [],
    config: { limits: { authsPerSecond: 0 } },
  });
  const before = inventory(master.directory);
  for (const pub of ['no key', pem('other_minion').publicPem.slice(0, 200), 'x'.repeat(16_384)]) {
    t.deepEqual(signedLoad(await master.ask(signIn({ pub }))).ret, false);
  }
  t.is((await master.counters())['auth-unusable-key'], 3);
  t.deepEqual(inventory(master.directory), before);
});

test('unknown ids leave no trace in the store or on disk', async (t) => {
  const master = await startVectorMaster(t);
  const vector = recorded('minion_event', 'start event v3');
  // The start of the master is audited, and is in the store within a second.
  await master.master.audit.flush();
  const before = { files: inventory(master.directory), rows: await rows(master) };
  for (const id of [
    'nobody',
    '../escape',
    'a/b',
    '.',
    '..',
    'x\n',
    '*',
    'ü',
    '',
    'a'.repeat(256),
  ]) {
    await refused(t, master, altered(vector, { envelope: { id }, load: { id } }));
    await master.ask(encodeRequest({ enc: 'clear', version: 2, load: { cmd: 'ping', id } }));
  }
  for (const id of ['../escape', 'a/b', '.', '..', 'x\n', '\0', '', 'a'.repeat(256)]) {
    await master.ask(signIn({ id }));
  }
  t.deepEqual({ files: inventory(master.directory), rows: await rows(master) }, before);
});

test('crafted ids are refused even with a correct key, signed from protocol 2 on', async (t) => {
  const master = await startVectorMaster(t);
  for (const id of ['..', 'a/b', 'a\\b/..', '', '.']) {
    t.deepEqual(signedLoad(await master.ask(signIn({ id }))).ret, false, JSON.stringify(id));
  }
});

test('the master signs only nonces of 32 hex digits', async (t) => {
  const master = await startVectorMaster(t);
  const oracle = packWire({ enc: 'aes', load: 'x' }).toString('latin1');
  for (const nonce of ['', oracle, keys.nonce.toUpperCase(), `${keys.nonce}\n`, 7, null, [1]]) {
    for (const id of [keys.minionId, 'stranger', 'a/b']) {
      const reply = await master.ask(signIn({ nonce, id }));
      t.deepEqual(reply, packWire('bad load'), `${JSON.stringify(nonce)} of ${id}`);
    }
  }
});

test('a genuine sign-in is answered after each malformed one', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { authsPerSecond: 0 } } });
  const odd: WireValue[] = [null, 7, true, [], {}, 'x'.repeat(20_000), new Uint8Array(300)];
  for (const field of ['id', 'pub', 'nonce', 'enc_algo', 'sig_algo', 'token']) {
    for (const value of odd) await master.ask(signIn({ [field]: value }));
    t.true(map(unpackWire(await master.ask(signIn()))).sig instanceof Uint8Array, field);
  }
});

async function refused(t: ExecutionContext, master: VectorMaster, request: Buffer): Promise<void> {
  t.regex(await refusedAs(master, request), /^(no-session|ERR_BAD_ID)$/);
}

function inventory(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort();
}

async function rows({ store }: VectorMaster): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of store.list([])) found.push(key.join('/'));
  return found;
}

function signedBytes(reply: Uint8Array): Uint8Array {
  const { load } = map(unpackWire(reply));
  if (load instanceof Uint8Array) return load;
  return Buffer.from(String(load), 'utf8');
}

function signedLoad(reply: Uint8Array): WireMap {
  return map(unpackWire(signedBytes(reply)));
}

function map(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

// `max_minions`, beyond the recordings: which minions are still accepted.

const refusedSignIn = cases(vectorFile('auth'), 'cases').find(
  ({ name }) => text(name) === 'v0 max_minions reached',
);

/**
 * Starts a master with the vectors' minion and two other accepted minions, which exceeds the limit
 * by one.
 */
function startMaster(t: ExecutionContext, maxMinions: number): Promise<VectorMaster> {
  return startVectorMaster(t, {
    config: { maxMinions, requestServerTtl: 0 },
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      otherKey('a'),
      otherKey('b'),
    ],
  });
}

/** Whether the limit is reached, one second later, because the count is cached for a second. */
async function isFull({ ask, clock }: VectorMaster): Promise<boolean> {
  clock.now += 1000;
  const reply = await ask(base64(refusedSignIn?.request_b64));
  return JSON.stringify(unpackWire(reply)).includes('full');
}

test('the limit of minions permits one more, as in Salt', async (t) => {
  const master = await startMaster(t, 1);
  await connectMinion(t, master, 'a', '192.0.2.1');
  t.false(await isFull(master));
  await connectMinion(t, master, 'b', '192.0.2.2');
  t.true(await isFull(master));
});

test('without a limit all minions are admitted', async (t) => {
  const master = await startMaster(t, 0);
  await connectMinion(t, master, 'a', '192.0.2.1');
  await connectMinion(t, master, 'b', '192.0.2.2');
  t.false(await isFull(master));
});

test('a connected minion may sign in again, and a minion that leaves makes room', async (t) => {
  const master = await startMaster(t, 1);
  await connectMinion(t, master, 'a', '192.0.2.1');
  const b = await connectMinion(t, master, 'b', '192.0.2.2');
  await t.notThrowsAsync(connectMinion(t, master, 'a', '192.0.2.1'));
  t.true(await isFull(master));
  await b.stop();
  t.false(await isFull(master));
});

test('a subscribed topic takes no place until its minion sends a request from there', (t) => {
  const place = { transport: 'zeromq', address: '192.0.2.9' };
  const isFull = (isSure: boolean): boolean =>
    createFullnessCheck({
      config: new LiveConfig(resolveMasterConfig({ maxMinions: 1 })),
      lastRequests: { size: 2 },
      now: () => 0,
      present: () => [
        { id: 'a', ...place, by: 'announcement', isSure: true },
        { id: 'b', ...place, by: 'topic', isSure },
      ],
    })('c');
  t.false(isFull(false));
  t.true(isFull(true));
});

test('sign-ins within a second count the minions once', (t) => {
  let now = 0;
  let counts = 0;
  const isFull = createFullnessCheck({
    config: new LiveConfig(resolveMasterConfig({ maxMinions: 1 })),
    lastRequests: { size: 2 },
    now: () => now,
    present: () => {
      counts += 1;
      return [];
    },
  });
  for (; now < 1000; now += 100) t.false(isFull('c'));
  t.is(counts, 1);
  isFull('c');
  t.is(counts, 2);
});

// Ids that new minions may have, and warnings about ids that are easily confused.

const { publicPem, privatePem } = pem('minion');
const privateKey = parsePrivateKey(privatePem);

/** Returns the reply to a sign-in with this id. */
async function signInAs({ dial }: VectorMaster, id: string): Promise<string> {
  const token = generateKeyString();
  const handshake = createMinionHandshake({ id, version: 3, privateKey, publicPem, token });
  return handshake.step(await dial('somebody').request(handshake.request(), waitMs)).state;
}

const unusual = [
  '*',
  'atk-*',
  '[a]',
  '{a,b}',
  'a b',
  'a\u200bb',
  'a\u202eb',
  'e\u0301',
  '-a',
  'a..b',
];

test('an id that is a target for others, or resembles another one, is refused', async (t) => {
  const config: Partial<MasterOptions> = { autoAccept: true };
  const master = await startVectorMaster(t, { keys: [], config });
  for (const id of unusual) t.is(await signInAs(master, id), 'refused', JSON.stringify(id));
  t.deepEqual(await master.master.keys.list(), []);
  t.is((await master.counters())['auth-ERR_BAD_ID'], unusual.length);
  t.is(await signInAs(master, 'web-1.example.org'), 'accepted');
});

test("with minion_ids: salt, Salt's rules for ids apply", async (t) => {
  const master = await startVectorMaster(t, { keys: [], config: { minionIds: 'salt' } });
  for (const id of unusual) t.is(await signInAs(master, id), 'pending', JSON.stringify(id));
});

test('an accepted id continues to work with a mark, and a pending one is not accepted', async (t) => {
  const keys = [
    { directory: 'minions', id: 'old *', publicPem },
    { directory: 'minions_pre', id: 'new *', publicPem: pem('minion2').publicPem },
  ] as const;
  const master = await startVectorMaster(t, { keys });
  t.is(await signInAs(master, 'old *'), 'accepted');
  const listed = await master.master.keys.list();
  t.deepEqual(
    listed.map(({ id, isUnusual }) => [id, isUnusual]),
    [
      ['old *', true],
      ['new *', true],
    ],
  );
  const accepting = master.master.keys.accept({ match: 'new *' });
  await t.throwsAsync(accepting, {
    code: 'ERR_KEY_ID',
    message: /"new \*": an id must have 1 to 128/,
  });
  const refused = master.master.keys.create({ id: 'a*' });
  await t.throwsAsync(refused, { code: 'ERR_KEY_ID', message: /minion_ids/ });
  t.is((await master.master.keys.delete({ match: 'new [*]' })).length, 1);
});

test('ids that differ only in case, and ids with the same key, are accepted and marked', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: 'web-1', publicPem },
      { directory: 'minions', id: 'db-1', publicPem: pem('minion2').publicPem },
    ],
  });
  t.is(await signInAs(master, 'WEB-1'), 'pending');
  t.is(await signInAs(master, 'new-1'), 'pending');
  const marks = (await master.master.keys.list()).map(({ id, alike, sharedWith }) => ({
    id,
    alike,
    sharedWith,
  }));
  t.deepEqual(marks, [
    { id: 'db-1', alike: undefined, sharedWith: undefined },
    { id: 'web-1', alike: undefined, sharedWith: undefined },
    { id: 'WEB-1', alike: ['web-1'], sharedWith: ['web-1'] },
    { id: 'new-1', alike: undefined, sharedWith: ['web-1'] },
  ]);
});

test('a file placed among the accepted keys is an accepted id', async (t) => {
  const master = await startVectorMaster(t, { keys: [] });
  await master.master.close();
  const folder = path.join(master.directory, 'pki', 'minions');
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'old *'), publicPem);
  const next = await startVectorMaster(t, { directory: master.directory });
  t.is(await signInAs(next, 'old *'), 'accepted');
});

// Requests of a version that is too low: the log names the minion, with few messages.

test('the log names a minion with a version that is too low, once a minute', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write: (line, _encoding, done) => {
      const { msg, ...fields } = JSON.parse(String(line));
      if (String(msg).includes('protocol version is lower')) lines.push(fields);
      done();
    },
  });
  const master = await startVectorMaster(t, {
    config: { minimumAuthVersion: 3 },
    logger: createLogger('warning', stream),
  });
  const signIn = (id: string) => {
    const load = { cmd: '_auth', id, nonce: 'a'.repeat(32), pub: pem('minion').publicPem };
    return master.ask(packWire({ enc: 'clear', load, version: 2 }), '192.0.2.7');
  };
  for (const id of [keys.minionId, keys.minionId, 'nobody']) {
    t.is(unpackWire(await signIn(id)), 'bad load');
  }
  const line = { minion: keys.minionId, remote: '192.0.2.7', version: 2, required: 3 };
  t.is(lines.length, 1);
  t.like(lines[0], line);
  master.clock.now += 60_000;
  await signIn(keys.minionId);
  t.is(lines.length, 2);
});

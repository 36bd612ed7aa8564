/**
 * Everything that a deleted key allowed ends with it. The shared key is replaced, at most once a
 * minute.
 */

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { type KeyLifecycle, MasterError, type MasterExtension, openOfflineKeys } from '#master';
import { isWireMap, parsePrivateKey, rsaSign, unpackWire, wireBytes } from '#minion-protocol';
import { rsaDecrypt } from '#minion-protocol/rsa.ts';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { createMaster } from '#server';
import { createMemoryStore } from '#store';
import { within } from '../../helpers/deadline.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import {
  directories,
  layOutVectorMaster,
  RECORDED_AT,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { base64, cases, keys, object, pem, text, vectorFile } from '../../helpers/vectors.ts';
import { eventually } from '../../interop/eventually.ts';

const startEvent = recorded('minion_event', 'start event v3');
const fileRequest = recorded('aes_functions', '_file_hash v2');
const signIn = recorded('auth', 'v0 accepted, first contact (no token)');

const many = ['minion', 'other_minion', 'minion2', 'master_sign'].map((name, index) => ({
  directory: 'minions' as const,
  id: index === 0 ? keys.minionId : `m${index}`,
  publicPem: pem(name).publicPem,
}));

test('a deleted key loses its session, its pin and the shared key', async (t) => {
  const master = await startVectorMaster(t, { keys: many });
  await isHeard(t, master);
  const rotated = nextRotation(master);
  await master.master.keys.delete({ match: 'vecminion' });
  t.is(
    await refusedAs(master, altered(startEvent, { load: { nonce: freshNonce() } })),
    'no-session',
  );
  await within('the rotation', rotated);
  t.is(await refusedAs(master, altered(fileRequest, {})), 'ERR_BAD_HMAC');
  const rows: string[] = [];
  for await (const { key } of master.store.list(['secrets', 'sessions'])) rows.push(key.join('/'));
  for await (const { key } of master.store.list(['pins'])) rows.push(key.join('/'));
  t.deepEqual(rows, []);
});

test('data of a revoked key is removed at once, so that the next key of the id has only its own', async (t) => {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const store = createMemoryStore();
  const write = store.write.bind(store);
  store.write = async (operations) => {
    const endsSession = operations.some(
      (it) => it.op === 'delete' && it.key.join('/').startsWith('secrets/sessions'),
    );
    if (endsSession) await gate;
    return write(operations);
  };
  let admission: KeyLifecycle | undefined;
  const extension: MasterExtension = {
    name: 'admits',
    open: async (host) => {
      ({ admission } = host);
      return { close: async () => {} };
    },
  };
  const { master } = await startVectorMaster(t, {
    keys: many,
    store,
    extensions: [extension],
  });
  await master.keys.delete({ match: 'm1' });
  await admission?.admit({ id: 'm1', publicKey: pem('minion2').publicPem, protocol: 3 });
  open();
  await admission?.exclusive('m1', async () => admission?.quarantine('m2'));
  t.is((await master.keys.list()).find(({ id }) => id === 'm1')?.protocol, 3);
});

test('a later owner of the id gets its own key', async (t) => {
  const master = await startVectorMaster(t, { config: { autoAccept: true } });
  t.is(await sessionGiven(t, master), keys.session);
  await master.master.keys.delete({ match: '*' });
  t.not(await sessionGiven(t, master), keys.session);
});

test('the next start makes up for a delayed rotation', async (t) => {
  const master = await startVectorMaster(t, { keys: many });
  const first = nextRotation(master);
  await master.master.keys.delete({ match: 'm1' });
  await within('the first rotation', first);
  const shared = await sharedKey(t, master);
  await master.master.keys.delete({ match: 'm2' });
  t.is(await sharedKey(t, master), shared);
  await master.master.close();
  const next = await startVectorMaster(t, master);
  t.not(await sharedKey(t, next), shared);
});

test('a deletion long after the last rotation rotates at once', async (t) => {
  const master = await startVectorMaster(t, { keys: many });
  for (const match of ['m1', 'm2']) {
    const rotated = nextRotation(master);
    await master.master.keys.delete({ match });
    await t.notThrowsAsync(within(`the rotation for ${match}`, rotated));
    master.clock.now += 60_000;
  }
});

test('deleting a pending key causes no rotation', async (t) => {
  const [first, ...others] = many;
  const pending = others.map((key) => ({ ...key, directory: 'minions_pre' as const }));
  const master = await startVectorMaster(t, {
    keys: first === undefined ? [] : [first, ...pending],
  });
  const record = await master.store.get(['secrets', 'publish-key']);
  await master.master.keys.delete({ match: 'm*' });
  // If the key had still been accepted, its deletion during the sign-in would have replaced the
  // shared key.
  await sharedKey(t, master);
  t.deepEqual(await master.store.get(['secrets', 'publish-key']), record);
});

async function nextRotation({ master }: VectorMaster): Promise<unknown> {
  const events = await master.events.subscribe({ match: 'key' });
  return events[Symbol.asyncIterator]().next();
}

/** Returns the shared key that the vectors' minion receives when it signs in. */
function sharedKey(t: ExecutionContext, master: VectorMaster): Promise<string> {
  return keyGiven(t, master, 'aes');
}

function sessionGiven(t: ExecutionContext, master: VectorMaster): Promise<string> {
  return keyGiven(t, master, 'session');
}

async function keyGiven(t: ExecutionContext, { ask }: VectorMaster, name: string): Promise<string> {
  const reply = unpackWire(await ask(base64(signIn.request_b64)));
  const bytes = isWireMap(reply) ? wireBytes(reply[name]) : undefined;
  if (bytes === undefined) return t.fail(`no ${name}`);
  return rsaDecrypt(parsePrivateKey(pem('minion').privatePem), bytes, 'OAEP-SHA1').toString(
    'latin1',
  );
}

// Keys that changed while no master was running. What the old keys allowed ends at the next start.

const publishKey = ['secrets', 'publish-key'];

/** Returns a stopped master that has stored the minion's protocol version and session. */
async function runOnce(t: ExecutionContext): Promise<VectorMaster> {
  const first = await startVectorMaster(t);
  await isHeard(t, first);
  await first.master.close();
  return first;
}

async function publishKeyOf({ store }: VectorMaster): Promise<number | undefined> {
  return (await store.get(publishKey))?.revision;
}

test('data remains if no key was lost', async (t) => {
  const first = await runOnce(t);
  const before = await publishKeyOf(first);
  const second = await startVectorMaster(t, first);
  t.is(await publishKeyOf(first), before);
  await isHeard(t, second);
  const [info] = await second.master.keys.list();
  t.is(info?.protocol, 3);
});

test('a key deleted without a master loses its session and pin, and the publish key is replaced', async (t) => {
  const first = await runOnce(t);
  const before = await publishKeyOf(first);
  const offline = await openOfflineKeys(resolveMasterConfig(directories(first.directory)));
  t.deepEqual(await offline.keys.delete({ match: keys.minionId }), [
    { id: keys.minionId, from: 'accepted' },
  ]);
  await offline.close();
  const second = await startVectorMaster(t, first);
  t.not(await publishKeyOf(first), before);
  t.is(await refusedAs(second, altered(startEvent, {})), 'no-session');
  const pinned: unknown[] = [];
  for await (const entry of first.store.list(['pins'])) pinned.push(entry);
  t.deepEqual(pinned, []);
});

test('the session of a key is not valid for another key under the same id', async (t) => {
  const first = await runOnce(t);
  const file = path.join(first.directory, 'pki', 'minions', keys.minionId);
  rmSync(file);
  writeFileSync(file, pem('minion2').publicPem);
  const before = await publishKeyOf(first);
  const second = await startVectorMaster(t, first);
  t.not(await publishKeyOf(first), before);
  t.is(await refusedAs(second, altered(startEvent, {})), 'no-session');
});

test('a loss takes effect once: the second start after it rotates nothing', async (t) => {
  const first = await runOnce(t);
  rmSync(path.join(first.directory, 'pki', 'minions', keys.minionId));
  const second = await startVectorMaster(t, first);
  await second.master.close();
  const before = await publishKeyOf(first);
  await startVectorMaster(t, first);
  t.is(await publishKeyOf(first), before);
});

test('with rotate_aes_key off the publish key stays', async (t) => {
  const first = await runOnce(t);
  rmSync(path.join(first.directory, 'pki', 'minions', keys.minionId));
  const before = await publishKeyOf(first);
  await startVectorMaster(t, { ...first, config: { rotateAesKey: false } });
  t.is(await publishKeyOf(first), before);
});

test('a denied key that replaces the accepted one ends its session', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions_denied', id: keys.minionId, publicPem: pem('minion2').publicPem },
    ],
  });
  await isHeard(t, master);
  await master.master.keys.accept({ match: keys.minionId, include: ['denied'] });
  t.is(await refusedAs(master, altered(startEvent, {})), 'no-session');
});

test('a denied key that replaces another denied one does not end the accepted key', async (t) => {
  const lost: string[] = [];
  const extension: MasterExtension = {
    name: 'listens',
    open: async () => ({ onKeyLost: async (id) => void lost.push(id), close: async () => {} }),
  };
  const denied = { directory: 'minions_denied', id: keys.minionId } as const;
  const { master, directory } = await startVectorMaster(t, {
    keys: [...many, { ...denied, publicPem: pem('minion2').publicPem }],
    extensions: [extension],
  });
  const { pkiDir } = directories(directory);
  const fingerprint = async (): Promise<string | undefined> =>
    (await master.keys.list({ state: 'denied' })).at(0)?.fingerprint;
  const former = await fingerprint();
  // In a cluster, the file changes when another member denies a key.
  writeFileSync(path.join(pkiDir, 'minions_denied', keys.minionId), pem('other_minion').publicPem);
  await eventually('the denied key to be read', async () => (await fingerprint()) !== former);
  await master.keys.delete({ match: 'm1' });
  t.deepEqual(lost, ['m1']);
});

// The master's own keys: passphrases and signatures.

test('key_pass opens master.pem, and signing_key_pass the key that signs it', async (t) => {
  const directory = temporaryDirectory(t);
  const master = createMaster({
    config: resolveMasterConfig({
      ...directories(directory),
      masterSignPubkey: true,
      keyPass: 'one',
      signingKeyPass: 'two',
    }),
    store: createMemoryStore(),
    transports: [createMemoryTransport().master],
  });
  t.teardown(() => master.close());
  await master.start();
  const read = (name: string): string =>
    readFileSync(path.join(directory, 'pki', `${name}.pem`), 'utf8');
  t.notThrows(() => parsePrivateKey(read('master'), 'one'));
  t.notThrows(() => parsePrivateKey(read('master_sign'), 'two'));
});

const recordedSignedReply = cases(vectorFile('auth'), 'cases').find(
  ({ name }) => name === 'v3 master_sign_pubkey',
);
const recordedSignature = text(object(recordedSignedReply?.reply_inner_decoded).pub_sig);
const signaturesAreUsed = { masterSignPubkey: true, masterUsePubkeySignature: true };

/**
 * Writes the files that a master finds at its start: its own key pair and other files in `pki_dir`.
 */
async function layOut(
  t: ExecutionContext,
  files: Readonly<Record<string, string>>,
): Promise<Pick<VectorMasterOptions, 'directory' | 'store'>> {
  const directory = temporaryDirectory(t);
  const store = createMemoryStore({ now: () => RECORDED_AT });
  await layOutVectorMaster(directories(directory), store);
  const inPki = (name: string): string => path.join(directory, 'pki', name);
  for (const half of ['pem', 'pub']) rmSync(inPki(`master_sign.${half}`));
  for (const [name, content] of Object.entries(files)) writeFileSync(inPki(name), content);
  return { directory, store };
}

for (const [what, publicHalf] of [
  ['the public half of the key that signed is there', true],
  ['nothing of that key is there', false],
] as const) {
  test(`minions get the recorded signature created in advance if ${what}`, async (t) => {
    const place = await layOut(t, {
      'own.sig': recordedSignature,
      ...(publicHalf ? { 'master_sign.pub': pem('master_sign').publicPem } : {}),
    });
    const config = { ...signaturesAreUsed, masterPubkeySignature: 'own.sig' };
    const { ask } = await startVectorMaster(t, { ...place, config });
    const reply = unpackWire(await ask(base64(recordedSignedReply?.request_b64)));
    const load = isWireMap(reply) && reply.load instanceof Uint8Array ? reply.load : undefined;
    t.like(load && unpackWire(load), { pub_sig: recordedSignature });
    t.false(existsSync(path.join(place.directory ?? '', 'pki', 'master_sign.pem')));
  });
}

for (const [what, files] of [
  ['is missing', {}],
  [
    'is of the text with its last line feed',
    { master_pubkey_signature: signedRaw(), 'master_sign.pub': pem('master_sign').publicPem },
  ],
  [
    'is of another key',
    { master_pubkey_signature: recordedSignature, 'master_sign.pub': pem('minion').publicPem },
  ],
] as const) {
  test(`a signature that ${what} ends the start`, async (t) => {
    const place = await layOut(t, files);
    await t.throwsAsync(startVectorMaster(t, { ...place, config: signaturesAreUsed }), {
      instanceOf: MasterError,
      code: 'ERR_OWN_KEY',
    });
  });
}

/**
 * Returns the signature of Salt's own `salt-key --gen-signature`, which includes the line feed at
 * the end of the file.
 */
function signedRaw(): string {
  const key = parsePrivateKey(pem('master_sign').privatePem);
  const raw = Buffer.from(`${pem('master').publicPem.trim()}\n`);
  return `${rsaSign(key, raw, 'PKCS1v15-SHA1').toString('base64')}\n`;
}

/** Returns whether the counter of refused requests of minions without a key has grown. */
async function isRefused({ counters }: VectorMaster): Promise<boolean> {
  return ((await counters())['not-accepted'] ?? 0) > 0;
}

test('a request that waits when the key of its minion is deleted has no effect', async (t) => {
  const limits = { requestsPerSecond: 1, burst: 1 };
  const master = await startVectorMaster(t, { keys: many, config: { limits } });
  const events = await master.master.events.subscribe({ match: 'salt/*' });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { tag, data } of events) seen.push(`${tag} ${data.act ?? ''}`);
  })();
  const start = 'salt/minion/vecminion/start ';
  await isHeard(t, master);
  while (!seen.includes(start)) await turn();
  // The connection of a deleted minion ends, so there is no reply.
  master.ask(altered(startEvent, { load: { nonce: freshNonce() } })).catch(() => {});
  await master.master.keys.delete({ match: 'vecminion' });
  while (seen.at(-1) !== start && !(await isRefused(master))) await turn();
  await master.master.close();
  await reading;
  const deleted = seen.indexOf('salt/key delete');
  t.true(deleted > 0);
  t.false(seen.slice(deleted).includes(start));
});

test('a signal that waits when the key of its minion is deleted has no effect', async (t) => {
  const taken: string[] = [];
  const extension: MasterExtension = {
    name: 'signals',
    open: async () => ({
      intake: {
        isWanted: (tag) => tag.endsWith('/start'),
        isDelayed: (tag) => tag.endsWith('/start'),
        take: async ({ tag }) => void taken.push(tag),
      },
    }),
  };
  const master = await startVectorMaster(t, {
    keys: many,
    config: { limits: { eventsPerSecond: 1, burst: 1, requestsPerSecond: 0 } },
    extensions: [extension],
  });
  await isHeard(t, master);
  t.is(taken.length, 1);
  master.ask(altered(startEvent, { load: { nonce: freshNonce() } })).catch(() => {});
  await master.master.keys.delete({ match: 'vecminion' });
  const before = taken.length;
  while (taken.length === before && !(await isRefused(master))) await turn();
  t.is(taken.length, before);
});

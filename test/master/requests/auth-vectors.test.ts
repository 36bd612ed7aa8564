/** Recorded sign-ins: replies, key states and events are the same as Salt's. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  cleanKeyText,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  isWireMap,
  parsePrivateKey,
  parsePublicKey,
  rsaVerify,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { rsaDecrypt } from '#minion-protocol/rsa.ts';
import { x931Recover } from '#minion-protocol/x931.ts';
import { connectMinion, otherKey } from '../../helpers/connected-minion.ts';
import {
  type KeyDirectory,
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import {
  base64,
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

const directoriesOfKeys: readonly KeyDirectory[] = [
  'minions',
  'minions_pre',
  'minions_rejected',
  'minions_denied',
];

for (const vectors of groups()) {
  const names = vectors.map((vector) => text(vector.name)).join('; ');
  // These tests run serially, because each master has worker threads for RSA.
  test.serial(`answers recorded sign-ins like Salt: ${names}`, async (t) => {
    const [first = {}] = vectors;
    const master = await startVectorMaster(t, setting(first));
    for (const id of others(first)) await connectMinion(t, master, id);
    for (const vector of vectors) await replay(t, master, vector);
  });
}

/** Groups cases. Cases that do not change keys share a master; each other case has its own. */
function groups(): JsonObject[][] {
  const found = new Map<string, JsonObject[]>();
  for (const vector of cases(vectorFile('auth'), 'cases')) {
    const key = changesKeys(vector) ? text(vector.name) : JSON.stringify(setting(vector));
    found.set(key, [...(found.get(key) ?? []), vector]);
  }
  return [...found.values()];
}

async function replay(
  t: ExecutionContext,
  { directory, ask, eventsDuring }: VectorMaster,
  vector: JsonObject,
): Promise<void> {
  let reply: Buffer = Buffer.alloc(0);
  const events = await eventsDuring(async () => {
    reply = await ask(base64(vector.request_b64));
  });
  compareReplies(t, vector, reply);
  t.deepEqual(directoriesWith(directory), vector.key_state_after, text(vector.name));
  t.deepEqual(events.map(toComparable), recordedEvents(vector), text(vector.name));
}

/** Returns the options of the recorded master. */
function setting(vector: JsonObject): VectorMasterOptions {
  const options = object(vector.master_opts);
  return {
    keys: [...storedBefore(vector), ...others(vector).map(otherKey)],
    config: {
      autoAccept: options.auto_accept === true,
      // Unlike in Salt, replacing a key also replaces the publish key, a little later.
      rotateAesKey: false,
      openMode: options.open_mode === true,
      confirmOpenMode: options.open_mode === true,
      masterSignPubkey: options.master_sign_pubkey === true,
      maxMinions: limitOf(vector),
      // Connected minions use the system's clock.
      ...(limitOf(vector) > 0 ? { requestServerTtl: 0 } : {}),
    },
  };
}

/** Returns the minions that must be connected to reach `max_minions`. */
function others(vector: JsonObject): string[] {
  const limit = limitOf(vector);
  return limit === 0 ? [] : Array.from({ length: limit + 1 }, (_, index) => `other${index}`);
}

function limitOf(vector: JsonObject): number {
  return Number(object(vector.master_opts).max_minions ?? 0);
}

function changesKeys(vector: JsonObject): boolean {
  const before = vector.key_state_before === null ? [] : [vector.key_state_before];
  return (
    JSON.stringify(before) !== JSON.stringify(vector.key_state_after) ||
    text(vector.name).includes('replaces stored key')
  );
}

test('a key that replaces another in open mode is the one on disk', async (t) => {
  const vector = caseNamed('v3 open_mode replaces stored key');
  const { directory, ask } = await startVectorMaster(t, setting(vector));
  await ask(base64(vector.request_b64));
  const stored = readFileSync(path.join(directory, 'pki', 'minions', keys.minionId), 'utf8');
  t.is(cleanKeyText(stored), cleanKeyText(pem('minion').publicPem));
});

function caseNamed(name: string): JsonObject {
  const found = cases(vectorFile('auth'), 'cases').find((vector) => vector.name === name);
  if (found === undefined) throw new Error(`no such case: ${name}`);
  return found;
}

function storedBefore(vector: JsonObject): StoredKey[] {
  const directory = directoriesOfKeys.find((name) => name === vector.key_state_before);
  if (directory === undefined) return [];
  const isOther = /different key|replaces stored key/.test(text(vector.name));
  const { publicPem } = pem(isOther ? 'other_minion' : 'minion');
  return [{ directory, id: keys.minionId, publicPem }];
}

function directoriesWith(directory: string): string[] {
  return directoriesOfKeys.filter((name) =>
    readdirSync(path.join(directory, 'pki', name)).includes(keys.minionId),
  );
}

function recordedEvents(vector: JsonObject): { tag: string; data: string }[] {
  // Salt fires the event about a sign-in with an unknown signature algorithm before it fails to
  // sign.
  if (text(vector.name) === 'v3 unsupported sig_algo') return [];
  return cases(vector, 'events').map(({ tag, data }) => ({
    tag: text(tag),
    data: canonicalWire(toWireValue(data)),
  }));
}

function toComparable({ tag, data }: { tag: string; data: WireMap }): {
  tag: string;
  data: string;
} {
  const { _stamp, ...rest } = data;
  return { tag, data: canonicalWire(rest) };
}

function compareReplies(t: ExecutionContext, vector: JsonObject, reply: Buffer): void {
  const decoded = toWireValue(object(vector.request_decoded).load);
  const request = isWireMap(decoded) ? decoded : {};
  // An id whose key was not accepted before gets a new session key.
  const hide = changesKeys(vector) ? hideSession : (value: WireValue): WireValue => value;
  const ours = hide(openReply(t, unpackWire(reply), request));
  const theirs = hide(openReply(t, unpackWire(base64(vector.reply_b64)), request));
  t.is(canonicalWire(ours), canonicalWire(theirs), text(vector.name));
}

/**
 * Returns the reply with random parts replaced by their decrypted content, and signatures by
 * whether they are valid.
 */
function openReply(t: ExecutionContext, reply: WireValue, request: WireMap): WireValue {
  if (!isWireMap(reply)) return reply;
  const signed = wireBytes(reply.load);
  if (signed === undefined) return openKeys(reply, request);
  const algorithm = request.sig_algo ?? 'PKCS1v15-SHA1';
  const signature = wireBytes(reply.sig);
  if (!isSigningAlgorithm(algorithm) || signature === undefined) return t.fail('no signature');
  const inner = unpackWire(signed);
  return {
    ...reply,
    load: isWireMap(inner) ? openKeys(inner, request) : inner,
    sig: rsaVerify(parsePublicKey(pem('master').publicPem), signed, signature, algorithm),
  };
}

function openKeys(map: WireMap, request: WireMap): WireMap {
  const algorithm = request.enc_algo ?? 'OAEP-SHA1';
  if (map.enc !== 'pub' || !isEncryptionAlgorithm(algorithm)) return map;
  const minionKey = parsePrivateKey(pem('minion').privatePem);
  const opened: WireMap = { ...map, publish_port: 0 };
  for (const name of ['aes', 'session', 'token']) {
    const bytes = wireBytes(map[name]);
    if (bytes !== undefined)
      opened[name] = rsaDecrypt(minionKey, bytes, algorithm).toString('latin1');
  }
  const sig = wireBytes(map.sig);
  const masterKey = parsePublicKey(pem('master').publicPem);
  if (sig !== undefined) opened.sig = x931Recover(masterKey, sig)?.toString('latin1') ?? null;
  return opened;
}

function hideSession(reply: WireValue): WireValue {
  if (!isWireMap(reply)) return reply;
  if (isWireMap(reply.load)) return { ...reply, load: hideSession(reply.load) };
  const { session } = reply;
  return typeof session === 'string' ? { ...reply, session: session.length } : reply;
}

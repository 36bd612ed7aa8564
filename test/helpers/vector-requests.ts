/** Recorded requests, unchanged or with one change, and their replies. */
import {
  type CrypticleKey,
  isWireMap,
  openValue,
  type ProtocolVersion,
  packWire,
  parseKeyString,
  parsePrivateKey,
  sealValue,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { openSendReply } from '#minion-protocol/reply.ts';
import { minionToken } from '#minion-protocol/x931.ts';
import { base64, cases, type JsonObject, keys, pem, toWireValue, vectorFile } from './vectors.ts';

export const aesKey: CrypticleKey = parseKeyString(keys.aes);
export const sessionKey: CrypticleKey = parseKeyString(keys.session);
/** Proof of identity of the vectors' minion. */
export const token: Buffer = minionToken(parsePrivateKey(pem('minion').privatePem));

/** Returns a recorded case by its name. */
export function recorded(file: string, name: string): JsonObject {
  const found = cases(vectorFile(file), 'cases').find((vector) => vector.name === name);
  if (found === undefined) throw new Error(`${file}.json has no case ${name}`);
  return found;
}

/** Returns the protocol version of a recorded case. */
export function versionOf({ version }: JsonObject): ProtocolVersion {
  if (version === 0 || version === 2 || version === 3) return version;
  throw new TypeError('no version');
}

/**
 * Groups cases by protocol version. A master rejects versions below the one that a minion has
 * proved, so each version needs its own master.
 */
export function byVersion(vectors: readonly JsonObject[]): Map<ProtocolVersion, JsonObject[]> {
  const groups = new Map<ProtocolVersion, JsonObject[]>();
  for (const vector of vectors) {
    const version = versionOf(vector);
    groups.set(version, [...(groups.get(version) ?? []), vector]);
  }
  return groups;
}

/**
 * Returns the value in the reply to a recorded request.
 * @throws ProtocolError if the bytes are not a valid reply
 */
export function openReply(
  vector: JsonObject,
  reply: Uint8Array,
  nonce: string = keys.nonce,
): WireValue {
  const version = versionOf(vector);
  const key = version === 3 ? sessionKey : aesKey;
  return openSendReply(reply, { version, key, ...(version < 2 ? {} : { nonce }) });
}

/** Returns the load of a recorded request before encryption. */
export function loadOf(vector: JsonObject): WireMap {
  return asMap(toWireValue(vector.request_load));
}

/** Changes to a recorded request. A field whose value is `undefined` is removed. */
export interface Alteration {
  readonly envelope?: Readonly<Record<string, WireValue | undefined>>;
  readonly load?: Readonly<Record<string, WireValue | undefined>>;
  /** Key that encrypts the load. Default: the key of the recorded request. */
  readonly key?: CrypticleKey;
}

/** Returns a recorded request with changes, encrypted again. */
export function altered(vector: JsonObject, { envelope, load, key }: Alteration): Buffer {
  const outer = asMap(unpackWire(base64(vector.request_b64)));
  const blob = wireBytes(outer.load);
  if (blob === undefined) throw new TypeError('the request is not encrypted');
  const recordedKey = versionOf(vector) === 3 ? sessionKey : aesKey;
  const inner = merged(asMap(openValue(recordedKey, blob)), load);
  return packWire({ ...merged(outer, envelope), load: sealValue(key ?? recordedKey, inner) });
}

let requests = 0;

/** Returns a nonce that no other request of this process has. */
export function freshNonce(): string {
  requests += 1;
  return requests.toString(16).padStart(32, '0');
}

function asMap(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

function merged(map: WireMap, changes: Alteration['load'] = {}): WireMap {
  const result: WireMap = { ...map };
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) delete result[name];
    else result[name] = value;
  }
  return result;
}

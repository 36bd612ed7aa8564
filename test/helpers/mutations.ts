/**
 * Changes valid requests into invalid ones: the outer message, or the content before encryption.
 * The changes are reproducible.
 */
import {
  type CrypticleKey,
  emptyWireMap,
  isWireMap,
  openValue,
  packWire,
  sealValue,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { sealCrypticle } from '#minion-protocol/crypt.ts';
import { aesKey, sessionKey, versionOf } from './vector-requests.ts';
import { base64, cases, type JsonObject, vectorFile } from './vectors.ts';

/** Returns the next random number below `bound`. */
export type Random = (bound: number) => number;

/** Returns a generator of random numbers. The same seed gives the same numbers (mulberry32). */
export function seeded(seed: number): Random {
  let state = seed;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
}

const sealedVectors = ['minion_event', 'return', 'aes_functions'].flatMap((name) =>
  cases(vectorFile(name), 'cases'),
);
const clearVectors = cases(vectorFile('auth'), 'cases');
const everyRequest = [...sealedVectors, ...clearVectors].map((vector) =>
  base64(vector.request_b64),
);

/** Returns a changed request. By chance it may still be valid. */
export function mutated(random: Random): Buffer {
  return random(2) === 0 ? brokenOutside(random) : brokenInside(random);
}

function pick<T>(random: Random, list: readonly T[]): T {
  const found = list[random(list.length)];
  if (found === undefined) throw new Error('an empty list');
  return found;
}

/** Returns a copy of the bytes with random changes. */
function brokenBytes(random: Random, good: Buffer): Buffer {
  switch (random(6)) {
    case 0:
      return flipped(random, good);
    case 1:
      return good.subarray(0, random(good.length));
    case 2:
      return Buffer.concat([good, noise(random, 1 + random(40))]);
    case 3:
      return Buffer.concat([good.subarray(0, random(good.length)), noise(random, random(80))]);
    case 4:
      return noise(random, random(200));
    default:
      return bomb(random);
  }
}

function flipped(random: Random, good: Buffer): Buffer {
  const bytes = Buffer.from(good);
  for (let count = 1 + random(8); count > 0 && bytes.length > 0; count -= 1) {
    bytes[random(bytes.length)] = random(256);
  }
  return bytes;
}

function noise(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random(256)));
}

/** Returns a deeply nested value, or one whose header declares more than follows. */
function bomb(random: Random): Buffer {
  const header = pick(random, ['dd', 'df', 'db', 'c6', 'c9', 'de', 'dc']);
  const nested = pick(random, ['91', '81a161', 'dc0001', 'c1', 'ffff']);
  return pick(random, [
    Buffer.from(`${header}ffffffff`, 'hex'),
    Buffer.from(nested.repeat(1 + random(5000)), 'hex'),
    Buffer.from(`83a3656e63a3616573a46c6f6164${header}7fffffff00`, 'hex'),
  ]);
}

const oddValues: readonly WireValue[] = [
  null,
  true,
  -1,
  2n ** 63n,
  Number.NaN,
  '',
  'victim',
  '../../etc',
  '__proto__',
  'x'.repeat(70_000),
  new Uint8Array(300),
  [],
  [[[[[]]]]],
  {},
  new Map<WireValue, WireValue>([[1, 2]]),
];

function withOddField(random: Random, map: WireMap): WireMap {
  const names = [...Object.keys(map), 'id', 'nonce', 'ts', 'tok', 'cmd', 'version', 'unknown'];
  const name = pick(random, names);
  const result: WireMap = Object.assign(emptyWireMap(), map);
  if (random(4) === 0) delete result[name];
  else result[name] = pick(random, oddValues);
  return result;
}

function brokenOutside(random: Random): Buffer {
  const good = pick(random, everyRequest);
  const outer = unpackWire(good);
  if (random(2) === 0 || !isWireMap(outer)) return brokenBytes(random, good);
  if (isWireMap(outer.load) && random(2) === 0) {
    return packWire({ ...outer, load: withOddField(random, outer.load) });
  }
  return packWire(withOddField(random, outer));
}

function brokenInside(random: Random): Buffer {
  const vector = pick(random, sealedVectors);
  const outer = unpackWire(base64(vector.request_b64));
  if (!isWireMap(outer)) throw new TypeError('a recorded request is no map');
  const key = keyOf(vector);
  const load = openValue(key, wireBytes(outer.load) ?? new Uint8Array(0));
  return packWire({ ...outer, load: brokenLoad(random, key, isWireMap(load) ? load : {}) });
}

function brokenLoad(random: Random, key: CrypticleKey, load: WireMap): Buffer {
  const plain = Buffer.concat([Buffer.from('pillar::'), packWire(load)]);
  switch (random(7)) {
    case 0:
      return sealCrypticle(key, brokenBytes(random, plain));
    case 1:
      return sealCrypticle(
        key,
        Buffer.concat([Buffer.from('pillar::'), brokenBytes(random, packWire(load))]),
      );
    case 2:
      return sealValue(key, pick(random, oddValues));
    case 3:
      return sealValue(key === aesKey ? sessionKey : aesKey, load);
    case 4:
      // The request is repeated unchanged.
      return sealValue(key, load);
    case 5:
      return flipped(random, sealValue(key, load));
    default:
      return sealValue(key, withOddField(random, withOddField(random, load)));
  }
}

function keyOf(vector: JsonObject): CrypticleKey {
  return versionOf(vector) === 3 ? sessionKey : aesKey;
}

/**
 * Whether a reply is one that Salt's master could give: a rejection, or an encrypted or signed
 * value.
 */
export function isAnswerOfSalt(bytes: Uint8Array): boolean {
  const reply = unpackWire(bytes);
  if (reply instanceof Uint8Array) return true;
  if (typeof reply === 'string') return isRefusalText(reply);
  if (!isWireMap(reply)) return false;
  const names = Object.keys(reply).sort().join();
  const isPing = reply.cmd === 'ping';
  return (
    isPing ||
    ['', 'msg', 'enc,load', 'enc,load,sig', 'key,pillar'].includes(names) ||
    reply.enc === 'pub'
  );
}

/** Whether a reply is a rejection as plain text. */
export function isRefusal(bytes: Uint8Array): boolean {
  const reply = unpackWire(bytes);
  return typeof reply === 'string' || (isWireMap(reply) && reply.msg === 'bad load');
}

function isRefusalText(text: string): boolean {
  return (
    text.startsWith('bad load') ||
    text === 'payload and load must be a dict' ||
    text === 'Some exception handling minion payload'
  );
}

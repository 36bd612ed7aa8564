import { readFileSync } from 'node:fs';
import {
  emptyWireMap,
  isWireMap,
  packLocal,
  packWire,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';

/** A parsed vector file or a part of it; see test/fixtures/vectors/README.md. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** An object in a vector file. */
export interface JsonObject {
  [key: string]: Json;
}

/** Returns the parsed content of `test/fixtures/vectors/<name>.json`. */
export function vectorFile(name: string): JsonObject {
  const url = new URL(`../../test/fixtures/vectors/${name}.json`, import.meta.url);
  return object(JSON.parse(readFileSync(url, 'utf8')));
}

/** Returns the list under `key`. Each element must be an object. */
export function cases(container: JsonObject, key: string): JsonObject[] {
  const list = container[key];
  if (!Array.isArray(list)) throw new TypeError(`${key} is not a list`);
  return list.map(object);
}

/** Returns `json` as an object. */
export function object(json: Json | undefined): JsonObject {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new TypeError('not an object');
  }
  return json;
}

/** Returns `json` as text. */
export function text(json: Json | undefined): string {
  if (typeof json !== 'string') throw new TypeError('not text');
  return json;
}

/** Returns `json` as a number. */
export function number(json: Json | undefined): number {
  if (typeof json !== 'number') throw new TypeError('not a number');
  return json;
}

/** Returns the bytes of a field `…_hex`. */
export function hex(json: Json | undefined): Buffer {
  return Buffer.from(text(json), 'hex');
}

/** Returns the bytes of a field `…_b64`. */
export function base64(json: Json | undefined): Buffer {
  return Buffer.from(text(json), 'base64');
}

/** Converts the tagged JSON form of a value to the value. */
export function toWireValue(json: Json | undefined): WireValue {
  if (json === undefined) throw new TypeError('no such field');
  if (Array.isArray(json)) return json.map(toWireValue);
  if (typeof json !== 'object' || json === null) return json;
  return tagged(json) ?? untagged(json);
}

function untagged(json: JsonObject): WireMap {
  const map = emptyWireMap();
  for (const [key, value] of Object.entries(json)) map[key] = toWireValue(value);
  return map;
}

function tagged(json: JsonObject): WireValue | undefined {
  const [tag, ...others] = Object.keys(json);
  if (others.length > 0) return undefined;
  const content = json[tag ?? ''];
  switch (tag) {
    case '$b64':
      return new Uint8Array(base64(content));
    case '$int':
      return BigInt(text(content));
    case '$map':
      return pairs(content);
    case '$ext':
      return extension(content);
    case '$datetime':
      return new WireDateTime(text(content));
    case '$date':
      return new WireDateTime(`${text(content)}T00:00:00.000000`);
    case '$constant':
      return Array.isArray(content) ? toWireValue(content[1]) : undefined;
    case '$repeat':
      return repeated(content);
    default:
      return undefined;
  }
}

function pairs(content: Json | undefined): Map<WireValue, WireValue> {
  if (!Array.isArray(content)) throw new TypeError('$map without a list');
  return new Map(
    content.map((pair) => {
      if (!Array.isArray(pair)) throw new TypeError('$map without pairs');
      return [toWireValue(pair[0]), toWireValue(pair[1])];
    }),
  );
}

function extension(content: Json | undefined): WireExtension {
  if (!Array.isArray(content)) throw new TypeError('$ext without a list');
  return new WireExtension(Number(content[0]), base64(content[1]));
}

function repeated(content: Json | undefined): string {
  if (!Array.isArray(content)) throw new TypeError('$repeat without a list');
  return text(content[0]).repeat(Number(content[1]));
}

/**
 * Returns a text that is equal for equal values, regardless of their classes and the order of keys.
 */
export function canonical(value: WireValue): string {
  return packLocal(sorted(value, packLocal)).toString('hex');
}

/**
 * Returns a text like {@link canonical}. Text and bytes that are equal on the wire are treated as
 * equal.
 */
export function canonicalWire(value: WireValue): string {
  return packWire(sorted(value, packWire)).toString('hex');
}

function sorted(value: WireValue, pack: (value: WireValue) => Buffer): WireValue {
  if (Array.isArray(value)) return value.map((item) => sorted(item, pack));
  if (!(value instanceof Map) && !isWireMap(value)) return value;
  const entries: [WireValue, WireValue][] =
    value instanceof Map ? [...value] : Object.entries(value);
  entries.sort(([left], [right]) => Buffer.compare(pack(left), pack(right)));
  return new Map(entries.map(([key, item]) => [key, sorted(item, pack)]));
}

const keyFile = vectorFile('keys');

/** Keys of the recorded vectors. */
export const keys: {
  readonly aes: string;
  readonly session: string;
  readonly ephemeral: string;
  readonly token: string;
  readonly nonce: string;
  readonly minionId: string;
} = {
  aes: text(keyFile.aes_key_string),
  session: text(keyFile.session_key_string),
  ephemeral: text(keyFile.ephemeral_key_string),
  token: text(keyFile.minion_token_string),
  nonce: '00112233445566778899aabbccddeeff',
  minionId: 'vecminion',
};

/**
 * Returns the PEM texts of one of the vectors' key pairs, with a final line feed as in the file.
 */
export function pem(name: string): { readonly privatePem: string; readonly publicPem: string } {
  const pair = object(object(keyFile.keys)[name]);
  return { privatePem: text(pair.private_pem), publicPem: text(pair.public_pem) };
}

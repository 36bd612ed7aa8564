/**
 * Reads one YAML document as Salt does: YAML 1.1 with the resolvers of PyYAML, which differ from
 * the standard, and with Salt's handling of leading zeros and dates [PyYAML resolver.py,
 * constructor.py; salt utils/yamlloader.py].
 */

import { Composer, type Document, isMap, isScalar, isSeq, type ParsedNode } from 'yaml';
import type { WireMap, WireValue } from '#minion-protocol';
import { integerOf64Bits } from '#runtime';
import { Float } from '#template/python/values.ts';
import { correctLastBlock, pythonTags } from '#template/python/yaml-nodes.ts';
import { resolveTag } from '#template/python/yaml-scalar.ts';
import { isBeyondLibyaml } from './libyaml-refusals.ts';
import { boundedTokens, tooMany, type YamlLimits } from './yaml-limits.ts';

/** Whether PyYAML reads this unquoted text as a string. */
export function isPlainYamlText(text: string): boolean {
  return resolveTag(text) === 'str';
}

/** Characters that PyYAML's reader rejects. */
const unreadable = /(?![\t\r\n\x85])[\p{Cc}\ufffe\uffff]/u;

/** NEL, which is a line break in YAML 1.1 but not in YAML 1.2. */
const nextLine = '\x85';

/**
 * Parses one YAML document. Maps with only string keys become objects without a prototype. Other
 * maps become a `Map`.
 * @throws Error if the text is not exactly one YAML document with supported values
 */
export function parseYaml(text: string, limits: YamlLimits = {}): WireValue {
  if (unreadable.test(text)) throw new Error('the YAML text contains control characters');
  const lines = text.replaceAll(nextLine, '\n');
  const document = compose(lines, limits);
  const [complaint] = [...document.errors, ...document.warnings];
  if (complaint !== undefined) throw complaint;
  if (isBeyondLibyaml(document, lines))
    throw new SyntaxError('Salt cannot read this YAML: libyaml rejects its syntax');
  checkNodes(document.contents, limits);
  correctLastBlock(document, lines);
  return toWireValue(document.toJS({ mapAsMap: true }), limits.keepsFloats === true);
}

/**
 * Options of the `yaml` package. Its check for unique keys is off, because that check compares each
 * key with all others. `checkNodes` checks the keys instead.
 */
const composing = {
  version: '1.1',
  schema: 'failsafe',
  customTags: pythonTags,
  uniqueKeys: false,
  prettyErrors: false,
} as const;

function compose(text: string, limits: YamlLimits): Document.Parsed {
  const composer = new Composer<ParsedNode>(composing);
  const [document, more] = composer.compose(boundedTokens(text, limits), true, text.length);
  if (document === undefined || more !== undefined)
    throw new SyntaxError('the YAML text must contain exactly one document');
  return document;
}

/**
 * Checks the number of values, and that no map contains a key twice. Converts integers to a form
 * that fits the wire format.
 */
function checkNodes(root: unknown, { maxValues, isPlain = false }: YamlLimits): void {
  let count = 0;
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    count += 1;
    if (maxValues !== undefined && count > maxValues) throw tooMany(maxValues);
    if (isPlain && isScalar(node) && typeof node.value === 'bigint') {
      node.value = integerOf64Bits(node.value);
    }
    if (isSeq(node)) for (const item of node.items) waiting.push(item);
    if (!isMap(node)) continue;
    const keys = new Set<unknown>();
    for (const { key, value } of node.items) {
      if (isScalar(key) && keys.size === keys.add(pythonKey(key.value)).size) {
        throw new SyntaxError('a map in the YAML text contains a key twice');
      }
      waiting.push(value);
    }
  }
}

/** Whether a value is an integer beyond 64 bits, which MessagePack cannot represent. */
export function isBeyond64Bits(value: unknown): boolean {
  return typeof value === 'bigint' && (value < -(2n ** 63n) || value >= 2n ** 64n);
}

function toWireValue(value: unknown, keepsFloats: boolean): WireValue {
  if (Array.isArray(value)) return value.map((item) => toWireValue(item, keepsFloats));
  if (value instanceof Map) return toWireMap([...value], keepsFloats);
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (value instanceof Float) return keepsFloats ? value : value.value;
  if (isPlainScalar(value)) return value;
  throw new TypeError(`values of type ${typeof value} are not supported`);
}

function isPlainScalar(value: unknown): value is null | boolean | number | bigint | string {
  return value === null || ['boolean', 'number', 'bigint', 'string'].includes(typeof value);
}

function toWireMap(entries: readonly [unknown, unknown][], keepsFloats: boolean): WireValue {
  const read = entries.map(([key, item]): [WireValue, WireValue] => {
    if (!isPlainScalar(key) && !(key instanceof Float)) {
      throw new TypeError('a key of a map must not be a list or a map');
    }
    return [toWireValue(key, keepsFloats), toWireValue(item, keepsFloats)];
  });
  const map: WireMap = Object.create(null);
  for (const [key, item] of read) {
    if (typeof key !== 'string') return new Map(read);
    map[key] = item;
  }
  return map;
}

/**
 * Returns a value that identifies a key as Python compares keys. For Python, `1`, `1.0` and `True`
 * are the same key.
 */
function pythonKey(value: unknown): unknown {
  return typeof value === 'boolean' || value instanceof Float ? Number(value) : value;
}

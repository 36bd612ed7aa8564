/** Finds the files that provide pillar values, and the differences between two pillars. */

import { isDeepStrictEqual } from 'node:util';
import type { PillarDifference, PillarExplanation } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';
import type { PillarLayer } from '../render/pillar-source.ts';
import { toWire } from '../render/pillar-wire.ts';
import { valueAt } from './pillar.ts';

type PillarOrigin = PillarExplanation['files'][number];

/** Sources of a pillar value. */
export interface PillarOrigins {
  /** Files that provide the value, in the order of merging. Later files override earlier ones. */
  readonly files: PillarOrigin[];
  /**
   * Number of files that are left out of `files` because there are more than {@link maxFiles}. The
   * files of the lowest layers are left out.
   */
  readonly omitted: number;
}

/** Maximum number of files that are returned for one value. */
const maxFiles = 200;

/**
 * Returns the files that provide the value at a path, in the order of merging. If a file occurs
 * several times in this order, only its last position counts.
 */
export function originsOf(layers: readonly PillarLayer[], path: string): PillarOrigins {
  const files: PillarOrigin[] = [];
  const seen = new Set<string>();
  for (const layer of layers.toReversed()) {
    const mark = `${layer.saltenv}\0${layer.sls}`;
    if (seen.has(mark)) continue;
    const value = valueAt(toWire(layer.data), path);
    if (value === undefined) continue;
    seen.add(mark);
    if (files.length < maxFiles) files.push(originOf(layer, path, value));
  }
  return { files: files.reverse(), omitted: seen.size - files.length };
}

function originOf(
  { saltenv, sls, file }: PillarLayer,
  path: string,
  value: WireValue,
): PillarOrigin {
  const line = lineOf(file.text, path);
  return { saltenv, sls, file: file.path, ...(line === undefined ? {} : { line }), value };
}

function lineOf(text: string, path: string): number | undefined {
  const key = path.split(':').at(-1) ?? '';
  const lines = text.split('\n');
  const found = lines.flatMap((line, index) => (keyOf(line) === key ? [index + 1] : []));
  return found.length === 1 ? found[0] : undefined;
}

/** Returns the key at the beginning of a line of YAML or JSON. */
function keyOf(line: string): string | undefined {
  const form = /^[\s-]*(?:"([^"]+)"\s*|'([^']+)'\s*|([^\s"'#:{-][^:]*)):(?:\s|$)/;
  const [, double, single, plain] = form.exec(line) ?? [];
  return double ?? single ?? plain?.trimEnd();
}

/**
 * Returns all values that differ between two pillars, sorted by path. Maps are compared level by
 * level.
 */
export function differences(before: WireValue, after: WireValue, path = ''): PillarDifference[] {
  const [left, right] = [entriesOf(before), entriesOf(after)];
  if (left === undefined || right === undefined) {
    return isDeepStrictEqual(before, after) ? [] : [{ path, before, after }];
  }
  const names = [...new Set([...left.keys(), ...right.keys()])].sort();
  return names.flatMap((name) => {
    const inner = path === '' ? name : `${path}:${name}`;
    const [was, is] = [left.get(name), right.get(name)];
    if (was === undefined) return is === undefined ? [] : [{ path: inner, after: is }];
    return is === undefined ? [{ path: inner, before: was }] : differences(was, is, inner);
  });
}

function entriesOf(value: WireValue): ReadonlyMap<string, WireValue> | undefined {
  if (value instanceof Map) return new Map([...value].map(([key, inner]) => [String(key), inner]));
  return isWireMap(value) ? new Map(Object.entries(value)) : undefined;
}

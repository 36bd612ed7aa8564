/** Where a value of a pillar comes from. */
import { traverseFacts, type WireValue } from '../../minion-protocol/index.ts';
import type { PillarLayer } from './compile.ts';
import { toWire } from './wire.ts';

/** A file that says something of a value. */
export interface PillarOrigin {
  readonly saltenv: string;
  readonly sls: string;
  /** Below its root. */
  readonly file: string;
  /** From 1; where the key stands in one line of the file only. */
  readonly line?: number;
  readonly value: WireValue;
}

/** The value at a path of keys (`a:b`); of the empty path, all of it. */
export function valueAt(data: WireValue, path: string): WireValue | undefined {
  return path === '' ? data : traverseFacts(data, path.split(':'));
}

/** Where a value comes from. */
export interface PillarOrigins {
  /** In the order in which they lie over each other. */
  readonly files: PillarOrigin[];
  /** How many more lie under them. */
  readonly omitted: number;
}

/** Files that an explanation names. */
const maxFiles = 200;

/** The files that give something at a path, each where it lies uppermost. */
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

/** The key that a line of YAML or JSON begins with. */
function keyOf(line: string): string | undefined {
  const form = /^[\s-]*(?:"([^"]+)"|'([^']+)'|([^\s"'#:{][^:]*))\s*:(?:\s|$)/;
  const [, double, single, plain] = form.exec(line) ?? [];
  return double ?? single ?? plain?.trimEnd();
}

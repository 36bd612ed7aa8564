/** Where a value of a pillar comes from. */
import { traverse, type WireValue } from '../../minion-protocol/index.ts';
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
  return path === '' ? data : traverse(data, path.split(':'));
}

/** The files that give something at a path, in the order in which they lie over each other. */
export function originsOf(layers: readonly PillarLayer[], path: string): PillarOrigin[] {
  const origins = new Map<string, PillarOrigin>();
  for (const { saltenv, sls, file, data } of layers) {
    const value = valueAt(toWire(data), path);
    if (value === undefined) continue;
    const line = lineOf(file.text, path);
    const origin = {
      saltenv,
      sls,
      file: file.path,
      ...(line === undefined ? {} : { line }),
      value,
    };
    // A file that is included several times counts where it lies uppermost.
    const mark = `${saltenv}\0${sls}`;
    origins.delete(mark);
    origins.set(mark, origin);
  }
  return [...origins.values()];
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

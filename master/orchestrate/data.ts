/** What SLS are made of, looked at as Salt looks at it. */
import { compileGlob, pythonStr } from '../../minion-protocol/index.ts';
import type { PlainData } from '../../template/index.ts';
import { toWire } from '../pillar/wire.ts';

export function isList(data: PlainData | undefined): data is readonly PlainData[] {
  return Array.isArray(data);
}

/** A value as Python's `str` prints it. */
export function textOf(data: PlainData): string {
  return pythonStr(toWire(data));
}

/** The name of its type in Python. */
export function typeName(data: PlainData): string {
  if (data === null) return 'NoneType';
  if (typeof data === 'string') return 'str';
  if (typeof data === 'boolean') return 'bool';
  if (typeof data === 'number' || typeof data === 'bigint') return 'int';
  if (isList(data)) return 'list';
  return data instanceof Map ? 'dict' : 'float';
}

const globCharacters = /[*?[]/;

/** Whether a name is meant by a glob, as `fnmatch` says. */
export function matchesGlob(name: string, glob: string): boolean {
  return globCharacters.test(glob) ? compileGlob(glob)(name) : name === glob;
}

/** `a.b.c` is `a` and `b`, as Salt takes the names of functions apart. */
export function splitFunction(name: string): readonly [state: string, fun: string] {
  const [state = '', fun = ''] = name.split('.');
  return [state, fun];
}

/** Parses and normalises requested paths before any look-up [WIRE 9.8, THREATS G-03, C-40]. */

import { relativePath } from '#master';
import type { WireValue } from '#minion-protocol';

/**
 * Maximum length of a query and of the name of an environment, in characters. Patterns of the
 * configuration are compared with names of environments.
 */
const maxNameLength = 4096;

/** Path and environment of a requested file. */
export interface RequestedFile {
  /** Relative, normalised path: no empty, `.` or `..` segments. */
  readonly path: string;
  readonly saltenv: string;
}

/**
 * Reads `path` and `saltenv` of a minion's request. The query of `dir/file?saltenv=NAME` overrides
 * `saltenv`. A path that begins with `|` has no query. Returns `undefined` for bytes that are not
 * UTF-8, absolute paths, paths with `..` or NUL, and paths that are too long [salt/fileserver
 * find_file, salt/utils/url.py].
 */
export function requestedFile(
  path: WireValue | undefined,
  saltenv: WireValue | undefined,
): RequestedFile | undefined {
  if (typeof path !== 'string') return undefined;
  const isEscaped = path.startsWith('|');
  const [place = '', query = ''] = isEscaped ? [path.slice(1)] : path.split('?', 2);
  const relative = relativePath(place);
  if (query.length > maxNameLength) return undefined;
  const env = saltenvInQuery(query) ?? saltenvName(saltenv);
  return relative === undefined || env === undefined ? undefined : { path: relative, saltenv: env };
}

/**
 * Returns the name of an environment. Accepts numbers, because YAML parses names such as `3` as
 * numbers. Returns `undefined` for other values and for names that are too long.
 */
export function saltenvName(value: WireValue | undefined): string | undefined {
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string' || value.length > maxNameLength) return undefined;
  return value === '' ? undefined : value;
}

function saltenvInQuery(query: string): string | undefined {
  for (const option of query.split('&')) {
    if (option.startsWith('saltenv=')) return option.slice('saltenv='.length);
  }
  return undefined;
}

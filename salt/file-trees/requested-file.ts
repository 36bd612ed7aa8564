/** Requested paths, normalised before any look-up [WIRE 9.8, THREATS G-03, C-40]. */

import { relativePath } from '#master';
import type { WireValue } from '#minion-protocol';

/** A file by its place in an environment. */
export interface RequestedFile {
  /** Relative, normalised: no empty, `.` or `..` segments. */
  readonly path: string;
  readonly saltenv: string;
}

/**
 * Reads the `path` and `saltenv` of a load: `dir/file`, with `?saltenv=NAME` behind it if it is
 * not in the environment of the load; a path that begins with `|` has no such query. Bytes that
 * are not UTF-8, absolute paths, those with `..` or NUL, and those that are too long name nothing.
 * [salt/fileserver find_file, salt/utils/url.py]
 */
export function requestedFile(
  path: WireValue | undefined,
  saltenv: WireValue | undefined,
): RequestedFile | undefined {
  if (typeof path !== 'string') return undefined;
  const isEscaped = path.startsWith('|');
  const [place = '', query = ''] = isEscaped ? [path.slice(1)] : path.split('?', 2);
  const relative = relativePath(place);
  const env = saltenvInQuery(query) ?? saltenvName(saltenv);
  return relative === undefined || env === undefined ? undefined : { path: relative, saltenv: env };
}

/** The name of an environment: text, or a number, which YAML makes of names such as `3`. */
export function saltenvName(value: WireValue | undefined): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function saltenvInQuery(query: string): string | undefined {
  for (const option of query.split('&')) {
    if (option.startsWith('saltenv=')) return option.slice('saltenv='.length);
  }
  return undefined;
}

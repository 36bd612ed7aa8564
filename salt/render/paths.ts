/** Functions of Python's `posixpath`, which only compute with the text of a path. */

import { posix } from 'node:path';
import { trimEnd } from '#runtime';

/** Implements `os.path.dirname`. */
export function directoryOf(path: string): string {
  const head = path.slice(0, path.lastIndexOf('/') + 1);
  return /^\/*$/.test(head) ? head : trimEnd(head, '/');
}

/** Implements `os.path.join`. A part that begins with a slash replaces the parts before it. */
export function joinPaths(parts: readonly string[]): string {
  return parts.reduce((joined, part) => {
    if (part.startsWith('/')) return part;
    return joined === '' || joined.endsWith('/') ? `${joined}${part}` : `${joined}/${part}`;
  }, '');
}

/** Implements `os.path.normpath`. Two leading slashes stay, as POSIX allows. */
export function normalPath(path: string): string {
  const normal = posix.normalize(path);
  const short = normal.length > 1 ? trimEnd(normal, '/') : normal;
  return /^\/\/(?!\/)/.test(path) ? `/${short === '/' ? '/' : short}` : short;
}

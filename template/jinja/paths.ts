/** Names of templates as Salt resolves them [SaltCacheLoader in salt/utils/jinja.py]. */
import type { Value } from '../python/values.ts';

/**
 * The path of a template: one that begins with `./` or `../` is relative to the importing one.
 * Undefined for a path that leaves the tree.
 */
export function resolvePath(name: string, tpldir: Value | undefined): string | undefined {
  const [first] = name.split('/', 1);
  const isRelative = first === '.' || first === '..';
  if (isRelative && typeof tpldir !== 'string') return undefined;
  const parts: string[] = [];
  for (const part of (isRelative ? `${tpldir}/${name}` : name).split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined) return undefined;
  }
  return parts.join('/');
}

/** What a template that was just loaded is told about its own place. */
export function tplNames(path: string): ReadonlyMap<string, Value> {
  const directory = path.split('/').slice(0, -1).join('/');
  return new Map([
    ['tplfile', path],
    ['tpldir', directory === '' ? '.' : directory],
    ['tpldot', directory.replaceAll('/', '.')],
  ]);
}

import { MasterError } from '../api/index.ts';
import { conflict } from './services.ts';

/** Properties of an extension that determine the order of opening. */
export interface OrderedExtension {
  readonly name: string;
  readonly namespace?: string;
  readonly requires?: readonly string[];
  readonly after?: readonly string[];
}

/**
 * Returns the extensions in the order of opening. An extension is opened after the extensions in
 * its `requires` and `after`. Otherwise the given order is preserved.
 * @throws TypeError for an invalid name; MasterError ERR_EXTENSION_CONFLICT, ERR_EXTENSION_MISSING,
 * ERR_EXTENSION_CYCLE
 */
export function orderExtensions<E extends OrderedExtension>(
  extensions: readonly E[],
): readonly E[] {
  const byName = indexByName(extensions);
  const ordered = new Set<E>();
  const visit = (one: E, path: readonly string[]): void => {
    if (ordered.has(one)) return;
    const at = path.indexOf(one.name);
    if (at >= 0) throw cycle([...path.slice(at), one.name]);
    for (const name of one.requires ?? []) {
      if (!byName.has(name)) throw missing(one.name, name);
    }
    for (const name of [...(one.requires ?? []), ...(one.after ?? [])]) {
      const before = byName.get(name);
      if (before !== undefined) visit(before, [...path, one.name]);
    }
    ordered.add(one);
  };
  for (const one of extensions) visit(one, []);
  return [...ordered];
}

function indexByName<E extends OrderedExtension>(extensions: readonly E[]): ReadonlyMap<string, E> {
  const byName = new Map<string, E>();
  const byNamespace = new Map<string, E>();
  for (const one of extensions) {
    const { name, namespace = name } = one;
    for (const word of [name, namespace]) {
      if (!/^[a-z][a-z0-9-]{0,63}$/.test(word))
        throw new TypeError(
          `invalid name ${word} of an extension; use lower-case letters, digits and "-", and begin with a letter`,
        );
    }
    if (byName.has(name)) throw sameName(name);
    byName.set(name, one);
    // Two extensions must not share stored rows by accident. They share a namespace only if both
    // set it explicitly.
    const other = byNamespace.get(namespace);
    const isShared = one.namespace !== undefined && other?.namespace !== undefined;
    if (other !== undefined && !isShared) throw conflict('namespace', namespace, other.name, name);
    byNamespace.set(namespace, one);
  }
  return byName;
}

function sameName(name: string): MasterError {
  const problem = `two extensions have the name ${name}`;
  return new MasterError('ERR_EXTENSION_CONFLICT', `${problem}; rename or remove one of them`);
}

function cycle(path: readonly string[]): MasterError {
  const problem = `extensions depend on each other: ${path.join(' → ')}`;
  return new MasterError(
    'ERR_EXTENSION_CYCLE',
    `${problem}; remove one of these names from requires or after`,
  );
}

function missing(name: string, required: string): MasterError {
  const problem = `the extension ${name} requires ${required}, which this master does not have`;
  return new MasterError('ERR_EXTENSION_MISSING', `${problem}; add it, or remove ${name}`);
}

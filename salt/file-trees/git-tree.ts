/** Looks up and lists files in stored git trees. */

import { posix } from 'node:path';
import { type FileLists, noFiles } from '#master';
import { sortInSlices, type WorkBudget } from '#runtime';

/** A file, a symbolic link or a directory. */
export type TreeEntry =
  | { readonly kind: 'file'; readonly id: string; readonly isExecutable: boolean }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'directory'; readonly id: string };

/** Entries by name; each name is one segment of a path. */
export type Tree = ReadonlyMap<string, TreeEntry>;

/** Trees by id. Similar branches share most of their trees. */
export type Trees = ReadonlyMap<string, Tree>;

/** Maximum number of symbolic links that are followed for one path. */
const maxLinks = 40;
/** Maximum length of a name in a tree, in bytes. File systems do not permit longer names. */
const maxNameBytes = 255;
/** Estimated work for one entry of a tree in memory, in steps. */
export const knownEntrySteps = 20;
/** Estimated work for one entry of a list of files, in steps. */
const listedEntrySteps = 50;

/**
 * Returns the name under which an entry of a tree is served. Returns `undefined` for names that are
 * not one path segment or not UTF-8, because they cannot be requested, for names that are too long
 * for a file system, and for `.git` in any spelling.
 */
export function servedName(bytes: Buffer): string | undefined {
  if (bytes.length > maxNameBytes) return undefined;
  const name = bytes.toString('utf8');
  if (name === '' || name === '.' || name === '..' || /[/\0\ufffd]/.test(name)) return undefined;
  return isGitDirectory(name) ? undefined : name;
}

/**
 * Whether git would treat a name as `.git` on file systems that ignore case or certain characters.
 */
function isGitDirectory(name: string): boolean {
  const plain = name.normalize('NFKC').replaceAll(/\p{Cf}/gu, '');
  return /^(?:\.git|git~\d+)[. ]*(?::.*)?$/i.test(plain);
}

/**
 * Returns the file at a path and follows links. A link resolves to a file of the same tree or to
 * nothing.
 * @param root - tree id of a commit
 */
export function findInTree(
  trees: Trees,
  root: string,
  path: string,
): Extract<TreeEntry, { kind: 'file' }> | undefined {
  let left = path.split('/').filter((segment) => segment !== '');
  let followed = 0;
  for (let place: string[] = [], tree = trees.get(root); tree !== undefined; ) {
    const [name, ...rest] = left;
    const entry = name === undefined ? undefined : tree.get(name);
    if (entry === undefined || name === undefined) return undefined;
    if (entry.kind === 'file') return rest.length === 0 ? entry : undefined;
    left = rest;
    if (entry.kind === 'directory') {
      place.push(name);
      tree = trees.get(entry.id);
      continue;
    }
    if (++followed > maxLinks || entry.target.startsWith('/')) return undefined;
    const target = posix.normalize([...place, entry.target, ...rest].join('/'));
    if (target === '..' || target.startsWith('../')) return undefined;
    left = target.split('/').filter((segment) => segment !== '' && segment !== '.');
    place = [];
    tree = trees.get(root);
  }
  return undefined;
}

/** Returns the id of the directory at a path. Does not follow links. */
export function directoryInTree(trees: Trees, root: string, path: string): string | undefined {
  let id: string | undefined = root;
  for (const name of path.split('/').filter((segment) => segment !== '')) {
    const entry: TreeEntry | undefined = id === undefined ? undefined : trees.get(id)?.get(name);
    id = entry?.kind === 'directory' ? entry.id : undefined;
  }
  return id;
}

/** Number of entries below a directory. */
export interface TreeSize {
  /** Number of files and directories. */
  readonly files: number;
  /** Length of all their paths together, in characters. */
  readonly pathLength: number;
}

/**
 * Sizes of trees. Each tree is measured once, as long as it is in memory. Snapshots share the trees
 * that they have in common.
 */
export class TreeSizes {
  readonly #sizes = new WeakMap<Tree, TreeSize>();

  /**
   * Returns the number of files and directories below a directory, and the length of their paths. A
   * directory that appears several times counts each time.
   */
  async sizeOf(trees: Trees, id: string, budget: WorkBudget): Promise<TreeSize> {
    const tree = trees.get(id);
    if (tree === undefined) return { files: 0, pathLength: 0 };
    const known = this.#sizes.get(tree);
    if (known !== undefined) return known;
    let [files, pathLength] = [0, 0];
    for (const [name, entry] of tree) {
      budget.addToSlice(knownEntrySteps);
      if (budget.isSliceOver) await budget.giveWay();
      const below =
        entry.kind === 'directory'
          ? await this.sizeOf(trees, entry.id, budget)
          : { files: 0, pathLength: 0 };
      files += 1 + below.files;
      pathLength += (name.length + 1) * (1 + below.files) + below.pathLength;
    }
    const size = { files, pathLength };
    this.#sizes.set(tree, size);
    return size;
  }
}

/**
 * Lists all entries below a directory in slices. Other work can run after each slice.
 * @param prefix - prefix of each path: a mount point, or ''
 */
export async function listTree(
  trees: Trees,
  directory: string,
  prefix: string,
  budget: WorkBudget,
): Promise<FileLists> {
  const files: string[] = [];
  const dirs: string[] = [];
  const emptyDirs: string[] = [];
  const links = new Map<string, string>();
  const walk = async (id: string, place: string): Promise<void> => {
    for (const [name, entry] of trees.get(id) ?? []) {
      budget.addToSlice(listedEntrySteps);
      if (budget.isSliceOver) await budget.giveWay();
      const path = place === '' ? name : `${place}/${name}`;
      if (entry.kind === 'directory') {
        dirs.push(path);
        if (trees.get(entry.id)?.size === 0) emptyDirs.push(path);
        await walk(entry.id, path);
        continue;
      }
      if (entry.kind === 'link') links.set(path, entry.target);
      files.push(path);
    }
  };
  await walk(directory, prefix);
  if (files.length === 0) return noFiles;
  for (let place = prefix; place !== '' && place !== '.'; place = posix.dirname(place))
    dirs.push(place);
  const sorted = (paths: string[]): Promise<string[]> => sortInSlices(paths, (it) => it, budget);
  return {
    files: await sorted(files),
    dirs: await sorted(dirs),
    emptyDirs: await sorted(emptyDirs),
    links,
  };
}

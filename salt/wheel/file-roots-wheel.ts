/** The `file_roots` wheel module [salt/wheel/file_roots.py]. */

import { constants } from 'node:fs';
import { mkdir, open, realpath } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '#config';
import { type FoundFile, MasterError, relativePath } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  DiskFiles,
  HiddenDirectories,
  ifPresent,
  isBelow,
  realPlace,
} from '../file-trees/disk-files.ts';
import { hiddenDirectories } from '../file-trees/open-file-roots.ts';
import { expandRoot } from '../file-trees/roots.ts';
import { walkRoots } from '../file-trees/walk-roots.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { count, optional, required, text } from '../functions/parameters.ts';

interface FileRootsWheelDeps {
  readonly config: Pick<MasterConfig, 'fileRoots' | 'pkiDir' | 'stateDir' | 'cachedir'>;
}

/** Maximum size of a file to read, in bytes. */
const maxReadBytes = 16 * 1024 * 1024;
/** Number of bytes that are read to recognise a text file, as in Salt. */
const probeBytes = 512;

interface FileInRoot {
  /** Path of a root and requested path, joined by a slash. */
  readonly place: string;
  readonly file: FoundFile;
  readonly isText: boolean;
}

const placeParameters = { path: required(text), saltenv: optional(text, 'base') } as const;

export function fileRootsWheel({ config }: FileRootsWheelDeps): FunctionTable {
  const find = async (path: string, saltenv: string): Promise<FileInRoot[]> => {
    const relative = relativePath(path);
    if (relative === undefined) return [];
    const files = new DiskFiles(await openHidden(config));
    const found: FileInRoot[] = [];
    for (const root of await rootsOf(config, saltenv)) {
      const file = await files.find(root, relative);
      if (file === undefined) continue;
      found.push({ place: `${root}/${relative}`, file, isText: await isText(file) });
    }
    return found;
  };
  return {
    'file_roots.find': masterFunction({
      summary:
        'Finds a file in the roots of an environment; returns each path, and whether the file is text.',
      parameters: placeParameters,
      call: async ({ path, saltenv }) => {
        const found = await find(path, saltenv);
        return found.map((one) => ({ [one.place]: one.isText ? 'txt' : 'bin' }));
      },
    }),
    'file_roots.read': masterFunction({
      summary: 'Returns the content of a text file from each root that contains it.',
      parameters: placeParameters,
      call: async ({ path, saltenv }) => {
        const contents: WireValue[] = [];
        for (const one of await find(path, saltenv)) {
          if (one.isText) contents.push({ [one.place]: await readText(one.file) });
        }
        return contents;
      },
    }),
    'file_roots.write': masterFunction({
      summary: 'Writes a text file to a root of an environment, by default the first.',
      parameters: {
        data: required(text),
        path: required(text),
        saltenv: optional(text, 'base'),
        index: optional(count, 0),
      },
      // The call is confidential, because the content may be secret.
      isConfidential: true,
      call: ({ data, ...where }) => writeFile(config, where, data),
    }),
    'file_roots.list_env': masterFunction({
      summary: 'Lists the files of an environment; returns one tree for each root.',
      parameters: { saltenv: optional(text, 'base') },
      call: ({ saltenv }) => listEnv(config, saltenv),
    }),
    'file_roots.list_roots': masterFunction({
      summary: 'Lists the files of all environments.',
      parameters: {},
      call: async () => {
        const all: WireMap = Object.create(null);
        for (const saltenv of Object.keys(config.fileRoots)) {
          all[saltenv] = [await listEnv(config, saltenv)];
        }
        return all;
      },
    }),
  };
}

type Roots = FileRootsWheelDeps['config'];

interface WrittenPlace {
  readonly path: string;
  readonly saltenv: string;
  /** Index of the root among the roots of the environment. */
  readonly index: number;
}

/**
 * Writes a file and returns Salt's message.
 * @throws MasterError ERR_ARGS if the text is too large, and errors of the file system
 */
async function writeFile(
  config: Roots,
  { path: name, saltenv, index }: WrittenPlace,
  data: string,
): Promise<string> {
  if (!Object.hasOwn(config.fileRoots, saltenv)) {
    return `Named environment ${saltenv} is not present`;
  }
  const root = (await rootsOf(config, saltenv))[index];
  if (root === undefined) {
    return `Specified index ${index} in environment ${saltenv} is not present`;
  }
  if (path.isAbsolute(name)) {
    return `The path passed in ${name} is not relative to the environment ${saltenv}`;
  }
  if (Buffer.byteLength(data) > maxReadBytes) {
    throw new MasterError('ERR_ARGS', `data is larger than ${maxReadBytes} bytes`);
  }
  const relative = relativePath(name);
  const place = relative === undefined ? undefined : await placeBelow(root, relative);
  if (place === undefined || (await openHidden(config)).contain(place)) {
    return `Invalid path: ${name}`;
  }
  await mkdir(path.dirname(place), { recursive: true });
  // O_NOFOLLOW: after the check, another process may have created a link that leads out of the
  // root.
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const handle = await open(place, flags, 0o644);
  try {
    await handle.writeFile(data);
  } finally {
    await handle.close();
  }
  return `Wrote data to file ${root}/${relative}`;
}

/**
 * Returns a path below a root with all links resolved, or `undefined` if it is outside the root.
 */
async function placeBelow(root: string, relative: string): Promise<string | undefined> {
  const realRoot = await ifPresent(realpath(root));
  const place = await realPlace(`${root}/${relative}`);
  return realRoot !== undefined && place !== realRoot && isBelow(realRoot, place)
    ? place
    : undefined;
}

function openHidden(config: Roots): Promise<HiddenDirectories> {
  return HiddenDirectories.open(hiddenDirectories(config));
}

async function rootsOf({ fileRoots }: Roots, saltenv: string): Promise<string[]> {
  const patterns = Object.hasOwn(fileRoots, saltenv) ? (fileRoots[saltenv] ?? []) : [];
  return (await Promise.all(patterns.map(expandRoot))).flat();
}

/**
 * Lists the files of an environment. A link is listed as a file or directory, like its target.
 * Links to directories are not followed.
 */
async function listEnv(config: Roots, saltenv: string): Promise<WireMap> {
  const trees: WireMap = Object.create(null);
  const hidden = await openHidden(config);
  for (const root of await rootsOf(config, saltenv)) {
    const { lists } = await walkRoots([root], {
      followsSymlinks: false,
      ignoresSymlinks: false,
      isIgnored: () => false,
      hidden,
      onDirectory: () => {},
    });
    trees[root] = treeOf(lists.dirs, lists.files);
  }
  return trees;
}

/**
 * Builds a nested map of directories and files.
 * @param dirs - sorted, so that each directory comes after its parent
 */
function treeOf(dirs: readonly string[], files: readonly string[]): WireMap {
  const tree: WireMap = Object.create(null);
  const byPath = new Map<string, WireMap>([['', tree]]);
  const put = (path: string, value: WireMap | 'f'): void => {
    const cut = path.lastIndexOf('/');
    const parent = byPath.get(path.slice(0, Math.max(0, cut)));
    if (parent !== undefined) parent[path.slice(cut + 1)] = value;
  };
  for (const dir of dirs) {
    const entries: WireMap = Object.create(null);
    byPath.set(dir, entries);
    put(dir, entries);
  }
  for (const file of files) put(file, 'f');
  return tree;
}

/**
 * Whether a file begins with UTF-8 text without NUL. Salt also accepts other files as text, but
 * then cannot read them.
 */
async function isText(file: FoundFile): Promise<boolean> {
  const probe = await file.read(0, probeBytes);
  if (probe.includes(0)) return false;
  try {
    // The last character may be cut off.
    new TextDecoder('utf-8', { fatal: true }).decode(probe, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/**
 * Reads a text file.
 * @throws MasterError ERR_ARGS if it is too large
 */
async function readText(file: FoundFile): Promise<string> {
  if (file.stat.size > maxReadBytes) {
    throw new MasterError('ERR_ARGS', `the file is larger than ${maxReadBytes} bytes`);
  }
  return Buffer.from(await file.read(0, file.stat.size)).toString('utf8');
}

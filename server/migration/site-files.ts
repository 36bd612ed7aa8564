/** Finds and reads the directories and files of a site. */

import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { pairsOf, type Settings, textsOf } from '#config';
import { isMissing, openRegularFile } from '#runtime';
import type { MigrationFinding } from './finding.ts';

/** Maximum size of a formula or template that is read, in bytes. */
export const maxFormulaBytes = 262_144;

/** Maximum number of files that are read in a tree. */
const maxFiles = 50_000;
const maxDepth = 32;

interface Walk {
  readonly files: readonly string[];
  /** Directories that exist but cannot be read. */
  readonly unreadable: readonly string[];
  /** Whether the tree contains more files than were read. */
  readonly isCut: boolean;
}

/**
 * Returns the files below a directory, sorted. It follows symbolic links, but reads each directory
 * only once.
 */
export async function walkFiles(directory: string): Promise<Walk> {
  const files: string[] = [];
  const unreadable: string[] = [];
  const seen = new Set<string>();
  let isCut = false;
  const visit = async (folder: string, depth: number): Promise<void> => {
    const entries = await list(folder, seen).catch((error: unknown) => {
      if (!isMissing(error)) unreadable.push(folder);
      return [];
    });
    for (const entry of entries) {
      const file = path.join(folder, entry.name);
      const kind = await kindOf(entry, file);
      if (files.length >= maxFiles || depth >= maxDepth) isCut = true;
      else if (kind === 'directory') await visit(file, depth + 1);
      else if (kind === 'file') files.push(file);
    }
  };
  await visit(directory, 0);
  return { files, unreadable, isCut };
}

/**
 * Returns the first bytes of a file as text, or `undefined` if it cannot be read. Pipes and devices
 * are not read.
 */
export async function readStart(file: string, bytes: number): Promise<string | undefined> {
  try {
    const handle = await openRegularFile(file);
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(bytes), 0, bytes, 0);
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}

async function list(folder: string, seen: Set<string>): Promise<Dirent[]> {
  const real = await realpath(folder);
  if (seen.has(real)) return [];
  seen.add(real);
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter(({ name }) => name !== '.git')
    .sort((left, right) => (left.name < right.name ? -1 : 1));
}

/**
 * Returns the kind of a directory entry. Symbolic links are resolved. Broken links, pipes and
 * devices have the kind `nothing`.
 */
async function kindOf(entry: Dirent, file: string): Promise<'file' | 'directory' | 'nothing'> {
  const target = entry.isSymbolicLink() ? await stat(file).catch(() => undefined) : entry;
  if (target?.isDirectory()) return 'directory';
  return target?.isFile() ? 'file' : 'nothing';
}

/** A directory of `file_roots`, `pillar_roots` or `thorium_roots`. */
export interface Root {
  readonly directory: string;
  readonly saltenv: string;
  /**
   * Configuration file in which an option names the directory. If the directory is a default of
   * Salt, this is the main configuration file, and `line` is 0.
   */
  readonly file: string;
  readonly line: number;
}

/** Salt's default directories [salt/config/__init__.py DEFAULT_MASTER_OPTS of 3007.0]. */
const defaults = {
  file_roots: '/srv/salt',
  pillar_roots: '/srv/pillar',
  thorium_roots: '/srv/thorium',
} as const;

/**
 * Returns the directories that an option names, or Salt's default. The special environment
 * `__env__` is omitted.
 */
export function rootsOf(settings: Settings, option: keyof typeof defaults): Root[] {
  const setting = settings.get(option);
  const { file, line } = setting?.origin ?? { file: '', line: 0 };
  if (setting === undefined || setting.value === null) {
    return [{ directory: defaults[option], saltenv: 'base', file, line }];
  }
  return pairsOf(setting.value).flatMap(([saltenv, directories]) =>
    textsOf(directories)
      .filter((directory) => directory.startsWith('/'))
      .map((directory) => ({ directory, saltenv, file, line })),
  );
}

/** Returns the finding that reports an unreadable file. */
export function unreadableFinding(file: string): MigrationFinding {
  return {
    outcome: 'refused',
    kind: 'file',
    name: 'unreadable',
    file,
    line: 0,
    meaning: 'It could not be read, so its content is unknown.',
    remedy: 'Run the check as a user who can read it.',
  };
}

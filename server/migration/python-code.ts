/** Findings about Python code that a salt-master or its minions would load. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from '#runtime';
import type { MigrationFinding } from './finding.ts';
import { unreadableFinding } from './site-files.ts';

/** Kinds of modules that only a master loads [salt.loader of 3007.0]. */
const masterKinds: ReadonlySet<string> = new Set([
  'auth',
  'cache',
  'cloud',
  'clouds',
  'engines',
  'fileserver',
  'netapi',
  'pillar',
  'queues',
  'returners',
  'roster',
  'runners',
  'thorium',
  'tokens',
  'tops',
  'wheel',
  'wrapper',
]);

/**
 * Returns findings about `_modules`, `_runners` and similar directories at the top of a file root.
 */
export async function customModuleFindings(root: string): Promise<MigrationFinding[]> {
  const directories = await directoriesIn(root);
  const findings: MigrationFinding[] = [];
  for (const name of directories.filter((entry) => entry.startsWith('_'))) {
    const directory = path.join(root, name);
    const files = await pythonFiles(directory);
    if (files === 'unreadable') findings.push(unreadableFinding(directory));
    else if (files.length > 0) findings.push(customFinding(name, directory, files));
  }
  return findings;
}

/**
 * Returns findings about module directories below `extension_modules` or a directory of
 * `module_dirs`.
 */
export async function extensionFindings(root: string): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const name of await directoriesIn(root)) {
    const directory = path.join(root, name);
    const files = await pythonFiles(directory);
    if (files === 'unreadable') findings.push(unreadableFinding(directory));
    else if (files.length > 0) findings.push(masterFinding(name, directory, files));
  }
  return findings;
}

function customFinding(
  name: string,
  directory: string,
  files: readonly string[],
): MigrationFinding {
  const kind = name.slice(1);
  if (masterKinds.has(kind) && kind !== 'returners') return masterFinding(name, directory, files);
  const meaning =
    kind === 'returners'
      ? 'Minions load them, but this master cannot use them for its jobs or events.'
      : 'Minions load them, as before.';
  return {
    outcome: 'honoured',
    kind: 'part',
    name,
    file: directory,
    line: 0,
    meaning: `${meaning} In use: ${files.join(', ')}.`,
    remedy: '',
  };
}

function masterFinding(
  name: string,
  directory: string,
  files: readonly string[],
): MigrationFinding {
  return {
    outcome: 'refused',
    kind: 'part',
    name,
    file: directory,
    line: 0,
    meaning: `The master does not run Python code. In use: ${files.join(', ')}.`,
    remedy:
      'Implement the same function as a program that uses the saltbridge library, or run a salt-master for it.',
  };
}

async function directoriesIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => name)
    .sort();
}

async function pythonFiles(directory: string): Promise<string[] | 'unreadable'> {
  try {
    const names = await readdir(directory);
    return names.filter((name) => /\.(py|pyx|so|zip)$/.test(name) && name !== '__init__.py').sort();
  } catch (error) {
    return codeOf(error) === 'ENOTDIR' ? [] : 'unreadable';
  }
}

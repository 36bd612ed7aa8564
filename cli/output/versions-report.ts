import { readFileSync } from 'node:fs';
import { release } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseJson } from '#runtime';

/**
 * Returns the text of `--versions-report` in Salt's format. It has one section per kind of version,
 * with right-aligned names.
 */
export function formatVersionsReport(version: string): string {
  const { arch, platform, versions } = process;
  const sections: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ['saltbridge Version', { saltbridge: version }],
    ['Node.js Version', { 'Node.js': versions.node }],
    [
      'Dependency Versions',
      { ...dependencyVersions(), OpenSSL: versions.openssl, V8: versions.v8 },
    ],
    ['System Versions', { machine: arch, release: release(), system: platform }],
  ];
  const names = sections.flatMap(([, entries]) => Object.keys(entries));
  const width = Math.max(notInstalled.length, ...names.map((name) => name.length)) + 1;
  return sections
    .flatMap(([title, entries]) => [`${title}:`, ...formatEntries(entries, width), ' '])
    .join('\n');
}

const notInstalled = 'Not Installed';

function formatEntries(entries: Readonly<Record<string, string>>, width: number): string[] {
  return Object.entries(entries)
    .sort(([left], [right]) => (left.toLowerCase() < right.toLowerCase() ? -1 : 1))
    .map(([name, version]) => `${name.padStart(width)}: ${version}`);
}

const ownPackage = fileURLToPath(new URL('../../package.json', import.meta.url));

/** Returns the installed versions of the packages on which package.json depends. */
function dependencyVersions(): Record<string, string> {
  const names = Object.keys(Object(readPackage(ownPackage)?.dependencies));
  return Object.fromEntries(names.map((name) => [name, installedVersion(name) ?? notInstalled]));
}

/**
 * Returns the installed version of a package. Like Node.js, searches the `node_modules` of this
 * directory and of its parents.
 */
function installedVersion(name: string): string | undefined {
  for (let folder = path.dirname(ownPackage); ; folder = path.dirname(folder)) {
    const found = readPackage(path.join(folder, 'node_modules', name, 'package.json'));
    if (found !== undefined) return typeof found.version === 'string' ? found.version : undefined;
    if (folder === path.dirname(folder)) return undefined;
  }
}

/** Reads a package.json file. Returns `undefined` if the file does not exist. */
function readPackage(
  file: string,
): { readonly version?: unknown; readonly dependencies?: unknown } | undefined {
  try {
    return Object(parseJson(readFileSync(file, 'utf8')));
  } catch {
    return undefined;
  }
}

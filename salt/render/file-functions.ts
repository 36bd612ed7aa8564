/** Template functions that read the files served to minions [salt/modules/{cp,slsutil}.py]. */

import { posix } from 'node:path';
import type { FileLists } from '#master';
import { saltLimits } from '../limits.ts';
import type { AskedFunctions } from './asked-functions.ts';
import { isGiven, takes, text, textOr } from './function-arguments.ts';
import type { PillarSources } from './pillar-sources.ts';
import type { SourceFile } from './source-file.ts';

const scheme = 'salt://';

const { perOwner: maxNames = 0 } = saltLimits.findupNames;

/**
 * Finds a file by its `salt://` address.
 * @throws TypeError for other addresses, because templates must not read any other file or network
 * resource
 */
export async function readSaltFile(
  files: PillarSources,
  url: string,
  saltenv: string,
): Promise<SourceFile | undefined> {
  if (!url.startsWith(scheme)) {
    throw new TypeError(`cannot read ${url}: templates can only read files below salt://`);
  }
  const [path = '', query = ''] = url.slice(scheme.length).split('?', 2);
  return files.read(path, new URLSearchParams(query).get('saltenv') ?? saltenv);
}

/**
 * Returns the template functions that read files.
 * @param files - files of `file_roots`
 * @param saltenv - environment of the template
 */
export function fileFunctions(files: PillarSources, saltenv: string): AskedFunctions {
  const environment = (given: unknown): string => (typeof given === 'string' ? given : 'base');
  const exists = (has: (lists: FileLists, path: string) => boolean) =>
    takes(['path', 'saltenv'], async ({ path, saltenv: given }) => {
      return has(await files.lists(environment(given)), text(path, 'path'));
    });
  const listed = (kind: 'dirs' | 'files') =>
    takes(['saltenv', 'prefix'], async ({ saltenv: given, prefix }) => {
      const lists = await files.lists(environment(given));
      return lists[kind].filter((path) => path.startsWith(textOr(prefix, '')));
    });
  return {
    'cp.get_file_str': takes(['path', 'saltenv'], async ({ path, saltenv: given }) => {
      const env = isGiven(given) ? text(given, 'saltenv') : saltenv;
      return (await readSaltFile(files, text(path, 'path'), env))?.text ?? false;
    }),
    'cp.list_master': listed('files'),
    'cp.list_master_dirs': listed('dirs'),
    'cp.list_states': takes(['saltenv'], async ({ saltenv: given }) => {
      const lists = await files.lists(environment(given));
      return lists.files.flatMap((file) => slsNameOf(file) ?? []).sort();
    }),
    'slsutil.file_exists': exists(({ files: paths }, path) => paths.includes(path)),
    'slsutil.dir_exists': exists(({ dirs }, path) => dirs.includes(path)),
    'slsutil.path_exists': exists(hasPath),
    'slsutil.findup': takes(
      ['startpath', 'filenames', 'saltenv'],
      async ({ startpath, filenames, saltenv: given }) => {
        const names = (Array.isArray(filenames) ? filenames : [filenames]).map(String);
        if (names.length > maxNames) throw new TypeError(`filenames: more than ${maxNames} names`);
        const lists = await files.lists(environment(given));
        return findUp(lists, textOr(startpath, ''), names);
      },
    ),
  };
}

/** Returns the name of a file in `include` lists, or `undefined` if it is not an SLS file. */
function slsNameOf(file: string): string | undefined {
  const [end] = file.match(/\/init\.sls$|\.sls$/) ?? [];
  return end === undefined ? undefined : file.slice(0, -end.length).replaceAll('/', '.');
}

function hasPath({ files, dirs }: FileLists, path: string): boolean {
  return files.includes(path) || dirs.includes(path);
}

/**
 * Looks for files with the given names in a directory, then in its parent, and so on up to the
 * root. Returns the path of the first match. If a directory contains several of the names, the
 * first one in `names` matches. Reads the lists once.
 * @throws TypeError if none of them exists
 */
function findUp(lists: FileLists, start: string, names: readonly string[]): string {
  const paths = new Set([...lists.files, ...lists.dirs]);
  let place = start === '' ? '' : posix.normalize(start);
  if (place !== '' && !paths.has(place)) {
    throw new TypeError(`Starting path not found in the state tree: ${start}`);
  }
  for (;;) {
    const found = names.map((name) => posix.join(place, name)).find((one) => paths.has(one));
    if (found !== undefined) return found;
    if (place === '') throw new TypeError('File pattern(s) not found in path ancestry');
    const parent = posix.dirname(place);
    place = parent === '.' ? '' : parent;
  }
}

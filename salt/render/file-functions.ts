/** Template functions that read the files served to minions [salt/modules/{cp,slsutil}.py]. */

import { posix } from 'node:path';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { saltLimits } from '../limits.ts';
import type { AskedFunctions } from './asked-functions.ts';
import { isGiven, takes, text, textOr } from './function-arguments.ts';
import type { FilePaths, PillarSources } from './pillar-sources.ts';
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
 * @param budget - counts the steps of searches, which take turns with other work
 */
export function fileFunctions(
  files: PillarSources,
  saltenv: string,
  budget: WorkBudget = new WorkBudget(unlimitedSteps),
): AskedFunctions {
  const environment = (given: unknown): string => (typeof given === 'string' ? given : 'base');
  const exists = (...kinds: readonly (keyof FilePaths)[]) =>
    takes(['path', 'saltenv'], async ({ path, saltenv: given }) => {
      const paths = files.paths(await files.lists(environment(given)));
      return kinds.some((kind) => paths[kind].has(text(path, 'path')));
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
    'slsutil.file_exists': exists('files'),
    'slsutil.dir_exists': exists('dirs'),
    'slsutil.path_exists': exists('files', 'dirs'),
    'slsutil.findup': takes(
      ['startpath', 'filenames', 'saltenv'],
      async ({ startpath, filenames, saltenv: given }) => {
        const names = (Array.isArray(filenames) ? filenames : [filenames]).map(String);
        if (names.length > maxNames) throw new TypeError(`filenames: more than ${maxNames} names`);
        const paths = files.paths(await files.lists(environment(given)));
        return findUp(paths, textOr(startpath, ''), names, budget);
      },
    ),
  };
}

/** Returns the name of a file in `include` lists, or `undefined` if it is not an SLS file. */
function slsNameOf(file: string): string | undefined {
  const [end] = file.match(/\/init\.sls$|\.sls$/) ?? [];
  return end === undefined ? undefined : file.slice(0, -end.length).replaceAll('/', '.');
}

/** Work of looking for one path, except for its characters, in steps of a {@link WorkBudget}. */
const stepsPerPath = 50;

/**
 * Looks for files with the given names in a directory, then in its parent, and so on up to the
 * root. Returns the path of the first match. If a directory contains several of the names, the
 * first one in `names` matches.
 * @throws TypeError if none of them exists; WorkLimitExceeded
 */
async function findUp(
  { files, dirs }: FilePaths,
  start: string,
  names: readonly string[],
  budget: WorkBudget,
): Promise<string> {
  const hasPath = (path: string): boolean => files.has(path) || dirs.has(path);
  let place = start === '' ? '' : posix.normalize(start);
  if (place !== '' && !hasPath(place)) {
    throw new TypeError(`Starting path not found in the state tree: ${start}`);
  }
  for (;;) {
    for (const name of names) {
      budget.spend('slsutil.findup', stepsPerPath + place.length + name.length);
      if (budget.isSliceOver) await budget.giveWay();
      const path = posix.join(place, name);
      if (hasPath(path)) return path;
    }
    if (place === '') throw new TypeError('File pattern(s) not found in path ancestry');
    const parent = posix.dirname(place);
    place = parent === '.' ? '' : parent;
  }
}

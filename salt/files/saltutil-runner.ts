/**
 * The `saltutil` runner [salt/runners/saltutil.py]. In Salt, it copies Python modules from the file
 * server to the master. This master runs no Python modules. Each function therefore fails if the
 * file roots contain such modules, and the error names their files. Minions have functions of the
 * same names.
 */

import { MasterError, type MasterFunction } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { FileServer } from '../file-trees/file-server.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { ignored, names, optional } from '../functions/parameters.ts';

interface SaltutilRunnerDeps {
  readonly fileServer: FileServer;
}

/** Kinds of modules, in the order in which Salt copies them. */
const kinds: readonly string[] = [
  'clouds',
  'modules',
  'states',
  'grains',
  'renderers',
  'returners',
  'output',
  'proxymodules',
  'runners',
  'wheel',
  'engines',
  'thorium',
  'queues',
  'pillar',
  'utils',
  'sdb',
  'cache',
  'fileserver',
  'tops',
  'tokens',
  'serializers',
  'executors',
  'roster',
  'wrapper',
];

/**
 * Directories on the file server by kind of modules. Kinds that are not listed have a directory of
 * the same name.
 */
const directories: ReadonlyMap<string, string> = new Map([['proxymodules', 'proxy']]);

/**
 * Names of functions by kind of modules. For kinds that are not listed, the name is `sync_`
 * followed by the kind.
 */
const functionNames: ReadonlyMap<string, string> = new Map([
  ['tokens', 'sync_eauth_tokens'],
  ['fileserver', 'sync_fileserver'],
]);

const parameters = {
  saltenv: optional(names, ['base']),
  extmod_whitelist: ignored,
  extmod_blacklist: ignored,
} as const;

export function saltutilRunner(parts: SaltutilRunnerDeps): FunctionTable {
  const copyNothing = async (kind: string, saltenvs: readonly string[]): Promise<WireValue> => {
    const files = await moduleFiles(parts.fileServer, kind, saltenvs);
    if (files.length > 0) throw refusal(files);
    return [];
  };
  const table: Record<string, MasterFunction> = {
    'saltutil.sync_all': masterFunction({
      summary:
        'Copies nothing: this master runs no Python modules. Fails if the file roots contain some.',
      parameters,
      call: async ({ saltenv }) => {
        const all: WireMap = {};
        const found = await Promise.all(
          kinds.map((kind) => moduleFiles(parts.fileServer, kind, saltenv)),
        );
        if (found.flat().length > 0) throw refusal(found.flat());
        for (const kind of kinds) all[kind] = [];
        return all;
      },
    }),
  };
  for (const kind of kinds) {
    table[`saltutil.${functionNames.get(kind) ?? `sync_${kind}`}`] = masterFunction({
      summary: `Copies no ${kind}: this master runs no Python modules. Fails if the file roots contain some.`,
      parameters,
      call: ({ saltenv }) => copyNothing(kind, saltenv),
    });
  }
  return table;
}

/** Maximum number of files that an error message names. */
const maxNamed = 5;

function refusal(files: readonly string[]): MasterError {
  const named = files.slice(0, maxNamed).join(', ');
  const more = files.length > maxNamed ? ` and ${files.length - maxNamed} more` : '';
  return new MasterError(
    'ERR_NOT_SERVED',
    `nothing was copied: this master runs no Python modules (${named}${more}); ` +
      "to copy them to minions, run salt '*' saltutil.sync_all; see docs/compatibility.md",
  );
}

/** Returns the files that Salt would copy [salt/utils/extmods.py sync]. */
async function moduleFiles(
  fileServer: FileServer,
  kind: string,
  saltenvs: readonly string[],
): Promise<string[]> {
  const directory = `_${directories.get(kind) ?? kind}/`;
  const lists = await Promise.all(saltenvs.map((saltenv) => fileServer.lists(saltenv)));
  return lists
    .flatMap(({ files }) => files)
    .filter((file) => file.startsWith(directory) && /\.(pyx?|so|zip)$/.test(file));
}

/**
 * The `saltutil` runner [salt/runners/saltutil.py]. Salt copies modules from its file server to
 * itself with it. This master runs none: it answers that nothing was copied, and logs what Salt
 * would have copied. Minions have a function of the same name.
 */

import type { Logger } from 'pino';
import type { MasterFunction } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { FileServer } from '../file-trees/file-server.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { ignored, names, optional } from '../functions/parameters.ts';

interface SaltutilRunnerDeps {
  readonly fileServer: FileServer;
  readonly log: Logger;
}

/** In the order in which Salt copies them. */
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

/** Kinds whose function is not called after them. */
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
    if (files.length > 0) parts.log.warn({ files }, 'modules for masters are not run');
    return [];
  };
  const table: Record<string, MasterFunction> = {
    'saltutil.sync_all': masterFunction({
      summary: 'Copies nothing, and logs what Salt would: this master runs no modules in Python.',
      parameters,
      call: async ({ saltenv }) => {
        const all: WireMap = {};
        for (const kind of kinds) all[kind] = await copyNothing(kind, saltenv);
        return all;
      },
    }),
  };
  for (const kind of kinds) {
    table[`saltutil.${functionNames.get(kind) ?? `sync_${kind}`}`] = masterFunction({
      summary: `Copies no ${kind}, and logs what Salt would: this master runs no modules in Python.`,
      parameters,
      call: ({ saltenv }) => copyNothing(kind, saltenv),
    });
  }
  return table;
}

/** What Salt would copy [salt/utils/extmods.py sync]. */
async function moduleFiles(
  fileServer: FileServer,
  kind: string,
  saltenvs: readonly string[],
): Promise<string[]> {
  const lists = await Promise.all(saltenvs.map((saltenv) => fileServer.lists(saltenv)));
  return lists
    .flatMap(({ files }) => files)
    .filter((file) => file.startsWith(`_${kind}/`) && /\.(pyx?|so|zip)$/.test(file));
}

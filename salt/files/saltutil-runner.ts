/**
 * The `saltutil` runner [salt/runners/saltutil.py]. In Salt, it copies Python modules from the file
 * server to the master. This master runs no Python modules. Each function therefore fails if the
 * file roots contain such modules, and the error names their files. Minions have functions of the
 * same names.
 */

import { type CallContext, MasterError, type MasterFunction, workBudgetOf } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { formatNames, type WorkBudget } from '#runtime';
import type { FileServer } from '../file-trees/file-server.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { ignored, names, optional } from '../functions/parameters.ts';
import { saltLimits } from '../limits.ts';

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

const maxEnvironments = saltLimits.syncedEnvironments.perOwner ?? Infinity;

/** Estimated work for examining one file, in steps of a `WorkBudget`. */
const stepsOfFile = 10;

const parameters = {
  saltenv: optional(names, ['base']),
  extmod_whitelist: ignored,
  extmod_blacklist: ignored,
} as const;

export function saltutilRunner(parts: SaltutilRunnerDeps): FunctionTable {
  const requireNoModules = async (
    wanted: readonly string[],
    saltenvs: readonly string[],
    { by }: CallContext,
  ): Promise<void> => {
    const found = await moduleFiles(parts.fileServer, wanted, saltenvs, workBudgetOf(by));
    if (found.count > 0) throw refusal(found);
  };
  const table: Record<string, MasterFunction> = {
    'saltutil.sync_all': masterFunction({
      summary:
        'Copies nothing: this master runs no Python modules. Fails if the file roots contain some.',
      parameters,
      call: async ({ saltenv }, context): Promise<WireValue> => {
        await requireNoModules(kinds, saltenv, context);
        const all: WireMap = {};
        for (const kind of kinds) all[kind] = [];
        return all;
      },
    }),
  };
  for (const kind of kinds) {
    table[`saltutil.${functionNames.get(kind) ?? `sync_${kind}`}`] = masterFunction({
      summary: `Copies no ${kind}: this master runs no Python modules. Fails if the file roots contain some.`,
      parameters,
      call: async ({ saltenv }, context): Promise<WireValue> => {
        await requireNoModules([kind], saltenv, context);
        return [];
      },
    });
  }
  return table;
}

/** Maximum number of files that an error message names. */
const maxNamed = 5;

/** Files that Salt would copy. */
interface ModuleFiles {
  /** The first files, in the order of {@link kinds}. */
  readonly named: readonly string[];
  readonly count: number;
}

function refusal({ named, count }: ModuleFiles): MasterError {
  return new MasterError(
    'ERR_NOT_SERVED',
    `nothing was copied: this master runs no Python modules (${formatNames(named, maxNamed, count)}); ` +
      "to copy them to minions, run salt '*' saltutil.sync_all; see docs/compatibility.md",
  );
}

/**
 * Finds the files that Salt would copy [salt/utils/extmods.py sync]. Reads the files of each
 * environment once, in slices.
 * @param wanted - kinds of modules
 * @throws MasterError ERR_ARGS if there are too many environments
 */
async function moduleFiles(
  fileServer: FileServer,
  wanted: readonly string[],
  saltenvs: readonly string[],
  budget: WorkBudget,
): Promise<ModuleFiles> {
  const environments = new Set(saltenvs);
  if (environments.size > maxEnvironments) {
    throw new MasterError(
      'ERR_ARGS',
      `\`saltenv\` must name at most ${maxEnvironments} environments; use several calls`,
    );
  }
  const byDirectory = new Map(
    wanted.map((kind) => [`_${directories.get(kind) ?? kind}`, [] as string[]]),
  );
  let count = 0;
  for (const saltenv of environments) {
    const { files } = await fileServer.lists(saltenv);
    for (const file of files) {
      budget.addToSlice(stepsOfFile);
      if (budget.isSliceOver) await budget.giveWay();
      const found = byDirectory.get(file.slice(0, Math.max(0, file.indexOf('/'))));
      if (found === undefined || !/\.(pyx?|so|zip)$/.test(file)) continue;
      count += 1;
      if (found.length < maxNamed) found.push(file);
    }
  }
  return { named: [...byDirectory.values()].flat().slice(0, maxNamed), count };
}

/** Template functions of pillar that call the master. None of them changes anything. */

import { MasterError } from '#master';
import type { AskedFunctions } from '../render/asked-functions.ts';
import { masterFunctions, type TemplateMaster } from '../render/master-functions.ts';

/**
 * Runners that templates of pillar may call. They only read data, so it is safe to run them for
 * each pillar request of a minion.
 */
const readingRunners: ReadonlySet<string> = new Set([
  'cache.fetch',
  'cache.grains',
  'cache.list',
  'cache.mine',
  'config.get',
  'fileserver.dir_list',
  'fileserver.envs',
  'fileserver.file_list',
  'manage.present',
  'match.compound_matches',
  'mine.get',
  'sdb.get',
  'test.arg',
]);

/** Functions whose results minions can influence, including the minion whose pillar is compiled. */
const claims: readonly string[] = ['mine.get', 'pillar.ext', 'saltutil.runner'];

export function pillarCalls({ runRunner, log }: TemplateMaster): AskedFunctions {
  return masterFunctions({
    runRunner: async (call) => {
      if (readingRunners.has(call.fun)) return runRunner(call);
      const served = [...readingRunners].join(', ');
      throw new MasterError(
        'ERR_NOT_SERVED',
        `pillar may not call the runner ${call.fun}, because any minion could trigger it; allowed runners: ${served}`,
      );
    },
    log,
  });
}

/**
 * Returns a copy of the template functions, for a pillar that access decisions use. In the copy,
 * each function whose result minions can influence returns an empty map.
 */
export function withoutClaims(functions: AskedFunctions): AskedFunctions {
  const empty = claims.map((name) => [name, async () => new Map()] as const);
  return { ...functions, ...Object.fromEntries(empty) };
}

/** Functions by which templates of pillar ask the master: they read, and change nothing. */

import { MasterError } from '#master';
import type { AskedFunctions } from '../render/asked-functions.ts';
import { masterFunctions, type TemplateMaster } from '../render/master-functions.ts';

/** Runners that pillar may call. Each minion's request for its pillar calls them. */
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

/** Functions whose values minions choose, also the one that the pillar is for. */
const claims: readonly string[] = ['mine.get', 'saltutil.runner'];

export function pillarCalls({ runRunner, log }: TemplateMaster): AskedFunctions {
  return masterFunctions({
    runRunner: async (call) => {
      if (readingRunners.has(call.fun)) return runRunner(call);
      const served = [...readingRunners].join(', ');
      throw new MasterError(
        'ERR_NOT_SERVED',
        `pillar does not call the runner ${call.fun}: every minion that asks for its pillar would; ${served} are served there`,
      );
    },
    log,
  });
}

/** The same with nothing that minions say: rights may follow from the pillar that is made with it. */
export function withoutClaims(functions: AskedFunctions): AskedFunctions {
  const empty = claims.map((name) => [name, async () => new Map()] as const);
  return { ...functions, ...Object.fromEntries(empty) };
}

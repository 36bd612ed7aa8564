/** The `git_pillar` runner [salt/runners/git_pillar.py]. */

import { MasterError } from '#master';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, text } from '../functions/parameters.ts';
import type { GitPillarUpdater } from './git-pillar.ts';

interface GitPillarRunnerDeps {
  readonly updater: GitPillarUpdater;
}

export function gitPillarRunner({ updater }: GitPillarRunnerDeps): FunctionTable {
  return {
    'git_pillar.update': masterFunction({
      summary: 'Fetches the remotes of git_pillar; returns for each whether it has changed.',
      parameters: { branch: optional(text), repo: optional(text) },
      call: async (wanted) => {
        const results = await updater.update(wanted);
        if (results.size === 0) {
          throw new MasterError(
            'ERR_ARGS',
            'unknown remote: ext_pillar contains no git remote with this address',
          );
        }
        const failures = [...results.values()].filter((result) => result instanceof Error);
        const [first] = failures;
        if (first !== undefined) throw first;
        // Salt returns `null` for a fetch that has brought no changes.
        return Object.fromEntries(
          [...results].map(([id, result]) => [id, result === true ? true : null]),
        );
      },
    }),
  };
}

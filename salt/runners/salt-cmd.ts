/** The runner `salt.cmd`: calls template functions on the master [salt/runners/salt.py]. */

import { MasterError, workBudgetOf } from '#master';
import type { FactMap, WireMap } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { required, text } from '../functions/parameters.ts';
import { isCallable } from '../render/call-function.ts';
import { fileFunctions } from '../render/file-functions.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import { fromWire, toWire } from '../render/pillar-wire.ts';
import type { Renderer } from '../render/renderer.ts';
import { insteadOfFunction } from '../render/unserved-functions.ts';
import { ownerOfValues } from './stored-amounts.ts';

export interface SaltCmdDeps {
  /** `id` of the master. It is the only grain that the called functions can read. */
  readonly masterId: string;
  /** Returns the options of the master that `config.get` returns. */
  readonly masterOptions: () => WireMap;
  readonly pillar: PillarSource | undefined;
  /**
   * Files of `file_roots` that the functions may read. `undefined` if the master serves no files.
   */
  readonly files: PillarSources | undefined;
  /** Calls the functions that need no files on a thread. */
  readonly renderer: Pick<Renderer, 'call'>;
}

export function saltCmdRunner({
  masterId: id,
  masterOptions,
  pillar: source,
  files,
  renderer,
}: SaltCmdDeps): FunctionTable {
  const pillarOf = async (): Promise<FactMap> => {
    const request = { id, grains: { id }, saltenv: undefined, pillarenv: undefined };
    return (await source?.provide(request))?.pillar ?? {};
  };
  return {
    'salt.cmd': masterFunction({
      summary:
        "Calls a template function on the master; with with_pillar=True, it can read the master's pillar.",
      parameters: { fun: required(text) },
      takesMore: true,
      takesRest: true,
      call: async ({ fun }, { by }, { with_pillar: isWithPillar, ...more }, rest) => {
        const budget = workBudgetOf(by);
        const asked = files === undefined ? {} : fileFunctions(files, 'base', budget);
        const read = Object.hasOwn(asked, fun) ? asked[fun] : undefined;
        if (read !== undefined) {
          const named = Object.entries(more).map(([name, value]) => [name, fromWire(value)]);
          return toWire(await read(rest.map(fromWire), Object.fromEntries(named)));
        }
        if (isCallable(fun)) {
          const pillar = isWithPillar === true ? await pillarOf() : {};
          const world = { id, pillar, masterOptions: masterOptions() };
          const task = { ...world, fun, args: rest, kwargs: more };
          return renderer.call(task, ownerOfValues({ by }), budget);
        }
        const reason = `${fun} is not served on the master: ${insteadOfFunction(fun)}`;
        throw new MasterError('ERR_NOT_SERVED', `${reason}; see docs/compatibility.md`);
      },
    }),
  };
}

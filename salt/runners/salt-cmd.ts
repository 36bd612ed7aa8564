/** The runner `salt.cmd`: calls template functions on the master [salt/runners/salt.py]. */

import { MasterError } from '#master';
import type { WireMap } from '#minion-protocol';
import { type PlainData, plainResult } from '#template';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { required, text } from '../functions/parameters.ts';
import type { AskedFunctions } from '../render/asked-functions.ts';
import { fileFunctions } from '../render/file-functions.ts';
import { GrainReads, TracedGrains } from '../render/grains.ts';
import { isPillarMap } from '../render/pillar-data.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import { fromWire, toWire } from '../render/pillar-wire.ts';
import { randomFunctions } from '../render/random-functions.ts';
import { saltFunctions } from '../render/template-functions.ts';
import { timeFunctions } from '../render/time-functions.ts';
import { insteadOfFunction } from '../render/unserved-functions.ts';

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
}

export function saltCmdRunner({
  masterId: id,
  masterOptions,
  pillar: source,
  files,
}: SaltCmdDeps): FunctionTable {
  const pillarOf = async (): Promise<PlainData> => {
    const request = { id, grains: { id }, saltenv: undefined, pillarenv: undefined };
    return fromWire((await source?.provide(request))?.pillar ?? {});
  };
  return {
    'salt.cmd': masterFunction({
      summary:
        "Calls a template function on the master; with with_pillar=True, it can read the master's pillar.",
      parameters: { fun: required(text) },
      takesMore: true,
      takesRest: true,
      call: async ({ fun }, _context, { with_pillar: isWithPillar, ...more }, rest) => {
        const own = isWithPillar === true ? await pillarOf() : new Map();
        const pillar = isPillarMap(own) ? own : new Map();
        const setting = { pillar, raisesOnMissing: false, masterOptions: masterOptions() };
        const asked: AskedFunctions = files === undefined ? {} : fileFunctions(files, 'base');
        const functions = new Map(
          Object.entries({
            ...saltFunctions({ grains: new TracedGrains({ id }, new GrainReads()), setting }),
            ...randomFunctions(() => {}),
            ...timeFunctions(() => new Date()),
            ...asked,
          }),
        );
        const found = functions.get(fun);
        if (found === undefined) {
          const reason = `${fun} is not served on the master: ${insteadOfFunction(fun)}`;
          throw new MasterError('ERR_NOT_SERVED', `${reason}; see docs/compatibility.md`);
        }
        const named = Object.entries(more).map(([name, value]) => [name, fromWire(value)]);
        const value = await found(rest.map(fromWire), Object.fromEntries(named));
        return toWire(plainResult(value));
      },
    }),
  };
}

/** `pillar_opts`: options of the master in the pillar [salt/pillar/__init__.py compile_pillar]. */

import type { FactMap, WireMap } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { valuesForMinions } from '../config/salt-values.ts';
import type { PillarSource } from './answer.ts';

/** A source of pillar with `master` in it: options that minions may know. */
export function withMasterOptions(base: PillarSource, config: MasterConfig): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request) => {
      const answer = await base.provide(request);
      const master = valuesForMinions(config);
      const pillar = withMaster(answer.pillar, master);
      const isSame = answer.proven === answer.pillar;
      return { pillar, proven: isSame ? pillar : withMaster(answer.proven, master) };
    },
    ...(compile === undefined ? {} : { compile }),
  };
}

function withMaster(pillar: FactMap, master: WireMap): FactMap {
  if (pillar instanceof Map) return new Map([...pillar, ['master', master]]);
  return Object.assign(Object.create(null), pillar, { master });
}

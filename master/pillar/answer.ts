import type { FactMap } from '../../minion-protocol/index.ts';
import type { PillarProvider, PillarRequest } from '../requests/pillar.ts';

/** A minion's pillar, with what of it the minion's own word has no part in. */
export interface PillarAnswer {
  readonly pillar: FactMap;
  /** The pillar that it would have without its grains: all that rights may go by [THREATS M-09]. */
  readonly proven: FactMap;
}

/** Gives minions their pillar; what a {@link PillarProvider} is to the parts of a master. */
export type PillarSource = (request: PillarRequest) => Promise<PillarAnswer>;

/** The pillar of a program, which answers for what it makes of a minion's grains. */
export function fromProvider(provider: PillarProvider): PillarSource {
  return async (request) => {
    const pillar = await provider(request);
    return { pillar, proven: pillar };
  };
}

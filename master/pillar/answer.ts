import type { FactMap } from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';
import type { PillarProvider, PillarRequest } from '../requests/pillar.ts';
import type { CompiledPillar } from './compile.ts';
import type { PillarMap } from './merge.ts';

/** A minion's pillar, with what of it the minion's own word has no part in. */
export interface PillarAnswer {
  readonly pillar: FactMap;
  /** The pillar that it would have without its grains: all that rights may go by [THREATS M-09]. */
  readonly proven: FactMap;
}

/** Gives minions their pillar. */
export interface PillarSource {
  /** @param lower what templates see as `pillar`. Default: nothing */
  provide(request: PillarRequest, lower?: PillarMap): Promise<PillarAnswer>;
  /** A pillar file by file, made for whoever wants to know; a program's has no files. */
  compile?(request: PillarRequest, lower?: PillarMap): Promise<CompiledPillar>;
}

/** The pillar of a program, which answers for what it makes of a minion's grains. */
export function fromProvider(provider: PillarProvider): PillarSource {
  return {
    provide: async (request) => {
      const pillar = await provider(request);
      return { pillar, proven: pillar };
    },
  };
}

/** A pillar file by file. @throws MasterError ERR_NOT_SERVED where a program gives it */
export async function compiledOf(
  pillar: PillarSource,
  request: PillarRequest,
): Promise<CompiledPillar> {
  if (pillar.compile !== undefined) return pillar.compile(request);
  throw new MasterError('ERR_NOT_SERVED', 'pillar comes from a program here, and not from files');
}

import type { Logger } from 'pino';
import { parsePillarLoad, type WireMap } from '../../minion-protocol/index.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { PillarSource } from '../pillar/answer.ts';
import type { MergeOptions } from '../pillar/merge.ts';
import { mergeOverride } from '../pillar/override.ts';
import type { PolicyGate } from '../policy/gate.ts';
import type { FactsOfMinion } from '../targeting/minion-facts.ts';
import type { Handler, Reply } from './request.ts';

/** What a pillar may depend on. `id` is verified, all else is the minion's own word. */
export interface PillarRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
}

/** Gives a minion its pillar. A rejected promise keeps the minion from running states. */
export type PillarProvider = (request: PillarRequest) => Promise<WireMap>;

/** What the handler of `_pillar` needs besides the provider. */
export interface PillarHandlerOptions {
  /** Largest request with its grains, bytes as sent (`grains_bytes`). */
  readonly maxGrainsBytes: number;
  /** How a pillar of the command line lies over the minion's own. */
  readonly merge: MergeOptions;
  /** Keeps what was asked with and what was answered, for targets (`minion_data_cache`). */
  readonly keepFacts: (facts: FactsOfMinion) => Promise<void>;
  readonly gate: PolicyGate;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/**
 * `_pillar`: the minion's own data, under a key of its own [WIRE 9.3]. A `pillar=` of its command
 * line is put over the answer and never kept; what the load asks for beyond that (sources,
 * versions) is not looked at [THREATS C-05, C-47, M-09].
 */
export function pillarHandler(source: PillarSource, options: PillarHandlerOptions): Handler {
  return async ({ minionId, load, bytes }): Promise<Reply> => {
    // protection: large-grains
    if (bytes > options.maxGrainsBytes) {
      options.counters.count('grains-bytes');
      return failure(`Grains may have ${options.maxGrainsBytes} bytes (grains_bytes).`);
    }
    const parsed = parsePillarLoad(load);
    if (minionId === undefined || !parsed.ok || parsed.value.grains === undefined) {
      return { kind: 'private', pillar: {} };
    }
    const { grains, saltenv, pillarenv, pillar_override: override } = parsed.value;
    const environment = pillarenv ?? saltenv;
    if (environment !== undefined) {
      const subject = { kind: 'minion', id: minionId } as const;
      const { gate } = options;
      const question = { subject, action: 'pillar', resource: { environment } } as const;
      // protection: pillar-environments
      if (gate.decide(question).effect === 'deny') {
        return failure(`No rule lets this minion have pillar of the environment ${environment}.`);
      }
    }
    try {
      // protection: pillar-by-grains
      const facts = { id: minionId, grains: { ...grains, id: minionId } };
      const { pillar, proven } = await source.provide({ ...facts, saltenv, pillarenv });
      await options.keepFacts({ ...facts, pillar, proven }).catch((error: unknown) => {
        // The minion works with its pillar all the same; targets go by what was known before.
        options.log.error({ minion: minionId, err: error }, 'minion data were not kept');
      });
      return { kind: 'private', pillar: mergeOverride(pillar, override, options.merge) };
    } catch (error) {
      options.log.error({ minion: minionId, err: error }, 'pillar failed');
      // protection: part-of-a-pillar
      return failure('The master could not make this pillar.');
    }
  };
}

/** Minions refuse to run states while their pillar has `_errors`. */
function failure(reason: string): Reply {
  return { kind: 'private', pillar: { _errors: [reason] } };
}

import type { Logger } from 'pino';
import {
  defineRequestType,
  type Jobs,
  type MasterContext,
  type OpenExtension,
  type Reply,
  type Users,
} from '#master';
import { parsePillarLoad } from '#minion-protocol';
import { type MergeOptions, mergeOverride } from '../render/merge-pillar.ts';
import type { PillarSource } from '../render/pillar-source.ts';

type RequestType = NonNullable<OpenExtension['requests']>[string];

type FactsOfMinion = Parameters<Jobs['facts']['keep']>[0][number];

/** Options of the `_pillar` request. */
export interface PillarRequestOptions {
  /** Largest request with its grains, in bytes as sent (`grains_bytes`). */
  readonly maxGrainsBytes: number;
  /** How a pillar of the command line is merged over the minion's own. */
  readonly merge: MergeOptions;
  /** Stores the facts of the request and its reply, for targets (`minion_data_cache`). */
  readonly keepFacts: (facts: FactsOfMinion) => Promise<void>;
  readonly gate: Users['gate'];
  readonly counters: MasterContext['counters'];
  readonly log: Logger;
}

/**
 * `_pillar`: the minion's own data, under a key of its own [WIRE 9.3]. A `pillar=` of its command
 * line is put over the answer and never kept; what the load asks for beyond that (sources,
 * versions) is not looked at [THREATS C-05, C-47, M-09].
 */
export function pillarRequest(source: PillarSource, options: PillarRequestOptions): RequestType {
  return defineRequestType({
    kind: 'read',
    needsToken: false,
    rate: 'requests',
    refuse: ({ bytes }) => {
      if (bytes > options.maxGrainsBytes) {
        options.counters.count('grains-bytes');
        return failure(`Grains may have ${options.maxGrainsBytes} bytes (grains_bytes).`);
      }
      return undefined;
    },
    load: (load, { minionId }) => {
      const parsed = parsePillarLoad(load);
      return minionId !== undefined && parsed.ok ? parsed.value : undefined;
    },
    malformed: () => ({ kind: 'private', pillar: {} }),
    handle: async ({ minionId = '' }, load): Promise<Reply> => {
      const { grains, saltenv, pillarenv, pillar_override: override } = load;
      if (grains === undefined) return { kind: 'private', pillar: {} };
      const environment = pillarenv ?? saltenv;
      if (environment !== undefined) {
        const subject = { kind: 'minion', id: minionId } as const;
        const { gate } = options;
        const question = { subject, action: 'pillar', resource: { environment } } as const;
        if (gate.decide(question).effect === 'deny') {
          return failure(`No rule lets this minion have pillar of the environment ${environment}.`);
        }
      }
      try {
        const facts = { id: minionId, grains: { ...grains, id: minionId } };
        const { pillar, proven } = await source.provide({ ...facts, saltenv, pillarenv });
        await options.keepFacts({ ...facts, pillar, proven }).catch((error: unknown) => {
          // The minion works with its pillar all the same; targets go by what was known before.
          options.log.error({ minion: minionId, err: error }, 'minion data were not kept');
        });
        return { kind: 'private', pillar: mergeOverride(pillar, override, options.merge) };
      } catch (error) {
        options.log.error({ minion: minionId, err: error }, 'pillar failed');
        return failure('The master could not make this pillar.');
      }
    },
  });
}

/** Minions refuse to run states while their pillar has `_errors`. */
function failure(reason: string): Reply {
  return { kind: 'private', pillar: { _errors: [reason] } };
}

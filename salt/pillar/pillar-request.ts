import type { Logger } from 'pino';
import {
  defineRequestType,
  type Jobs,
  type MasterContext,
  minionOwner,
  type OpenExtension,
  type Reply,
  type Users,
} from '#master';
import { type FactMap, parsePillarLoad, type WireMap } from '#minion-protocol';
import { FairSlots, LimitExceeded, unlimitedSteps, WorkBudget } from '#runtime';
import { manyElements, saltLimits } from '../limits.ts';
import { type MergeOptions, mergeOverride } from '../render/merge-pillar.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import { exceedsEntries } from './wire-entries.ts';

type RequestType = NonNullable<OpenExtension['requests']>[string];

type FactsOfMinion = Parameters<Jobs['facts']['keep']>[0][number];

/** Options of the `_pillar` request. */
export interface PillarRequestOptions {
  /** `grains_bytes`: maximum size of a request with its grains, in bytes. */
  readonly maxGrainsBytes: number;
  /** Names of the modules in the option `ext_pillar`, which the master uses for every minion. */
  readonly modules: ReadonlySet<string>;
  /** Options for merging the data of the argument `pillar=` on the minion's command line. */
  readonly merge: MergeOptions;
  /**
   * Function that stores the grains of the request and the resulting pillar, which are used for
   * targeting (`minion_data_cache`).
   */
  readonly keepFacts: (facts: FactsOfMinion) => Promise<void>;
  readonly gate: Pick<Users['gate'], 'decide'>;
  readonly counters: Pick<MasterContext['counters'], 'count'>;
  readonly log: Pick<Logger, 'error'>;
}

/**
 * Handles `_pillar`: returns the minion's own pillar, encrypted with a new key [WIRE 9.3]. If the
 * minion's command line contains the argument `pillar=`, the data in this argument is merged over
 * the reply and never stored. A request can also name pillar sources, but the master does not query
 * them. If a named source is not in the master's option `ext_pillar`, the reply contains an error
 * about the source [THREATS C-05, C-47, M-09].
 */
export function pillarRequest(source: PillarSource, options: PillarRequestOptions): RequestType {
  const slots = new FairSlots(saltLimits.pillarRequests);
  return defineRequestType({
    kind: 'read',
    needsToken: false,
    rate: 'requests',
    maxElements: manyElements,
    refuse: ({ bytes }) => {
      if (bytes > options.maxGrainsBytes) {
        options.counters.count('grains-bytes');
        return failure(
          `The grains exceed the limit of ${options.maxGrainsBytes} bytes (grains_bytes).`,
        );
      }
      return undefined;
    },
    load: (load, { minionId }) => {
      const parsed = parsePillarLoad(load, maxNames);
      return minionId !== undefined && parsed.ok ? parsed.value : undefined;
    },
    malformed: () => ({ kind: 'private', pillar: {} }),
    handle: async ({ minionId = '', isKeyCurrent }, load): Promise<Reply> => {
      const { grains, saltenv, pillarenv, pillar_override: override, ext } = load;
      if (grains === undefined) return { kind: 'private', pillar: {} };
      const excess = excessOf({ grains, 'pillar=': override });
      if (excess !== undefined) {
        options.counters.count('grains-entries');
        return failure(excess);
      }
      const environment = pillarenv ?? saltenv;
      if (environment !== undefined) {
        const subject = { kind: 'minion', id: minionId } as const;
        const { gate } = options;
        const question = { subject, action: 'pillar', resource: { environment } } as const;
        if (gate.decide(question).effect === 'deny') {
          return failure(
            `No rule grants this minion the pillar of the environment ${environment}.`,
          );
        }
      }
      try {
        // The request owns the map. A copy of many grains would take long.
        grains.id = minionId;
        const facts = { id: minionId, grains };
        const { pillar, proven, whole } = await slots.run(minionId, async () => {
          const provided = await source.provide({ ...facts, saltenv, pillarenv });
          const budget = new WorkBudget(unlimitedSteps, minionOwner(minionId));
          const merged = await mergeOverride(provided.pillar, override, options.merge, budget);
          return { ...provided, whole: merged };
        });
        // The key may have been deleted while the request waited. Another machine may have the id now.
        if (!isKeyCurrent()) return failure('The key of this minion is not accepted any more.');
        await options.keepFacts({ ...facts, pillar, proven }).catch((error: unknown) => {
          // The minion gets its pillar even if this write fails. Targets then use the previous
          // data.
          options.log.error(
            { minion: minionId, err: error },
            'cannot store the grains and pillar of a minion',
          );
        });
        const unserved = ext.filter((name) => !options.modules.has(name));
        return { kind: 'private', pillar: withErrors(whole, unserved.map(notOnDemand)) };
      } catch (error) {
        if (error instanceof LimitExceeded && error.limit === saltLimits.pillarRequests) {
          options.counters.count('pillar-requests');
          return failure(error.message);
        }
        options.log.error(
          { minion: minionId, err: error },
          'cannot compile the pillar of a minion',
        );
        return failure('The master could not compile this pillar.');
      }
    },
  });
}

const maxNames = saltLimits.pillarNames.perOwner ?? Infinity;
const maxEntries = saltLimits.pillarEntries.perOwner ?? Infinity;

/** Returns an explanation if a request has too many values; otherwise `undefined`. */
function excessOf(parts: Readonly<Record<string, WireMap>>): string | undefined {
  const [name] =
    Object.entries(parts).find(([, map]) => exceedsEntries(map, { maxNames, maxEntries })) ?? [];
  if (name === undefined) return undefined;
  return `The data of ${name} exceed the limit of ${maxNames} names or ${maxEntries} values; send fewer or shorter lists and maps.`;
}

function notOnDemand(module: string): string {
  return `ext_pillar ${module} is not queried: only the minion names it (pillar.ext); add it to ext_pillar of the master, see docs/pillar.md`;
}

function withErrors(pillar: FactMap, errors: readonly string[]): FactMap {
  if (errors.length === 0) return pillar;
  const entries = new Map(pillar instanceof Map ? pillar : Object.entries(pillar));
  const before = entries.get('_errors');
  const all = [...(Array.isArray(before) ? before : []), ...errors];
  if (pillar instanceof Map) return entries.set('_errors', all);
  return Object.assign(Object.create(null), pillar, { _errors: all });
}

/**
 * Returns a reply that reports a failure. Minions refuse to run states while their pillar has
 * `_errors`.
 */
function failure(reason: string): Reply {
  return { kind: 'private', pillar: { _errors: [reason] } };
}

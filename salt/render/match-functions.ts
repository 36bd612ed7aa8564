/** Functions `salt['match.…']` [salt/modules/match.py]. */

import { MasterError, parseTarget } from '#master';
import {
  compilePattern,
  compileTarget,
  factsOf,
  type Nodegroups,
  type PatternCompiler,
} from '#minion-protocol';
import { minionWork, WorkBudget } from '#runtime';
import type { PlainData, SaltFunction } from '#template';
import { UnsupportedFeature } from '#template/python/exceptions.ts';
import { isGiven, map, takes } from './function-arguments.ts';
import type { TracedGrains } from './grains.ts';
import { mergedInto } from './template-functions.ts';

/** The minion against which targets are matched, and the nodegroups that targets may name. */
export interface MatchWorld {
  readonly id: string;
  /** Grains of the minion. Each read is recorded. */
  readonly grains: TracedGrains;
  readonly nodegroups: Nodegroups;
}

const kinds = ['compound', 'glob', 'grain', 'grain_pcre', 'ipcidr', 'list', 'pcre'] as const;

export function matchFunctions(world: MatchWorld): Readonly<Record<string, SaltFunction>> {
  const matches = Object.fromEntries(
    kinds.map((kind) => {
      const matches: SaltFunction = ([tgt, second], { tgt: named, minion_id: id = second }) => {
        const isAbout = kind === 'grain' || kind === 'grain_pcre' ? undefined : id;
        return isMeantByTarget(world, kind, tgt ?? named, isAbout);
      };
      return [`match.${kind}`, matches];
    }),
  );
  return { ...matches, ...lookups(matches) };
}

/**
 * Returns `match.filter_by`, `match.ifelse` and `match.search_by`.
 * @param matches - functions that match a target of one type, for example `match.glob`
 */
function lookups(
  matches: Readonly<Record<string, SaltFunction>>,
): Readonly<Record<string, SaltFunction>> {
  const isMeant = (kind: PlainData | undefined, tgt: PlainData, id: PlainData | undefined) => {
    const match = matches[`match.${typeof kind === 'string' ? kind : 'compound'}`];
    if (match === undefined)
      throw new TypeError(`unknown target type ${kind} in the argument \`tgt_type\``);
    return match([tgt], isGiven(id) ? { minion_id: id } : {}) === true;
  };
  const filterBy = takes(
    ['lookup', 'tgt_type', 'minion_id', 'merge', 'merge_lists', 'default'],
    ({ lookup, tgt_type: kind, minion_id: id, merge, merge_lists: lists, ...given }) => {
      const table = map(lookup, 'lookup');
      const found = [...table].find(([tgt]) => isMeant(kind, tgt, id));
      if (found === undefined) return table.get(given.default ?? 'default') ?? null;
      const [, value] = found;
      return mergedInto(value, merge, lists === true);
    },
  );
  return {
    'match.filter_by': filterBy,
    'match.search_by': takes(
      ['lookup', 'tgt_type', 'minion_id'],
      ({ lookup, tgt_type: kind, minion_id: id }) => {
        // As in Salt, a name appears once for each matching target.
        const found = [...map(lookup, 'lookup')].flatMap(([name, targets]) => {
          const list: readonly PlainData[] = Array.isArray(targets) ? targets : [];
          return list.filter((tgt) => isMeant(kind, tgt, id)).map(() => name);
        });
        return found.length === 0 ? null : found;
      },
    ),
    'match.ifelse': (args, { tgt_type: kind, minion_id: id }) => {
      if (args.length % 2 === 0)
        throw new TypeError(
          'match.ifelse requires an odd number of arguments: pairs of target and value, then a default',
        );
      for (let at = 0; at + 1 < args.length; at += 2) {
        const [tgt = null, value = null] = args.slice(at, at + 2);
        if (typeof tgt === 'boolean' ? tgt : isMeant(kind, tgt, id)) return value;
      }
      return args.at(-1) ?? null;
    },
  };
}

/** Whether a target matches the minion. As in Salt, an invalid target matches nothing. */
function isMeantByTarget(
  { id, grains, nodegroups }: MatchWorld,
  tgtType: string,
  tgt: PlainData | undefined,
  other: PlainData | undefined,
): boolean {
  const asked = Array.isArray(tgt) ? tgt.map(String) : String(tgt ?? '');
  const facts = { grains, pillar: factsOf({}) };
  const meter = new WorkBudget(minionWork);
  const candidate = { id: typeof other === 'string' ? other : id, facts };
  if (!tgtType.startsWith('grain')) grains.note('id');
  try {
    return (
      compileTarget(parseTarget({ tgt: asked, tgtType }, nodegroups), compileServed, {
        meter,
      }).test(candidate) === 'yes'
    );
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof MasterError) return false;
    throw error;
  }
}

/**
 * Compiles a regular expression. As in Salt, an invalid expression matches nothing. An expression
 * that Salt would evaluate must not silently match nothing, so it is an error.
 */
const compileServed: PatternCompiler = (pattern, meter) => {
  const compiled = compilePattern(pattern, meter);
  if (compiled.kind === 'linear') return compiled.test;
  throw new UnsupportedFeature(
    'lookaround and back-references in regular expressions are not supported',
  );
};

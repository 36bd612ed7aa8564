/** Recorded targets, with the results of each recorded minion and of a master. */
import {
  factsOf,
  isWireMap,
  type Nodegroups,
  type TargetCandidate,
  type TargetExpression,
  type WireMap,
} from '#minion-protocol';
import { isTargetType } from '#minion-protocol/targeting/target.ts';
import { cases, type Json, object, text, toWireValue, vectorFile } from './vectors.ts';

/** A recorded target. */
export interface TargetCase {
  readonly title: string;
  readonly target: TargetExpression;
  /** Whether each minion runs the job, by id. */
  readonly minionSide: ReadonlyMap<string, boolean>;
  /** Sorted ids of the minions that the master targets. */
  readonly minions: readonly string[];
  readonly missing: readonly string[];
}

/** A minion of the recorded vectors. */
export interface VectorMinion {
  readonly id: string;
  readonly grains: WireMap;
  readonly pillar: WireMap;
}

const file = vectorFile('targeting');

/** Minions whose grains and pillar are known. */
export const vectorMinions: readonly VectorMinion[] = Object.entries(object(file.minions)).map(
  ([id, facts]) => ({ id, grains: map(object(facts).grains), pillar: map(object(facts).pillar) }),
);

/** Id of an accepted minion without known grains and pillar. */
export const unknownMinion = 'nodata';

/** Nodegroups in the configuration of the minions. */
export const minionNodegroups: Nodegroups = Object.fromEntries(
  Object.entries(object(file.nodegroups_on_minion)).map(([name, group]) => [name, text(group)]),
);

/** Returns a minion as a candidate for a target. */
export function candidateOf({ id, grains, pillar }: VectorMinion): TargetCandidate {
  return { id, facts: { grains: factsOf(grains), pillar: factsOf(pillar) } };
}

export const targetCases: readonly TargetCase[] = cases(file, 'cases').map((entry) => {
  const tgtType = text(entry.tgt_type);
  if (!isTargetType(tgtType)) throw new TypeError('not a target type');
  const master = object(entry.master_side);
  return {
    title: `${tgtType} ${JSON.stringify(entry.tgt)}`,
    target: { tgtType, tgt: Array.isArray(entry.tgt) ? entry.tgt.map(text) : text(entry.tgt) },
    minionSide: new Map(
      Object.entries(object(entry.minion_side)).map(([id, isMeant]) => [id, isMeant === true]),
    ),
    minions: texts(master.minions),
    missing: texts(master.missing),
  };
});

function map(json: Json | undefined): WireMap {
  const value = toWireValue(json);
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

function texts(json: Json | undefined): string[] {
  if (!Array.isArray(json)) throw new TypeError('not a list');
  return json.map(text).sort();
}

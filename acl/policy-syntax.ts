/** Syntax that the caller supplies, because this room imports nothing of ours. */

/** Whether a text is one of those that a pattern means. */
export type TextTest = (text: string) => boolean;

/** Whether a target means a minion. */
export interface MinionTest {
  /** For certain, and not by its own word alone: for rules that permit. */
  readonly isEntitled: (id: string) => boolean;
  /** For certain, be it by its own word alone: for what makes a rule that permits narrower. */
  readonly claims: (id: string) => boolean;
  /** Or perhaps: for rules that forbid. */
  readonly mayMean: (id: string) => boolean;
  /** Whether part of the target goes by grains alone and therefore permits nothing. Default false. */
  readonly restsOnGrains?: boolean;
}

/** Explanation of a right that is limited to a target by grains. */
export const grainsGiveNoRight =
  'grains permit nothing by themselves, because a minion can claim any; ' +
  'name minions by id, nodegroup or pillar, or add such a condition with "and"';

/** How patterns are read. Each throws a SyntaxError with the reason. */
export interface PolicySyntax {
  readonly glob: (pattern: string) => TextTest;
  /** Of whole texts, by an engine that cannot explode. */
  readonly regex: (pattern: string) => TextTest;
  /** Of any part of a text, by an engine that cannot explode. */
  readonly search: (pattern: string) => TextTest;
  /** @param tgtType Salt's name of the target type */
  readonly target: (tgt: string, tgtType: string) => MinionTest;
}

/** What decisions look at besides the question. */
export interface PolicyEnvironment extends PolicySyntax {
  /** A text or number in the pillar of a minion, by its path (`a:b`); else `undefined`. */
  readonly pillarOf: (id: string, path: string) => string | undefined;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

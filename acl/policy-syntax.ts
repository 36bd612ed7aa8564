/**
 * Interface to the syntax of patterns and targets. Callers of `acl/` supply the implementation,
 * because `acl/` must not import it.
 */

/** Whether a pattern matches a text. */
export type TextTest = (text: string) => boolean;

/**
 * Tests whether a target matches a minion. There are three tests, because grains and pillar of a
 * minion may be unknown, and grains are only claims of the minion.
 */
export interface MinionTest {
  /**
   * Whether the target certainly matches this minion, without relying on the minion's own claims.
   * Used by `allow` rules.
   */
  readonly isEntitled: (id: string) => boolean;
  /**
   * Whether the target certainly matches this minion, provided that the minion's own claims (its
   * grains) are true. Used for conditions that narrow `allow` rules.
   */
  readonly claims: (id: string) => boolean;
  /**
   * Whether the target matches this minion, or might match it because facts are unknown. Used by
   * `deny` rules.
   */
  readonly mayMean: (id: string) => boolean;
  /**
   * Whether a minion can match the target, or one of its alternatives, by its grains alone. An
   * `allow` rule grants nothing to minions that match only in this way. Default: `false`.
   */
  readonly restsOnGrains?: boolean;
}

/** Text that explains a denial if the target of the rule selects minions by grains alone. */
export const grainsGiveNoRight =
  'grains alone grant nothing, because a minion can claim any grain; ' +
  'name minions by id, nodegroup or pillar, or add such a condition with "and"';

/** Compilers of patterns. Each throws a SyntaxError with the reason. */
export interface PolicySyntax {
  /**
   * Name of the set of patterns and targets that this syntax accepts. A rule that is valid for one
   * syntax is not validated again for other syntaxes with the same name. Default: each rule is
   * validated each time.
   */
  readonly dialect?: string;
  readonly glob: (pattern: string) => TextTest;
  /** Compiles a regular expression for whole texts, with a linear-time engine. */
  readonly regex: (pattern: string) => TextTest;
  /**
   * Compiles a regular expression for any part of a text, with a linear-time engine.
   * @param spend - called with the steps of a match before the match
   */
  readonly search: (pattern: string, spend: (steps: number) => void) => TextTest;
  /**
   * Compiles a target.
   * @param tgtType - Salt's name of the target type
   */
  readonly target: (tgt: string, tgtType: string) => MinionTest;
}

/** Input of decisions besides the question: pattern compilers, facts about minions, and a clock. */
export interface PolicyEnvironment extends PolicySyntax {
  /**
   * Returns the text or number at a path (`a:b`) in the pillar of a minion, otherwise `undefined`.
   */
  readonly pillarOf: (id: string, path: string) => string | undefined;
  /**
   * Returns the id of the project for which a minion was enrolled, or `undefined` for other
   * minions. Default: no minion belongs to a project.
   */
  readonly projectOf?: (id: string) => string | undefined;
  /** Returns the current time in milliseconds since 1970. */
  readonly now: () => number;
}

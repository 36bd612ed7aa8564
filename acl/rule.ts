/**
 * The policy language as data, for files and for programs. A rule allows or denies a subject an
 * action on a resource. Order has no meaning: a rule that denies overrides all rules that allow.
 * Anything that no rule allows is denied.
 */

import type { Action, RuleOrigin } from './types.ts';

/**
 * Pattern of a text: a glob (`*`, `?`, `[a-c]`), or a regular expression in Python's syntax. Both
 * must match the whole text.
 */
export type TextPattern = string | { readonly regex: string };

/** One pattern, or a list of alternative patterns. */
export type TextPatterns = TextPattern | readonly TextPattern[];

/**
 * Subject of a rule. All conditions that are set must hold. A rule has one of these kinds of
 * subject:
 * - Minions, by `minion`, `grain`, `pillar`, `nodegroup` and `target`.
 * - Users, by `user`, `group` and `eauth`.
 * - Keystone users who act for a project, by `project`, `role`, `domain`, and optionally `user`.
 * - Services, by `service`.
 * - Tokens, by `token`.
 */
export interface SubjectPattern {
  /** Ids of the minions that the rule applies to. */
  readonly minion?: TextPatterns;
  /**
   * Grain and value, for example `os:Debian`. Minions report grains themselves, so a grain only
   * narrows a rule that has another selector. Alone it grants nothing.
   */
  readonly grain?: string;
  /** Pillar key and value, for example `role:web`. */
  readonly pillar?: string;
  readonly nodegroup?: string;
  /**
   * Compound target that selects minions. Its conditions on grains can exclude minions, but never
   * suffice to select one.
   */
  readonly target?: string;
  readonly user?: TextPatterns;
  readonly group?: TextPatterns;
  /**
   * Backend of `external_auth` that authenticated the user. Empty for accounts of this host, which
   * no backend has authenticated.
   */
  readonly eauth?: string;
  /** Id or name of a Keystone project. */
  readonly project?: TextPatterns;
  /** Name of a role in the project. */
  readonly role?: TextPatterns;
  /**
   * Id or name of a Keystone domain. The project must belong to this domain. If the rule has
   * `user`, the user must belong to it too. The domain is needed because names are unique only
   * within a domain. Default: `Default` in rules that allow, any domain in rules that deny.
   */
  readonly domain?: TextPatterns;
  readonly service?: TextPatterns;
  readonly token?: TextPatterns;
  /**
   * Ids or names of subjects to which the rule does not apply. In rules about projects, ids or
   * names of projects.
   */
  readonly except?: TextPatterns;
}

/**
 * Conditions on arguments. Arguments are compared as texts in Python's form. An argument without a
 * condition may have any value.
 */
export interface ArgumentPattern {
  /** Patterns of positional arguments. `null` requires an argument with any value. */
  readonly args?: readonly (TextPattern | null)[];
  /** Patterns of keyword arguments. `null` requires an argument with any value. */
  readonly kwargs?: Readonly<Record<string, TextPattern | null>>;
}

/** Calls that a rule applies to. */
export interface CallPattern {
  readonly fun: TextPatterns;
  /** Alternative conditions on the arguments. Default: any arguments. */
  readonly arguments?: readonly ArgumentPattern[];
}

/** Events that a rule applies to. */
export interface SignalPattern {
  /**
   * Glob for the tag. `${minion.id}` and `${pillar:path}` are replaced with the sender's values.
   */
  readonly tag: string;
  /** JSON Schema for the data of the event. Default: any data. */
  readonly schema?: unknown;
  /** Maximum size of the event, in bytes. Default: the option `event_bytes`. */
  readonly bytes?: number;
}

/** Named commands that a rule applies to, and their minions. */
export interface CommandPattern extends CallPattern {
  /** Compound target. The rule applies only to minions that match it. */
  readonly within?: string;
  /**
   * If `pillar`, a target may select minions by the exact value of a pillar key, but not by a
   * pattern. Default: targets can use only ids and grains.
   */
  readonly facts?: 'pillar';
}

/** Jobs that a rule applies to. */
export interface PublishPattern extends CommandPattern {
  /** Patterns for the keyword argument `saltenv`. Jobs without this argument match as well. */
  readonly environment?: TextPatterns;
}

/** Mine entries that a rule applies to. */
export interface MinePattern {
  readonly fun: TextPatterns;
  /** Ids of the minions that own the mine. Default: any. */
  readonly owner?: TextPatterns;
  /**
   * With `pillar`, a mine request may also use the exact value of a pillar key to select the
   * minions whose data it reads. Default: it can select them only by ids and grains.
   */
  readonly facts?: 'pillar';
}

/** Form of the field `resource` of a rule, for each action. */
export interface ResourcePatterns {
  readonly signal: SignalPattern;
  readonly publish: PublishPattern;
  readonly runner: CallPattern;
  readonly wheel: CallPattern;
  /** Named commands. */
  readonly command: CommandPattern;
  readonly mine: MinePattern;
  readonly 'file-send': { readonly path: TextPatterns };
  /** Pillar environments that a minion may request by name. */
  readonly pillar: { readonly environment: TextPatterns };
  readonly key: { readonly operation: TextPatterns };
  readonly subscribe: { readonly tag: TextPatterns };
}

/**
 * Actions that a rule can apply to. Excludes the action `return`, about which only built-in rules
 * decide.
 */
export type RuleAction = Exclude<Action, 'return'>;

/** Fields that rules of all actions have. */
export interface RuleBase {
  /** Name of the rule in explanations of decisions. */
  readonly name: string;
  readonly effect: 'allow' | 'deny';
  readonly subject: SubjectPattern;
  /** Rate limit for each subject, for example `10/minute`. Not allowed in rules that deny. */
  readonly rate?: string;
  /** Time at which the rule expires, in ISO 8601. */
  readonly expires?: string;
  readonly origin?: RuleOrigin;
}

/** A rule of any action. */
export type PolicyRule = {
  readonly [A in RuleAction]: RuleBase & {
    readonly action: A;
    readonly resource: ResourcePatterns[A];
  };
}[RuleAction];

type Specification<A extends RuleAction> = Omit<RuleBase, 'effect' | 'name'> & {
  readonly action: A;
  readonly resource: ResourcePatterns[A];
};

/** Creates a rule that allows an action. */
export function allow<A extends RuleAction>(
  name: string,
  rule: Specification<A>,
): RuleBase & Specification<A> {
  return { ...rule, name, effect: 'allow' };
}

/** Creates a rule that denies an action, even if other rules allow it. */
export function deny<A extends RuleAction>(
  name: string,
  rule: Omit<Specification<A>, 'rate'>,
): RuleBase & Omit<Specification<A>, 'rate'> {
  return { ...rule, name, effect: 'deny' };
}

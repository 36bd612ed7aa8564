/**
 * The policy language as data: what stands in files and what a program writes. A rule says of a
 * subject that it may, or may not, do an action with a resource. Order has no meaning: a rule that
 * denies wins over all that allow, and what no rule allows is denied.
 */

import type { Action, RuleOrigin } from './types.ts';

/** A glob (`*`, `?`, `[a-c]`), or a regular expression with Python's meaning; of whole texts. */
export type TextPattern = string | { readonly regex: string };

/** One pattern, or several of which any one is enough. */
export type TextPatterns = TextPattern | readonly TextPattern[];

/**
 * Who a rule is about; what is named must all hold. Either minions (`minion`, `grain`, `pillar`,
 * `nodegroup`, `target`), users (`user`, `group`, `eauth`), those who act for a project of Keystone's
 * (`project`, `role`, `domain`, and `user` beside them), a `service` or a `token`.
 */
export interface SubjectPattern {
  /** By id. */
  readonly minion?: TextPatterns;
  /**
   * `os:Debian`. It is the minion's own word: beside another selector it makes the rule narrower;
   * alone it gives no right.
   */
  readonly grain?: string;
  /** `role:web` */
  readonly pillar?: string;
  readonly nodegroup?: string;
  /** A compound target; conditions on grains in it take rights away and give none. */
  readonly target?: string;
  readonly user?: TextPatterns;
  readonly group?: TextPatterns;
  /** Authenticated by this one of `external_auth`. */
  readonly eauth?: string;
  /** Id or name of a project of Keystone's. */
  readonly project?: TextPatterns;
  /** One of the roles there. */
  readonly role?: TextPatterns;
  /**
   * Id or name of the project's domain, and of the domain of a `user` beside it, because names are
   * only one of their domain. Default: `Default`; of rules that deny: any.
   */
  readonly domain?: TextPatterns;
  readonly service?: TextPatterns;
  readonly token?: TextPatterns;
  /** Ids or names, of projects where it is about those, that the rule is not about. */
  readonly except?: TextPatterns;
}

/** What arguments must be like, as texts in Python's form; what is not named may be anything. */
export interface ArgumentPattern {
  /** By place; `null`: there must be one. */
  readonly args?: readonly (TextPattern | null)[];
  /** By name; `null`: there must be one. */
  readonly kwargs?: Readonly<Record<string, TextPattern | null>>;
}

/** Which calls. */
export interface CallPattern {
  readonly fun: TextPatterns;
  /** Any one of them. Default: with any arguments. */
  readonly arguments?: readonly ArgumentPattern[];
}

/** Which events. */
export interface SignalPattern {
  /** A glob in which `${minion.id}` and `${pillar:path}` stand for the sender's own. */
  readonly tag: string;
  /** JSON Schema of what is said with the event. Default: anything. */
  readonly schema?: unknown;
  /** Largest event, bytes. Default: `event_bytes`. */
  readonly bytes?: number;
}

/** Which named commands, and for whom. */
export interface CommandPattern extends CallPattern {
  /** A compound target: only on minions that this means. */
  readonly within?: string;
  /**
   * `pillar`: targets may compare the pillar of these minions with a value, for equality. Default:
   * targets go by ids and grains.
   */
  readonly facts?: 'pillar';
}

/** Which jobs. */
export interface PublishPattern extends CommandPattern {
  /** The keyword `saltenv`; a job without one is meant too. */
  readonly environment?: TextPatterns;
}

/** Which entries of mines. */
export interface MinePattern {
  readonly fun: TextPatterns;
  /** Ids of the minions whose mine it is. Default: any. */
  readonly owner?: TextPatterns;
  /** See {@link CommandPattern.facts}. */
  readonly facts?: 'pillar';
}

/** What a rule of each action is about. */
export interface ResourcePatterns {
  readonly signal: SignalPattern;
  readonly publish: PublishPattern;
  readonly runner: CallPattern;
  readonly wheel: CallPattern;
  /** A named command. */
  readonly command: CommandPattern;
  readonly mine: MinePattern;
  readonly 'file-send': { readonly path: TextPatterns };
  /** Which environments of pillar a minion may ask for by name. */
  readonly pillar: { readonly environment: TextPatterns };
  readonly key: { readonly operation: TextPatterns };
  readonly subscribe: { readonly tag: TextPatterns };
}

/** What a rule can be about. Returns are decided by rules of the master's own alone. */
export type RuleAction = Exclude<Action, 'return'>;

/** What all rules have. */
export interface RuleBase {
  /** What the rule is called where a decision is explained. */
  readonly name: string;
  readonly effect: 'allow' | 'deny';
  readonly subject: SubjectPattern;
  /** How often each subject may do so by this rule: `10/minute`. Rules that deny have none. */
  readonly rate?: string;
  /** The rule ends at this time, ISO 8601. */
  readonly expires?: string;
  readonly origin?: RuleOrigin;
}

/** A rule. */
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

/** A rule that permits, with the fields that its action has. */
export function allow<A extends RuleAction>(
  name: string,
  rule: Specification<A>,
): RuleBase & Specification<A> {
  return { ...rule, name, effect: 'allow' };
}

/** A rule that forbids, whatever others permit. */
export function deny<A extends RuleAction>(
  name: string,
  rule: Omit<Specification<A>, 'rate'>,
): RuleBase & Omit<Specification<A>, 'rate'> {
  return { ...rule, name, effect: 'deny' };
}

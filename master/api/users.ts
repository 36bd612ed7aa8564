import type { Decision, PolicyRule, RuleAction, Subject } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { TargetRequest } from './jobs.ts';

/** Policy derived from recorded decisions. */
export interface LearnedPolicy {
  readonly rules: readonly LearnedRule[];
  /** Rejected requests that rules cannot permit. */
  readonly ungrantable: readonly Omit<RecordedDecision, 'samples'>[];
  /** Requests that a rule with the effect `deny` rejected. */
  readonly denied: readonly Omit<RecordedDecision, 'samples'>[];
}

/** Result of replaying recorded decisions with another policy. */
export interface ReplayReport {
  /** Number of checked decisions. */
  readonly decisions: number;
  /** Number of requests in these decisions. */
  readonly requests: number;
  /**
   * Number of decisions for which some data or arguments were not recorded. The report may be wrong
   * about these decisions.
   */
  readonly uncertain: number;
  /**
   * Number of unrecorded decisions since the start. They were not recorded because the maximum
   * number of records was reached.
   */
  readonly missed: number;
  readonly changes: readonly ReplayChange[];
}

/** Result of a log-in. */
export interface Login extends TokenInfo {
  /** The token: 64 hexadecimal digits. It is returned only by this call. */
  readonly token: string;
  /** Entries of `external_auth` that apply to this user: strings in sorted order, then maps. */
  readonly perms: readonly unknown[];
}

/** Credentials and options of a log-in. All other fields that a client sends are ignored. */
export interface LoginRequest {
  readonly username: string;
  readonly password: string;
  /** Name of a backend under `external_auth`. */
  readonly eauth: string;
  /**
   * Requested lifetime of the token, in seconds. It is used only if the option
   * `token_expire_user_override` permits it.
   */
  readonly tokenExpireSeconds?: number;
  /** Address of the client. Failed log-ins are counted by address. Default: `local`. */
  readonly source?: string;
}

/** Description of a token, without the token itself. */
export interface TokenInfo {
  /** Identifier of the token, for operators. It cannot be used to log in. */
  readonly id: string;
  readonly user: string;
  readonly eauth: string;
  readonly groups: readonly string[];
  /** Time of the log-in, in milliseconds since 1970. */
  readonly start: number;
  /** Expiry time, in milliseconds since 1970. */
  readonly expire: number;
}

/** Selection of tokens to revoke. A token must match all given fields. */
export interface TokenSelection {
  readonly id?: string;
  readonly user?: string;
  readonly eauth?: string;
}

/**
 * Hypothetical request. The master explains the policy's decision about the request, and does not
 * perform the request.
 */
export interface ExplainRequest {
  readonly subject: Subject;
  readonly action:
    | 'signal'
    | 'publish'
    | 'runner'
    | 'wheel'
    | 'command'
    | 'mine'
    | 'file-send'
    | 'pillar'
    | 'key'
    | 'subscribe';
  /**
   * Tag, function, path or operation of the request. Several functions of one job are separated by
   * commas.
   */
  readonly resource: string;
  /** Arguments as on a command line, including `name=value`. They apply to every function. */
  readonly arg?: readonly string[];
  /** Target of a job. If it is omitted, rules with `within` do not match. */
  readonly target?: TargetRequest;
  /** Data of a minion's event. */
  readonly data?: WireValue;
  /** Size of a minion's event, in bytes. Default: 0. */
  readonly bytes?: number;
  /** Owner of the requested mine data. */
  readonly owner?: string;
}

/** Actions whose decisions the master explains. */
export const explainActions: readonly ExplainRequest['action'][] = [
  'signal',
  'publish',
  'runner',
  'wheel',
  'command',
  'mine',
  'file-send',
  'pillar',
  'key',
  'subscribe',
];

/** Derived rule, with statistics of the requests that it was derived from. */
export interface LearnedRule {
  readonly rule: PolicyRule;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Notes to review before the rule is activated. */
  readonly notes: readonly string[];
}

/**
 * Recorded decision about similar requests of a minion. Requests are similar if their data and
 * arguments have the same structure, even with different strings and numbers.
 */
export interface RecordedDecision {
  readonly minion: string;
  readonly action: RuleAction;
  /** Tag, path or operation of the request. For a job, the names of its functions. */
  readonly texts: readonly string[];
  /** Owner of the requested mine data. */
  readonly owner?: string;
  /** Target minions of a job. */
  readonly minions?: readonly string[];
  /** Samples of an event's data or of a job's calls: one for each structure that was observed. */
  readonly samples: readonly WireValue[];
  /** Whether `samples` contains a sample of every structure that was observed. */
  readonly isWhole: boolean;
  /** Size of the largest request, in bytes. 0 for requests without a size. */
  readonly bytes: number;
  /** Decision that the policy made. In learning mode, a denied request was accepted anyway. */
  readonly effect: Decision['effect'];
  readonly rule: string;
  /** Time of the first request, in milliseconds since 1970. */
  readonly firstAt: number;
  /** Time of the last request, in milliseconds since 1970. */
  readonly lastAt: number;
  readonly count: number;
}

/** Recorded decision that would change with another policy. */
export interface ReplayChange {
  readonly kind: /** The request was permitted, and the tested policy would deny it. */
    | 'denied'
    /** The request was denied, but the tested policy would permit it. */
    | 'allowed'
    /** The tested policy would permit or deny the request as before, but by a different rule. */
    | 'other-rule';
  readonly recorded: Omit<RecordedDecision, 'samples'>;
  /**
   * Decision of the tested policy about a recorded request. A request can have several samples of
   * its data. If the policy denies at least one sample, this is the decision about a denied sample.
   */
  readonly decision: Decision;
}

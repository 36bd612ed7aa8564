import type { Decision, PolicyRule, RuleAction, Subject } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { TargetRequest } from './jobs.ts';

/** Policy derived from recorded decisions. */
export interface LearnedPolicy {
  readonly rules: readonly LearnedRule[];
  /** Rejected requests that no rule can permit. */
  readonly ungrantable: readonly Omit<RecordedDecision, 'samples'>[];
  /** Requests that an explicit rule denied. */
  readonly denied: readonly Omit<RecordedDecision, 'samples'>[];
}

/** Result of replaying recorded decisions with another policy. */
export interface ReplayReport {
  /** Number of recorded decisions that were checked. */
  readonly decisions: number;
  /** Number of requests in these decisions. */
  readonly requests: number;
  /**
   * Number of decisions with incomplete samples. The new rules may decide differently for the
   * missing data.
   */
  readonly uncertain: number;
  /** Number of decisions since the start that exceeded the capacity of the record. */
  readonly missed: number;
  readonly changes: readonly ReplayChange[];
}

/** Result of a log-in. */
export interface Login extends TokenInfo {
  /** The token, 64 hexadecimal digits. It is returned only here. */
  readonly token: string;
  /** Entries of `external_auth` that apply to this user: strings first, sorted, then maps. */
  readonly perms: readonly unknown[];
}

/** Log-in request. All other fields that a client sends are ignored. */
export interface LoginRequest {
  readonly username: string;
  readonly password: string;
  /** Name of a backend under `external_auth`. */
  readonly eauth: string;
  /**
   * Requested lifetime of the token, in seconds. Used only if `token_expire_user_override` permits
   * it.
   */
  readonly tokenExpireSeconds?: number;
  /** Address of the client, used to count failures. Default: `local`. */
  readonly source?: string;
}

/** Description of a token, without the token itself. */
export interface TokenInfo {
  /** Identifier for operators. It cannot be used to log in. */
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

/** Hypothetical request to explain. It has no effect. */
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
  /** Tag, function, path or operation. Functions of one job are separated by commas. */
  readonly resource: string;
  /** Arguments as on a command line, including `name=value`. The same for every function. */
  readonly arg?: readonly string[];
  /** Target of a job. Default: unspecified, and rules with `within` do not match then. */
  readonly target?: TargetRequest;
  /** Data of a signal. */
  readonly data?: WireValue;
  /** Size of a signal in bytes. Default: 0. */
  readonly bytes?: number;
  /** Minion whose mine is requested. */
  readonly owner?: string;
}

/** Rule, with the statistics of the requests that it was derived from. */
export interface LearnedRule {
  readonly rule: PolicyRule;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Notes for the review before the rule is activated. */
  readonly notes: readonly string[];
}

/**
 * Recorded decision about a minion's requests, aggregated. Data and arguments are stored as shapes.
 */
export interface RecordedDecision {
  readonly minion: string;
  readonly action: RuleAction;
  /** Tag, path or operation. For a job, its functions. */
  readonly texts: readonly string[];
  /** Minion whose mine was requested. */
  readonly owner?: string;
  /** Target minions of a job. */
  readonly minions?: readonly string[];
  /** One sample for each observed shape: the data of a signal, or the calls of a job. */
  readonly samples: readonly WireValue[];
  /** Whether `samples` contains every observed shape. */
  readonly isWhole: boolean;
  /** Size of the largest request, in bytes. 0 if the size has no meaning. */
  readonly bytes: number;
  /** Decision of the policy, regardless of whether it was in learning mode. */
  readonly effect: Decision['effect'];
  readonly rule: string;
  /** Time of the first request, in milliseconds since 1970. */
  readonly firstAt: number;
  /** Time of the last request, in milliseconds since 1970. */
  readonly lastAt: number;
  readonly count: number;
}

/** Recorded decision that another policy would change. */
export interface ReplayChange {
  readonly kind: /** It was permitted, and would be denied. */
    | 'denied'
    /** It was denied, and would be permitted. */
    | 'allowed'
    /** Another rule would decide the same. */
    | 'other-rule';
  readonly recorded: Omit<RecordedDecision, 'samples'>;
  /** New decision. If there are several samples, the one that is denied. */
  readonly decision: Decision;
}

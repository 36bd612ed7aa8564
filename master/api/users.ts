import type { Decision, PolicyRule, RuleAction, Subject } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { TargetRequest } from './jobs.ts';

/** What was learned. */
export interface LearnedPolicy {
  readonly rules: readonly LearnedRule[];
  /** Refused, and for no rule to permit. */
  readonly ungrantable: readonly Omit<RecordedDecision, 'samples'>[];
  /** Denied by a rule, which was meant. */
  readonly denied: readonly Omit<RecordedDecision, 'samples'>[];
}

export interface ReplayReport {
  /** Recorded decisions that were looked at, and how often they were made. */
  readonly decisions: number;
  readonly requests: number;
  /** Those of which not every example was kept: data in them may be decided otherwise. */
  readonly uncertain: number;
  /** Decisions that were too many to be recorded, since the start. */
  readonly missed: number;
  readonly changes: readonly ReplayChange[];
}

/** What a log-in gives. */
export interface Login extends TokenInfo {
  /** 64 hexadecimal digits, told this once. */
  readonly token: string;
  /** Entries of `external_auth` that are this user's: texts first, sorted, then maps. */
  readonly perms: readonly unknown[];
}

/** A log-in as somebody asks for it. Nothing else of what they send is looked at. */
export interface LoginRequest {
  readonly username: string;
  readonly password: string;
  /** One of those under `external_auth`. */
  readonly eauth: string;
  /** Seconds that the token shall live, where `token_expire_user_override` lets the user choose. */
  readonly tokenExpireSeconds?: number;
  /** Where they are, for counting failures: an address. Default `local`. */
  readonly source?: string;
}

/** A token without the token. */
export interface TokenInfo {
  /** Names it to operators; nobody can log in with it. */
  readonly id: string;
  readonly user: string;
  readonly eauth: string;
  readonly groups: readonly string[];
  /** Milliseconds since 1970. */
  readonly start: number;
  /** Milliseconds since 1970. */
  readonly expire: number;
}

/** Which tokens to revoke: all that fit everything that is named. */
export interface TokenSelection {
  readonly id?: string;
  readonly user?: string;
  readonly eauth?: string;
}

/** A request as somebody describes it. Nothing of it is done. */
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
  /** Tag, function, path or operation. Several functions of one job are separated by commas. */
  readonly resource: string;
  /** Arguments as on a command line, `name=value` among them; the same for every function. */
  readonly arg?: readonly string[];
  /** Whom a job is for. Default: not told; rules with `within` do not hold then. */
  readonly target?: TargetRequest;
  /** What is said with a signal. */
  readonly data?: WireValue;
  /** Bytes of a signal. Default 0. */
  readonly bytes?: number;
  /** Whose mine it is. */
  readonly owner?: string;
}

/** A rule, and what it was learned from. */
export interface LearnedRule {
  readonly rule: PolicyRule;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** What to look at before it is put in force. */
  readonly notes: readonly string[];
}

/** What a minion asked for, as often as it did. Data and arguments are kept by their shapes. */
export interface RecordedDecision {
  readonly minion: string;
  readonly action: RuleAction;
  /** Tag, path or operation; of a job its functions. */
  readonly texts: readonly string[];
  /** Whose mine it was. */
  readonly owner?: string;
  /** Whom a job was for. */
  readonly minions?: readonly string[];
  /** One for each shape that was seen: what was said with a signal, or the calls of a job. */
  readonly samples: readonly WireValue[];
  /** Whether `samples` has every shape. */
  readonly isWhole: boolean;
  /** Largest one, bytes; 0 where it has no meaning. */
  readonly bytes: number;
  /** What the policy said, whether or not it was learning. */
  readonly effect: Decision['effect'];
  readonly rule: string;
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly count: number;
}

/** A decision that another policy would make otherwise. */
export interface ReplayChange {
  readonly kind: /** It was permitted, and would be denied. */
    | 'denied'
    /** It was denied, and would be permitted. */
    | 'allowed'
    /** Another rule would decide the same. */
    | 'other-rule';
  readonly recorded: Omit<RecordedDecision, 'samples'>;
  /** What would decide. Of several examples, the one that is denied. */
  readonly decision: Decision;
}

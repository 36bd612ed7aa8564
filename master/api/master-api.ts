/**
 * The interface of a running master, for services and operators. The library offers it inside the
 * process. The local socket offers it to commands on the same host.
 */

import type { Explanation, PolicyRule } from '#acl';
import type { Reaction } from '#config';
import type { FactMap, WireMap, WireValue } from '#minion-protocol';
import type { BackupReceipt } from '#store';
import type { AuditRequester, Requested, StoredHead, WithRequester } from './audit.ts';
import type { ClusterApi, ClusterStatus } from './cluster.ts';
import type { Denial, MasterEvent, MetricFamily, ReloadReport } from './events.ts';
import type { FunctionCall, FunctionResult, StartedCall } from './functions.ts';
import type {
  BatchRequest,
  BatchUpdate,
  JobListRequest,
  JobOrigin,
  JobReport,
  JobSummary,
  JobUpdate,
  PresentMinion,
  PublishRequest,
  RunRequest,
  TargetPlan,
  TargetRequest,
} from './jobs.ts';
import type { PillarDifference, PillarInputs, PillarOrigin } from './pillar.ts';
import type { ReactionOutcome } from './reactions.ts';
import type {
  ExplainRequest,
  LearnedPolicy,
  Login,
  LoginRequest,
  ReplayReport,
  TokenInfo,
  TokenSelection,
} from './users.ts';

/** Minion with an accepted key. */
export interface MinionInfo {
  readonly id: string;
  /** Whether the minion appears to be subscribed to publications. */
  readonly isPresent: boolean;
  /**
   * Present if `isPresent` is uncertain: the minion's address has fewer connections than active
   * minions.
   */
  readonly isUnsure?: true;
  /**
   * Time of the minion's last verified request, in milliseconds since 1970. Absent if the minion
   * has sent none since the master started.
   */
  readonly heardAt?: number;
  /** Present if the minion does not reconnect by itself after a restart of the master. */
  readonly needsOwnRestart?: true;
}

/** Unfinished job: some of its minions have not returned yet. */
export interface JobProgress {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** Number of minions that the job was published to. */
  readonly minions: number;
  readonly answered: number;
  /** Time of the publication, in milliseconds since 1970. */
  readonly publishedAt: number;
}

/** States of a minion's key, in the order in which Salt lists them. */
export type KeyState = 'accepted' | 'denied' | 'pending' | 'rejected';

/** Public key of a minion, with its state. */
export interface KeyInfo {
  readonly id: string;
  readonly state: KeyState;
  /** Fingerprint as Salt prints it: hex pairs separated by `:`, computed with `hash_type`. */
  readonly fingerprint: string;
  /** Public key in PEM format. */
  readonly publicKey: string;
  /**
   * Highest protocol version that a minion with this id has used to sign in. 0 if none has signed
   * in.
   */
  readonly protocol: number;
  /** Number of sign-ins with a different key for this id since the start of the master. */
  readonly conflicts: number;
  /**
   * Accepted ids that differ from this id only in case or in the Unicode encoding of letters; at
   * most 20 of them.
   */
  readonly alike?: readonly string[];
  /** Number of all such ids. */
  readonly alikeCount?: number;
  /** Other accepted ids that use the same key; at most 20 of them. */
  readonly sharedWith?: readonly string[];
  /** Number of all such ids. */
  readonly sharedWithCount?: number;
  /** Present if the option `minion_ids` does not permit this id for new minions. */
  readonly isUnusual?: true;
  /** Present if the key is not accepted and its file does not contain an RSA public key. */
  readonly isInvalid?: true;
}

/** Key file of the master itself. */
interface LocalKeyInfo {
  readonly name: string;
  readonly fingerprint: string;
}

/** Selection of keys for an operation. */
export interface KeySelection {
  /**
   * Glob pattern for ids, or a list of at most 10,000 patterns. The id of a selected key matches at
   * least one pattern.
   */
  readonly match: string | readonly string[];
  /** Fingerprint that the key must have. Default: any. */
  readonly fingerprint?: string;
  /**
   * States to search in addition to the operation's defaults. The defaults are `pending` for accept
   * and reject, and all states for delete.
   */
  readonly include?: readonly KeyState[];
  /**
   * Searches only the keys in this state, instead of the operation's default states and `include`.
   */
  readonly state?: KeyState;
}

/** Change that an operation made to one key. */
export interface KeyChange {
  readonly id: string;
  readonly from: KeyState;
  /** New state, or `undefined` if the key was deleted. */
  readonly to?: KeyState;
}

/** Status of a transport that the master serves. */
export interface TransportStatus {
  /** Name of the transport in Salt: `zeromq`, `tcp` or `ws`. */
  readonly transport: string;
  readonly requestPort: number;
  readonly publishPort: number;
  readonly subscribers: number;
}

/** Status of a master. */
export interface MasterStatus {
  readonly id: string;
  readonly version: string;
  /** Process id. */
  readonly pid: number;
  /** Start of the master, in milliseconds since 1970. */
  readonly startedAt: number;
  /** Request port of the first transport. `publishPort` belongs to the same transport. */
  readonly requestPort: number;
  readonly publishPort: number;
  /** All transports that the master offers. */
  readonly transports: readonly TransportStatus[];
  readonly subscribers: number;
  /**
   * Whether the disk of the store is full. New data is then not stored, but the master continues to
   * work.
   */
  readonly storeFull: boolean;
  /**
   * Whether the audit log cannot be written. Records are queued meanwhile. When the queue is full,
   * further records are dropped and counted.
   */
  readonly auditFull: boolean;
  /**
   * Mode of the policy. With `learn`, requests of minions that no rule permits are accepted and
   * recorded.
   */
  readonly aclMode: 'enforce' | 'learn';
  readonly keys: Readonly<Record<KeyState, number>>;
  /** Number of rejected, delayed or dropped requests since the start, by reason. */
  readonly counters: Readonly<Record<string, number>>;
  /** Status of the cluster. Absent if the master belongs to no cluster. */
  readonly cluster?: ClusterStatus;
  /**
   * Metrics of extensions, without histograms. The outer key is the namespace of the extension, and
   * the inner key is the name of the metric. For example, `bridge` has metrics about the outbox,
   * enrolments and runs.
   */
  readonly extensions?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Request to create a key pair for a minion. */
interface NewKey {
  readonly id: string;
  /** Key size in bits, 2048 to `saltbridge: limits: key_bits`. Default: 2048. */
  readonly bits?: number;
  /** Whether to replace an existing key of the id. Default: false. */
  readonly force?: boolean;
}

/** Key pair of a minion, in PEM format. */
interface CreatedKey {
  readonly privatePem: string;
  readonly publicPem: string;
}

/** Operations on minion keys. */
export interface KeysApi {
  /**
   * Returns the keys, optionally only those in one state.
   * @param request - `state`: the state to return. Default: all
   */
  list(request?: { readonly state?: KeyState }): Promise<readonly KeyInfo[]>;
  local(): Promise<readonly LocalKeyInfo[]>;
  /** Accepts the selected keys. @throws KeyError ERR_KEY_FINGERPRINT */
  accept(selection: KeySelection): Promise<readonly KeyChange[]>;
  /** Rejects the selected keys. @throws KeyError ERR_KEY_FINGERPRINT */
  reject(selection: KeySelection): Promise<readonly KeyChange[]>;
  delete(selection: KeySelection): Promise<readonly KeyChange[]>;
  /**
   * Creates a key pair for a minion and accepts it. The private key is returned only by this call
   * and is not stored.
   * @returns `null` if the id is already accepted and `force` is not set. Nothing changes in this
   * case
   * @throws KeyError ERR_KEY_ID; ERR_KEY_STATE for a rejected key without `force`; MasterError
   * ERR_ARGS for an invalid key size
   */
  create(request: NewKey): Promise<CreatedKey | null>;
  /**
   * Resets the highest protocol version that was recorded for an id, so that the master accepts
   * lower versions from this id again.
   */
  unpin(id: string): Promise<void>;
}

/**
 * Receipt for a published job. If the target matches no minion, `minions` is empty and nothing was
 * published.
 */
export interface JobReceipt {
  readonly jid: string;
  readonly minions: readonly string[];
  /** Listed names that did not receive the job. */
  readonly missing: readonly string[];
  /** Present if the caller's rights reduced the target to a list of minions. */
  readonly isNarrowed?: true;
  /** Number of subscribers that did not receive the job because their queues were full. */
  readonly skipped: number;
  /** Reason why the target is invalid. An invalid target matches no minion. */
  readonly problem?: string;
}

/** Methods that publish, follow and list the jobs of minions. */
interface JobsApi {
  /**
   * Publishes a job without waiting. Its returns are stored (see {@link JobsApi.show}).
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  publish(request: PublishRequest): Promise<JobReceipt>;
  /**
   * Publishes a job and iterates over its updates until the job ends. The job is published when the
   * iteration starts.
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  run(request: RunRequest, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  /**
   * Runs a job in batches: a limited number of minions run it at a time. The first publication
   * happens when the iteration starts.
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  batch(request: BatchRequest, signal?: AbortSignal): AsyncIterable<BatchUpdate>;
  /**
   * Iterates over the updates of a job until the job ends. The job may have been published by an
   * earlier master process. The updates begin with the returns already received.
   * @throws MasterError ERR_JOB_UNKNOWN if no job with this jid is stored
   */
  follow(jid: string, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  /** Returns the stored jobs, latest first. */
  list(request?: JobListRequest): Promise<readonly JobSummary[]>;
  /**
   * Returns one job with the returns received so far.
   * @throws MasterError ERR_JOB_UNKNOWN if no job with this jid is stored
   */
  show(jid: string): Promise<JobReport>;
  /**
   * Returns unfinished jobs, latest first, at most 100. Some minions of an unfinished job have not
   * returned yet. In addition, one of these conditions is true:
   * - a caller follows the job
   * - a minion confirmed that it runs the job
   * - the job was published recently, within the sum of `timeout` and `gather_job_timeout`
   */
  active(): Promise<readonly JobProgress[]>;
  /**
   * Returns the minions that a target matches, with reasons. Publishes nothing.
   * @throws MasterError ERR_BAD_TGT
   */
  plan(request: TargetRequest): Promise<TargetPlan>;
}

/** Selection of the events of a subscription. */
export interface EventsRequest {
  /** Glob pattern for the tag, for instance `salt/job/*`, or several alternatives. Default: all. */
  readonly match?: string | readonly string[];
  /**
   * {@link MasterEvent.id} of the last event that the caller has read. The subscription starts with
   * the stored events that follow it. Where events may be missing, the subscription contains an
   * event `saltbridge/events/missed`. Default: new events only.
   */
  readonly after?: string;
}

/** Methods that subscribe to the master's events and publish events. */
export interface EventsApi {
  /**
   * Subscribes to new events. The subscription is active when the promise resolves.
   * @throws MasterError ERR_READER_DROPPED from the iteration if the reader is too slow
   */
  subscribe(request?: EventsRequest, signal?: AbortSignal): Promise<AsyncIterable<MasterEvent>>;
  /** Publishes an event without waiting for subscribers. */
  fire(tag: string, data: WireMap): Promise<void>;
  /** Returns the latest events that minions sent and the policy rejected. */
  denials(): Promise<readonly Denial[]>;
}

/** Options for deriving a policy from the recorded decisions. */
interface LearnRequest {
  /**
   * Start of the period, in milliseconds since 1970. Requests before it are ignored. Default: all
   * recorded requests.
   */
  readonly since?: number;
  /**
   * Whether the derived rules contain `${minion.id}` instead of the id of the sender in tags.
   * Default: false.
   */
  readonly generalise?: boolean;
}

/** Rules to test against recorded decisions. */
interface ReplayRequest {
  /**
   * The complete rule set, including the rules that `peer`, `mine_get` and similar options produce.
   */
  readonly rules: readonly PolicyRule[];
  /**
   * Start of the period, in milliseconds since 1970. Decisions before it are ignored. Default: all
   * recorded decisions.
   */
  readonly since?: number;
}

/** Methods that explain, test and reload the master's access policy. */
export interface AclApi {
  /**
   * Returns the decision of the current policy about a request, and the reason. The request is not
   * performed and does not count towards rate limits.
   * @throws MasterError ERR_BAD_TGT
   */
  explain(request: ExplainRequest): Promise<Explanation>;
  /**
   * Returns the smallest set of additional rules that permits the recorded requests. Requests that
   * no rule can permit, and requests that a `deny` rule rejected, are listed separately. The rules
   * are not activated.
   */
  learn(request?: LearnRequest): Promise<LearnedPolicy>;
  /**
   * Returns the recorded decisions that would change if the given rules replaced the current
   * policy. The rules are not activated.
   * @throws PolicyError for invalid rules
   */
  replay(request: ReplayRequest): Promise<ReplayReport>;
  /**
   * Reloads the configuration and applies the options that a running master can change, including
   * the policy. Applies all changes or none.
   * @throws ConfigError, PolicyError if the configuration is invalid; the current configuration
   * then stays active. MasterError ERR_NOT_RELOADABLE
   */
  reload(): Promise<ReloadReport>;
  /** Deletes the recorded decisions, so that learning starts again. */
  forget(): Promise<void>;
}

/** Methods of the master's audit log. */
export interface AuditApi {
  /**
   * Waits until all records that were appended before the call are on disk.
   * @returns the sequence number and hash of the last record, or `null` if auditing is disabled
   */
  flush(): Promise<StoredHead | null>;
}

/** Configured reaction, with the number of its waiting and running runs. */
export interface ReactionInfo extends Reaction {
  /** Number of queued runs that have not started. */
  readonly waiting: number;
  /** Number of runs with a published job or a started runner. */
  readonly running: number;
}

/** Run of a reaction. */
export interface ReactionRun {
  /** Jid of the job or the runner. */
  readonly jid: string;
  readonly reaction: string;
  /** Tag of the event that triggered the run. */
  readonly tag: string;
  /** Minion that emitted the event. Absent if the master emitted it. */
  readonly sender?: string;
  readonly kind: 'run' | 'command' | 'runner' | 'wheel';
  readonly fun: string;
  readonly state: 'waiting' | 'running' | ReactionOutcome;
  /** Time at which the run was queued, in milliseconds since 1970. */
  readonly queuedAt: number;
  /**
   * Time at which the run ended, in milliseconds since 1970. Absent while the run is waiting or
   * running.
   */
  readonly endedAt?: number;
  /** Explanation of the outcome in English, for operators. */
  readonly reason?: string;
}

/** Selection of reaction runs. */
interface ReactionRunsRequest {
  /** Name of the reaction. Default: all. */
  readonly reaction?: string;
  /** Maximum number of runs. Default: 100. */
  readonly limit?: number;
}

/** Methods that list the configured reactions and their runs. */
export interface ReactionsApi {
  list(): Promise<readonly ReactionInfo[]>;
  /**
   * Returns the reaction with this name.
   * @throws MasterError ERR_REACTION_UNKNOWN
   */
  show(name: string): Promise<ReactionInfo>;
  /**
   * Returns the stored runs: first the unfinished ones, then the ended ones. Both are sorted from
   * the latest to the oldest.
   */
  runs(request?: ReactionRunsRequest): Promise<readonly ReactionRun[]>;
}

/** Request to compute the pillar of a minion. */
interface PillarQuestion {
  /** Id of the minion. The pillar is computed with the grains that the minion sent last. */
  readonly minion: string;
  /** Environment that the minion would request. Default: none. */
  readonly saltenv?: string;
  readonly pillarenv?: string;
}

/** A value in a minion's pillar, and the files that it comes from. */
export interface PillarExplanation {
  /** The value, or `null` if the pillar does not contain the key. */
  readonly value: WireValue;
  /** Whether the value depends on the minion's own grains. */
  readonly followsFromGrains: boolean;
  /** Files that contribute to the value, lowest precedence first. At most 200. */
  readonly files: readonly PillarOrigin[];
  /**
   * Number of further files that contribute to the value. They have lower precedence than the
   * listed files.
   */
  readonly omitted: number;
}

/** Methods that compute and explain the pillar of minions from the current files and sources. */
export interface PillarApi {
  show(question: PillarQuestion): Promise<FactMap>;
  /**
   * Returns a value of a pillar and the files that it comes from.
   * @param question - `key`: keys separated by `:`. Default: the whole pillar
   * @throws MasterError ERR_NOT_SERVED if a program, instead of files, supplies the pillar
   */
  explain(question: PillarQuestion & { readonly key?: string }): Promise<PillarExplanation>;
  /**
   * Returns the differences between the pillar that the minion received last and its current
   * pillar.
   */
  diff(question: PillarQuestion): Promise<readonly PillarDifference[]>;
  /**
   * Returns the number of pillars compiled from files, and the grains that they depend on.
   * @throws MasterError ERR_NOT_SERVED if a program, instead of files, supplies the pillar
   */
  inputs(): Promise<PillarInputs>;
}

/** Methods that run functions on the master: runners or wheel functions. */
interface FunctionsApi {
  /**
   * Runs a function and waits for its result. A failure of the function is a result, not an error.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS if the function cannot be run
   */
  run(call: FunctionCall): Promise<FunctionResult>;
  /**
   * Starts a function without waiting. The event `<tag>/ret` reports its result.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS. The function was not started
   */
  start(call: FunctionCall): Promise<StartedCall>;
  /**
   * Returns the documentation of the functions, by name.
   * @param prefix - name of a module or a function. Default: all functions
   */
  docs(prefix?: string): Promise<Readonly<Record<string, string>>>;
}

/** Methods of the master's persistent store. */
export interface StoreApi {
  /**
   * Creates a consistent backup of the store while the master runs. The backup is a file (mode
   * 0600). The file appears when the backup is complete. It contains neither the seal key nor the
   * PKI directory.
   * @param target - absolute path in the file system of the master's process: a new file, or an
   * existing directory, in which the file is named after the current time
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL; MasterError ERR_ARGS
   */
  backup(target: string): Promise<BackupReceipt>;
}

/** Operations of a logged-in user. The policy decides on each call. */
export interface UserApi {
  /**
   * The methods of {@link JobsApi}. The target of a job is replaced by the list of minions that it
   * certainly matches. Users without full rights can follow only jobs whose ids end with
   * {@link MasterDescription.ownJobs}.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN. A call that throws
   * one of these errors had no effect
   */
  readonly jobs: Pick<JobsApi, 'publish' | 'run' | 'batch' | 'follow'>;
  /**
   * Runners that the user may call.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   */
  readonly runners: Pick<FunctionsApi, 'run' | 'start'>;
  /**
   * Wheel functions that the user may call.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   */
  readonly wheel: Pick<FunctionsApi, 'run' | 'start'>;
  /**
   * Returns whether the user may run a function without arguments, or read events of a tag. The
   * check has no effect and is not audited.
   * @param name - name of the function, or the tag
   * @throws AuthenticationError ERR_EAUTH_TOKEN
   */
  permits(action: 'runner' | 'wheel' | 'subscribe', name: string): Promise<boolean>;
  readonly events: UserEventsApi;
  /**
   * Creates keys. Requires the right to call the wheel function `key.gen_accept` with the argument
   * `id_`.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   */
  readonly keys: Pick<KeysApi, 'create'>;
  /**
   * Resolves if the user has full rights: they may publish any job to any minion, and call every
   * runner and wheel function, without conditions. Both outcomes are audited.
   * @param what - purpose of the check, for the audit log
   * @returns the user, for later audit records
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   * @internal
   */
  requireFullRights(what: string): Promise<AuditRequester>;
  /**
   * Describes this master for a client that uses several masters. The call is not audited.
   * @throws AuthenticationError ERR_EAUTH_TOKEN
   * @internal
   */
  describeMaster(): Promise<MasterDescription>;
}

/** Description of a master for a client that uses several masters. */
export interface MasterDescription {
  /**
   * Identifier of the cluster's log. All members store their jobs in this log. Absent if the master
   * does not belong to a cluster.
   */
  readonly jobs?: string;
  /** Whether the master accepts jobs, key changes and log-ins. */
  readonly isReady: boolean;
  /** Whether the user has full rights and can therefore look up any job. */
  readonly hasFullRights: boolean;
  /**
   * Suffix of the job ids that this user may choose and look up. It is unique to the user. Absent
   * for users with full rights, who may use any id.
   */
  readonly ownJobs?: string;
}

/** Methods with which a user subscribes to events and publishes events. */
interface UserEventsApi {
  /**
   * Subscribes to events. Users who may publish everything receive all events. Other users receive
   * the events of the jobs and calls that they started. They also receive events with tags for
   * which a rule permits the action `subscribe`. The subscription is active when the promise
   * resolves, and ends when the token ends.
   * @throws AuthenticationError ERR_EAUTH_TOKEN; from the iteration MasterError ERR_READER_DROPPED
   */
  subscribe(request?: EventsRequest, signal?: AbortSignal): Promise<AsyncIterable<MasterEvent>>;
  /**
   * Subscribes like {@link subscribe}, but returns the events in batches, for servers with many
   * readers. Each batch contains all pending events and is never empty.
   */
  subscribeBatches(
    request?: EventsRequest,
    signal?: AbortSignal,
  ): Promise<AsyncIterable<readonly MasterEvent[]>>;
  /**
   * Publishes an event. Requires the right to run the runner `event.send` with the event's tag as
   * argument.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   */
  fire(tag: string, data: WireMap): Promise<void>;
}

/** Methods that log users in with the backends of `external_auth`, and manage their tokens. */
interface LoginsApi {
  /**
   * Verifies the credentials of a user and creates a token.
   * @throws AuthenticationError ERR_EAUTH (after at least 250 ms), ERR_EAUTH_LIMIT,
   * ERR_EAUTH_UNAVAILABLE
   */
  login(request: LoginRequest): Promise<Login>;
  /**
   * Returns the owner of a token.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  identify(token: string): Promise<TokenInfo>;
  /**
   * Revokes a token immediately.
   * @returns whether the token was valid
   */
  logout(token: string): Promise<boolean>;
  /** Returns the valid tokens. */
  list(): Promise<readonly TokenInfo[]>;
  /**
   * Revokes the selected tokens immediately.
   * @returns the revoked tokens
   */
  revoke(selection: TokenSelection): Promise<readonly TokenInfo[]>;
  /**
   * Yields the owner of a token once. The iteration ends when the token ends: immediately after a
   * log-out, and within a minute after the user was disabled.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  follow(token: string, signal?: AbortSignal): AsyncIterable<TokenInfo>;
}

/** Complete interface of a running master. */
export interface MasterApi {
  readonly keys: KeysApi;
  readonly jobs: JobsApi;
  readonly events: EventsApi;
  readonly acl: AclApi;
  readonly audit: AuditApi;
  readonly logins: LoginsApi;
  /** Returns the interface with the rights of a token's owner. Each call verifies the token. */
  asUser(token: string): UserApi;
  readonly reactions: ReactionsApi;
  readonly pillar: PillarApi;
  /**
   * Returns the minions that appear to be subscribed to publications, with the evidence for each.
   */
  presence(): Promise<readonly PresentMinion[]>;
  /** Returns all minions with an accepted key, in the order of the list of keys. */
  minions(): Promise<readonly MinionInfo[]>;
  /** Salt's runners: `jobs.list_jobs`, `manage.up`, … */
  readonly runners: FunctionsApi;
  /** Salt's wheel functions: `key.list_all`, `config.values`, … */
  readonly wheel: FunctionsApi;
  readonly store: StoreApi;
  readonly cluster: ClusterApi;
  status(): Promise<MasterStatus>;
  /** Returns counters and timings since the start. docs/metrics.md lists the names. */
  metrics(): Promise<readonly MetricFamily[]>;
}

/**
 * Interface of a running master for code in the same process. A caller can state on whose behalf it
 * makes a call.
 */
export interface InProcessApi extends MasterApi {
  readonly keys: Pick<KeysApi, 'local'> & WithRequester<Omit<KeysApi, 'local'>>;
  readonly jobs: InProcessJobsApi;
  readonly events: Omit<EventsApi, 'fire'> & WithRequester<Pick<EventsApi, 'fire'>>;
  readonly acl: Omit<AclApi, 'forget' | 'reload'> &
    WithRequester<Pick<AclApi, 'forget' | 'reload'>>;
  readonly logins: Omit<LoginsApi, 'revoke'> & WithRequester<Pick<LoginsApi, 'revoke'>>;
  readonly cluster: Pick<ClusterApi, 'status'> & WithRequester<Omit<ClusterApi, 'status'>>;
  readonly runners: InProcessFunctionsApi;
  readonly wheel: InProcessFunctionsApi;
}

/** Job methods for code in the master's process. A request can state the origin of the job. */
export interface InProcessJobsApi extends JobsApi {
  publish(request: PublishRequest & JobOrigin): Promise<JobReceipt>;
  run(request: RunRequest & JobOrigin, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  batch(request: BatchRequest & JobOrigin, signal?: AbortSignal): AsyncIterable<BatchUpdate>;
  /** @param by - requester that follows the job. Default: the operator */
  follow(jid: string, signal?: AbortSignal, by?: AuditRequester): AsyncIterable<JobUpdate>;
}

/**
 * Methods that run runners or wheel functions, for code in the master's process. A caller can state
 * on whose behalf it makes a call.
 */
export interface InProcessFunctionsApi extends FunctionsApi {
  run(call: FunctionCall & CallOrigin): Promise<FunctionResult>;
  start(call: FunctionCall & CallOrigin): Promise<StartedCall>;
}

/** Jobs interface that checks the rights of the requester of a call. */
export type RequesterJobs = Pick<InProcessJobsApi, 'run'>;

/**
 * Checks that a requester may call a wheel function.
 * @throws AuthorizationError
 */
export type RequireWheel = (
  call: Required<Pick<FunctionCall, 'fun' | 'arg' | 'kwarg'>>,
) => Promise<void>;

/** Origin of a call of a runner or wheel function. */
export interface CallOrigin extends Requested {
  /**
   * Interface through which a runner starts a job whose function the requester has chosen. The
   * interface checks the requester's rights. If it is absent, only the operator can start such
   * jobs, not users and minions.
   */
  readonly requesterJobs?: RequesterJobs | undefined;
  /**
   * Checks the requester's right to a wheel function, before a runner has the same effect. If it is
   * absent, only the operator can call such runners, not users and minions.
   */
  readonly requireWheel?: RequireWheel | undefined;
}

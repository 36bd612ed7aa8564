/**
 * What a master does for a service or an operator. The library gives it in the process, the local
 * socket to commands on the same host: both are this one interface.
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
import type { PillarDifference, PillarOrigin } from './pillar.ts';
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

/** A minion with an accepted key, and whether it is there. */
export interface MinionInfo {
  readonly id: string;
  /** Whether it listens to publications, as far as that can be told. */
  readonly isPresent: boolean;
  /**
   * Present if it may be another minion that listens: fewer connections come from its address than
   * minions were heard from there.
   */
  readonly isUnsure?: true;
  /** Its last verified request, milliseconds since 1970. Absent: none since the start. */
  readonly heardAt?: number;
  /** True where it does not connect again by itself after a restart of the master. */
  readonly needsOwnRestart?: true;
}

/** A job whose minions have not all answered yet. */
export interface JobProgress {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** How many minions it was published to. */
  readonly minions: number;
  readonly answered: number;
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
}

/** The states of a minion's key, in Salt's order of listing. */
export type KeyState = 'accepted' | 'denied' | 'pending' | 'rejected';

/** A minion's key. */
export interface KeyInfo {
  readonly id: string;
  readonly state: KeyState;
  /** As Salt prints it: hex pairs joined by `:`, by `hash_type`. */
  readonly fingerprint: string;
  /** PEM text. */
  readonly publicKey: string;
  /** Highest protocol version that the id has proved; 0: none yet. */
  readonly protocol: number;
  /** Sign-ins with another key than this one since the start. */
  readonly conflicts: number;
  /** Accepted ids that differ from this one in case only, or in how letters are written. */
  readonly alike?: readonly string[];
  /** Other accepted ids that have the same key. */
  readonly sharedWith?: readonly string[];
  /** No new minion may have such an id (`minion_ids`). Absent: one may. */
  readonly isUnusual?: true;
  /** Whether the file of a key that is not accepted holds no RSA public key. Absent: it holds one. */
  readonly isInvalid?: true;
}

/** The master's own keys, by file name. */
interface LocalKeyInfo {
  readonly name: string;
  readonly fingerprint: string;
}

/** Which keys an operation is meant for. */
export interface KeySelection {
  /** A glob on ids. */
  readonly match: string;
  /** Only the key with this fingerprint. */
  readonly fingerprint?: string;
  /** States to look in beyond the operation's own (accept: pending; reject: pending; delete: all). */
  readonly include?: readonly KeyState[];
  /** Only keys in this state, whatever the operation's own are. */
  readonly state?: KeyState;
}

/** What an operation did to one key. */
export interface KeyChange {
  readonly id: string;
  readonly from: KeyState;
  /** `undefined`: deleted. */
  readonly to?: KeyState;
}

/** A transport that is served. */
export interface TransportStatus {
  /** Salt's name of it: `zeromq`, `tcp`, `ws`. */
  readonly transport: string;
  readonly requestPort: number;
  readonly publishPort: number;
  readonly subscribers: number;
}

/** How a master is doing. */
export interface MasterStatus {
  readonly id: string;
  readonly version: string;
  /** Process id. */
  readonly pid: number;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Of the first transport. */
  readonly requestPort: number;
  readonly publishPort: number;
  /** Every transport that is served. */
  readonly transports: readonly TransportStatus[];
  readonly subscribers: number;
  /** Whether the disk of the store is full: nothing new is kept, everything else goes on. */
  readonly storeFull: boolean;
  /** Whether the audit log cannot be written: records wait, then are lost and counted. */
  readonly auditFull: boolean;
  /** `learn`: minions may do what no rule permits. */
  readonly aclMode: 'enforce' | 'learn';
  readonly keys: Readonly<Record<KeyState, number>>;
  /** Requests refused, delayed or dropped since the start, by reason. */
  readonly counters: Readonly<Record<string, number>>;
  /** Of the cluster that the master is a member of; absent where it is of none. */
  readonly cluster?: ClusterStatus;
  /** What extensions measure, by their names: of `bridge` the outbox, enrolments and runs. */
  readonly extensions?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** A key that is to be made. */
interface NewKey {
  readonly id: string;
  /** 2048 to 8192. Default 2048. */
  readonly bits?: number;
  /** Delete the key that the id has. Default false. */
  readonly force?: boolean;
}

/** A key pair for a minion, PEM. */
interface CreatedKey {
  readonly privatePem: string;
  readonly publicPem: string;
}

/** Keys: who may sign in. */
export interface KeysApi {
  /** @param request with `state` only those. Default: all */
  list(request?: { readonly state?: KeyState }): Promise<readonly KeyInfo[]>;
  local(): Promise<readonly LocalKeyInfo[]>;
  /** @throws KeyError ERR_KEY_FINGERPRINT */
  accept(selection: KeySelection): Promise<readonly KeyChange[]>;
  /** @throws KeyError ERR_KEY_FINGERPRINT */
  reject(selection: KeySelection): Promise<readonly KeyChange[]>;
  delete(selection: KeySelection): Promise<readonly KeyChange[]>;
  /**
   * Makes a key pair for a minion and accepts it. The private key is told this once and kept nowhere.
   * @returns `null`: the id is accepted already and `force` is not set, so nothing has changed
   * @throws KeyError ERR_KEY_ID, ERR_KEY_STATE for a rejected key without `force`; MasterError
   * ERR_ARGS for a size of another kind
   */
  create(request: NewKey): Promise<CreatedKey | null>;
  /** Forgets the protocol version that an id has proved, so that a lower one is heard again. */
  unpin(id: string): Promise<void>;
}

/** A job that was published. With nobody to publish to, `minions` is empty and it was not. */
export interface JobReceipt {
  readonly jid: string;
  readonly minions: readonly string[];
  /** Names in the target that it was not published to. */
  readonly missing: readonly string[];
  /** Present if the caller's rights limited the target to minions that they name. */
  readonly isNarrowed?: true;
  /** Subscribers that were passed over because their queue was full. */
  readonly skipped: number;
  /** Why the target could not be read; nobody is meant then. */
  readonly problem?: string;
}

/** Jobs: what minions are asked to do. */
interface JobsApi {
  /**
   * Publishes a job and waits for nobody; its returns are kept (see {@link JobsApi.show}).
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  publish(request: PublishRequest): Promise<JobReceipt>;
  /**
   * Publishes a job and follows it to its end. Nothing is published before the first read.
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  run(request: RunRequest, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  /**
   * Runs on so many minions at a time. Nothing is published before the first read.
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  batch(request: BatchRequest, signal?: AbortSignal): AsyncIterable<BatchUpdate>;
  /**
   * Follows a job that was published before, also by an earlier master process, to its end: what
   * came back meanwhile comes first.
   * @throws MasterError ERR_JOB_UNKNOWN when none of this jid is kept
   */
  follow(jid: string, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  /** The jobs that are kept, the latest first. */
  list(request?: JobListRequest): Promise<readonly JobSummary[]>;
  /**
   * One job with what came back until now.
   * @throws MasterError ERR_JOB_UNKNOWN when none of this jid is kept
   */
  show(jid: string): Promise<JobReport>;
  /** The jobs that are followed, or were published a short while ago, the latest first. */
  active(): Promise<readonly JobProgress[]>;
  /** Who a target means, and why; nothing is published. @throws MasterError ERR_BAD_TGT */
  plan(request: TargetRequest): Promise<TargetPlan>;
}

/** Which events to follow. */
export interface EventsRequest {
  /** A glob on the tag, for instance `salt/job/*`; or several, any of which fits. Default: all. */
  readonly match?: string | readonly string[];
  /**
   * {@link MasterEvent.id} of the last one that was read: those that followed it come first, and
   * `saltbridge/events/missed` wherever some may be missing. Default: from now on.
   */
  readonly after?: string;
}

/** Events: what happens. */
export interface EventsApi {
  /**
   * Events from now on: the master listens when it resolves.
   * @throws from the iteration MasterError ERR_READER_DROPPED when read too slowly
   */
  subscribe(request?: EventsRequest, signal?: AbortSignal): Promise<AsyncIterable<MasterEvent>>;
  /** Fires an event; nobody is waited for. */
  fire(tag: string, data: WireMap): Promise<void>;
  /** The latest signals that minions were not permitted to emit. */
  denials(): Promise<readonly Denial[]>;
}

/** From when on, and how, to learn. */
interface LearnRequest {
  /** Milliseconds since 1970: what was asked for since then. Default: all that is recorded. */
  readonly since?: number;
  /** Put `${minion.id}` where a part of a tag is the sender's id. Default false. */
  readonly generalise?: boolean;
}

/** Rules to try. */
interface ReplayRequest {
  /** All of them: what `peer`, `mine_get` and the like make of a configuration too. */
  readonly rules: readonly PolicyRule[];
  /** Milliseconds since 1970. Default: all that is recorded. */
  readonly since?: number;
}

/** The policy: who may do what. */
export interface AclApi {
  /**
   * What the policy in force would decide, and why; nothing is done or used up.
   * @throws MasterError ERR_BAD_TGT
   */
  explain(request: ExplainRequest): Promise<Explanation>;
  /** The least policy that permits what no rule permitted until now. Nothing is put in force. */
  learn(request?: LearnRequest): Promise<LearnedPolicy>;
  /**
   * What rules would decide otherwise than was decided, in place of those in force. Nothing is
   * put in force.
   * @throws PolicyError for rules that cannot be used
   */
  replay(request: ReplayRequest): Promise<ReplayReport>;
  /**
   * Reads the configuration again and takes over what a running master can, the policy among it:
   * all of it or nothing.
   * @throws ConfigError, PolicyError: what was in force stays; MasterError ERR_NOT_RELOADABLE
   */
  reload(): Promise<ReloadReport>;
  /** Forgets the recorded decisions: what is learned begins anew. */
  forget(): Promise<void>;
}

/** The log of who did what. */
export interface AuditApi {
  /**
   * Resolves when all that was audited until now is on disk.
   * @returns the last record; `null` where nothing is audited
   */
  flush(): Promise<StoredHead | null>;
}

/** A reaction as it is configured, and how busy it is. */
export interface ReactionInfo extends Reaction {
  /** Runs in the queue that have not begun. */
  readonly waiting: number;
  /** Runs whose job has left, or whose runner was started. */
  readonly running: number;
}

/** A run of a reaction. */
export interface ReactionRun {
  /** Of the job or the runner. */
  readonly jid: string;
  readonly reaction: string;
  /** Tag of the event that it follows from. */
  readonly tag: string;
  /** The minion that emitted the event. Absent: the master itself. */
  readonly sender?: string;
  readonly kind: 'run' | 'command' | 'runner' | 'wheel';
  readonly fun: string;
  readonly state: 'waiting' | 'running' | ReactionOutcome;
  /** Milliseconds since 1970. */
  readonly queuedAt: number;
  /** Milliseconds since 1970. Absent: it is not over. */
  readonly endedAt?: number;
  /** Why, for a person. */
  readonly reason?: string;
}

/** Which runs of reactions. */
interface ReactionRunsRequest {
  /** Name of the reaction. Default: all. */
  readonly reaction?: string;
  /** Default 100. */
  readonly limit?: number;
}

/** Reactions: what follows from events. */
export interface ReactionsApi {
  list(): Promise<readonly ReactionInfo[]>;
  /** @throws MasterError ERR_REACTION_UNKNOWN */
  show(name: string): Promise<ReactionInfo>;
  /** Runs that are kept: those that are not over, then the latest. */
  runs(request?: ReactionRunsRequest): Promise<readonly ReactionRun[]>;
}

/** Whose pillar is asked about. */
interface PillarQuestion {
  /** A minion's id; its grains are those that it last sent. */
  readonly minion: string;
  /** As if the minion asked with them. Default: neither. */
  readonly saltenv?: string;
  readonly pillarenv?: string;
}

/** Where a value of a pillar comes from. */
export interface PillarExplanation {
  /** `null` also where there is none. */
  readonly value: WireValue;
  /** Whether it would be another without the minion's own grains. */
  readonly followsFromGrains: boolean;
  /** The files that give something there, the one that wins last; at most 200. */
  readonly files: readonly PillarOrigin[];
  /** How many more lie under them. */
  readonly omitted: number;
}

/** Minions' pillar as it would be now. */
export interface PillarApi {
  show(question: PillarQuestion): Promise<FactMap>;
  /**
   * @param question with `key`: keys with `:` between them; default all of the pillar
   * @throws MasterError ERR_NOT_SERVED where a program gives the pillar
   */
  explain(question: PillarQuestion & { readonly key?: string }): Promise<PillarExplanation>;
  /** What would change in the pillar that the minion last got. */
  diff(question: PillarQuestion): Promise<readonly PillarDifference[]>;
}

/** Functions that run on the master: runners, or wheel functions. */
interface FunctionsApi {
  /**
   * Runs one to its end. That it failed is a result, not an error.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS; nothing was run then
   */
  run(call: FunctionCall): Promise<FunctionResult>;
  /**
   * Starts one and waits for nothing; what it comes to is told by `<tag>/ret`.
   * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS; nothing was started then
   */
  start(call: FunctionCall): Promise<StartedCall>;
  /** What there is: name → text. @param prefix a module or a function. Default: all */
  docs(prefix?: string): Promise<Readonly<Record<string, string>>>;
}

/** The store: what must survive. */
export interface StoreApi {
  /**
   * Makes a backup of the store, as it is at one moment, while the master runs: a file (0600) that
   * appears whole or not at all. The seal key and the PKI directory are not in it.
   * @param target - a file that is not there, or a directory, where it is named by the time; the
   * whole path, as the master's process sees it
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL; MasterError ERR_ARGS
   */
  backup(target: string): Promise<BackupReceipt>;
}

/** What somebody who logged in may ask for; the policy decides each time. */
export interface UserApi {
  /**
   * As {@link JobsApi}; a job goes to the minions that its target means for certain, by name. Whoever
   * may not do everything follows jobs whose ids are bound to them, as clients of a cluster choose them.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN; nothing was done then
   */
  readonly jobs: Pick<JobsApi, 'publish' | 'run' | 'batch' | 'follow'>;
  /** @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN */
  readonly runners: Pick<FunctionsApi, 'run' | 'start'>;
  /** @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN */
  readonly wheel: Pick<FunctionsApi, 'run' | 'start'>;
  /**
   * Whether they may run a function without arguments, or read events of a tag; nothing is done,
   * and nothing audited.
   * @param name of the function, or the tag
   * @throws AuthenticationError ERR_EAUTH_TOKEN
   */
  permits(action: 'runner' | 'wheel' | 'subscribe', name: string): Promise<boolean>;
  readonly events: UserEventsApi;
  /**
   * For who may call the wheel function `key.gen_accept` with this `id_`.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   */
  readonly keys: Pick<KeysApi, 'create'>;
  /**
   * Resolves for who may do everything: publish what they like to whom they like, and call every
   * runner and wheel function, without a condition. Both answers are audited.
   * @param what for what it is asked, for the audit log
   * @returns who that is, for what is done then
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   * @internal
   */
  requireFullRights(what: string): Promise<AuditRequester>;
  /**
   * What a client that knows several masters asks of each; nothing of it is audited.
   * @throws AuthenticationError ERR_EAUTH_TOKEN
   * @internal
   */
  describeMaster(): Promise<MasterDescription>;
}

/** What a master says of itself to a client that knows several. */
export interface MasterDescription {
  /** Names where its jobs are kept: the log of its cluster. `undefined`: it is by itself. */
  readonly jobs?: string;
  /** Whether it takes jobs, key changes and log-ins. */
  readonly isReady: boolean;
  /** Whether this user may do everything, and so look up jobs. */
  readonly hasFullRights: boolean;
  /**
   * What job ids end with that this user may choose, and look up: those of nobody else do. Absent:
   * any, for who may do everything.
   */
  readonly ownJobs?: string;
}

/** Events as a user has them. */
interface UserEventsApi {
  /**
   * Events: all of them for who may publish everything; for others those of the jobs and calls
   * that they began, and the tags that a rule lets them `subscribe`. Listens when it resolves;
   * ends with the token.
   * @throws AuthenticationError ERR_EAUTH_TOKEN; from the iteration MasterError ERR_READER_DROPPED
   */
  subscribe(request?: EventsRequest, signal?: AbortSignal): Promise<AsyncIterable<MasterEvent>>;
  /** The same, all that wait at once: for who hands them on to many readers. Never an empty list. */
  subscribeBatches(
    request?: EventsRequest,
    signal?: AbortSignal,
  ): Promise<AsyncIterable<readonly MasterEvent[]>>;
  /**
   * Fires an event, for who may run the runner `event.send` with this tag.
   * @throws AuthorizationError ERR_DENIED, AuthenticationError ERR_EAUTH_TOKEN
   */
  fire(tag: string, data: WireMap): Promise<void>;
}

/** Log-ins of users, by what `external_auth` names. */
interface LoginsApi {
  /**
   * Makes a token for whoever the credentials belong to.
   * @throws AuthenticationError ERR_EAUTH (not before a quarter of a second), ERR_EAUTH_LIMIT,
   * ERR_EAUTH_UNAVAILABLE
   */
  login(request: LoginRequest): Promise<Login>;
  /** Whom a token belongs to. @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE */
  identify(token: string): Promise<TokenInfo>;
  /** Ends a token at once. @returns whether it was valid */
  logout(token: string): Promise<boolean>;
  /** The tokens that are valid. */
  list(): Promise<readonly TokenInfo[]>;
  /** Ends tokens at once, for everybody. @returns those that it ended */
  revoke(selection: TokenSelection): Promise<readonly TokenInfo[]>;
  /**
   * Whom a token belongs to, once; the iteration is over when the token is: at once after a
   * log-out, within a minute after its user was disabled.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  follow(token: string, signal?: AbortSignal): AsyncIterable<TokenInfo>;
}

/** Everything that a running master offers. */
export interface MasterApi {
  readonly keys: KeysApi;
  readonly jobs: JobsApi;
  readonly events: EventsApi;
  readonly acl: AclApi;
  readonly audit: AuditApi;
  readonly logins: LoginsApi;
  /** The interface as the owner of a token has it. The token is looked at by each call. */
  asUser(token: string): UserApi;
  readonly reactions: ReactionsApi;
  readonly pillar: PillarApi;
  /** The minions that listen to publications now, and how that is known. */
  presence(): Promise<readonly PresentMinion[]>;
  /** Every minion with an accepted key, in the order of their keys. */
  minions(): Promise<readonly MinionInfo[]>;
  /** Salt's runners: `jobs.list_jobs`, `manage.up`, … */
  readonly runners: FunctionsApi;
  /** Salt's wheel functions: `key.list_all`, `config.values`, … */
  readonly wheel: FunctionsApi;
  readonly store: StoreApi;
  readonly cluster: ClusterApi;
  status(): Promise<MasterStatus>;
  /** What was counted and timed since the start; docs/metrics.md has the names. */
  metrics(): Promise<readonly MetricFamily[]>;
}

/** The interface in the process of the master, where a call may name who asked for it. */
export interface InProcessApi extends MasterApi {
  readonly keys: Pick<KeysApi, 'list' | 'local'> & WithRequester<Omit<KeysApi, 'list' | 'local'>>;
  readonly jobs: InProcessJobsApi;
  readonly events: Omit<EventsApi, 'fire'> & WithRequester<Pick<EventsApi, 'fire'>>;
  readonly acl: Omit<AclApi, 'forget' | 'reload'> &
    WithRequester<Pick<AclApi, 'forget' | 'reload'>>;
  readonly logins: Omit<LoginsApi, 'revoke'> & WithRequester<Pick<LoginsApi, 'revoke'>>;
  readonly cluster: Pick<ClusterApi, 'status'> & WithRequester<Omit<ClusterApi, 'status'>>;
  readonly runners: InProcessFunctionsApi;
  readonly wheel: InProcessFunctionsApi;
}

/** Jobs, with their origin. */
export interface InProcessJobsApi extends JobsApi {
  publish(request: PublishRequest & JobOrigin): Promise<JobReceipt>;
  run(request: RunRequest & JobOrigin, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  batch(request: BatchRequest & JobOrigin, signal?: AbortSignal): AsyncIterable<BatchUpdate>;
}

/** Functions that run on the master, for whoever asked. */
export interface InProcessFunctionsApi extends FunctionsApi {
  run(call: FunctionCall & Requested): Promise<FunctionResult>;
  start(call: FunctionCall & Requested): Promise<StartedCall>;
}

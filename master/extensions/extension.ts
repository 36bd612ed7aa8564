/**
 * The extension interface. Through it, Salt's services, the bridge and programs add to a master:
 * stored state, request types, runners, pillar, files, methods of the local socket and routes.
 */

import type { Logger } from 'pino';
import type { Decision, Policy, Question, Subject } from '#acl';
import type { FixedConfig, MasterConfig, ReloadableConfig } from '#config';
import type { WireMap } from '#minion-protocol';
import type {
  AddressedMinions,
  ExtPillar,
  FileServerBackend,
  JobUpdate,
  MasterApi,
  MetricFamily,
  MinionRunners,
  NamedCommands,
  RpcTable,
  TargetRequest,
  TopsProvider,
} from '../api/index.ts';
import type { AuditTrail } from '../audit/index.ts';
import type { KeyAcceptanceHook, KeyLifecycle } from '../auth/index.ts';
import type { CallGate } from '../context/index.ts';
import type { InsteadOf, MasterFunction } from '../functions/index.ts';
import type { FollowOptions, ReturnRedaction } from '../jobs/index.ts';
import type { RequestTypes, SignalIntake } from '../requests/index.ts';
import type { TargetBounds } from '../users/index.ts';
import type { HttpRoutes } from './http-routes.ts';
import type { ServiceKey } from './services.ts';
import type { SharedArea, StateArea } from './state-area.ts';

/** Extension that is opened and closed with a master. */
export interface MasterExtension {
  /** Unique name: lower-case letters, digits and `-`. */
  readonly name: string;
  /**
   * Namespace of its stored rows, events and methods. Extensions that explicitly set the same
   * namespace share it. Default: `name`.
   */
  readonly namespace?: string;
  /** Names of required extensions. They are opened before this one. */
  readonly requires?: readonly string[];
  /** Names of optional extensions that are opened before this one if they are present. */
  readonly after?: readonly string[];
  /** Extensions that are added together with this one. */
  readonly parts?: readonly MasterExtension[];
  /** Opens the extension before any minion is served. An error aborts the start of the master. */
  open(host: ExtensionHost): Promise<OpenExtension>;
}

/** Subject of a token, valid until the token ends. */
interface TokenHolder {
  readonly subject: Subject;
  /** The subject's current policy. Evaluate it with {@link ExtensionHost.decide}. */
  readonly policy: Policy;
  /** Fires when the token ends. */
  readonly ended: AbortSignal;
  /** Releases the holder. */
  stop(): void;
}

/** Finds the subject of a token. The master provides it; see `masterServices.tokenHolders`. */
export interface TokenHolders {
  /**
   * Returns a holder for a token.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  hold(token: string): Promise<TokenHolder>;
}

/** Services of the master for one extension. */
export interface ExtensionHost {
  /** Options that a reload does not change. */
  readonly config: FixedConfig;
  /** Returns the options that a reload replaces, with their current values. */
  reloadable(): ReloadableConfig;
  /**
   * Registers a check of the next `saltbridge: bridge:` section, which runs before each reload.
   * @param prepare returns a function that activates the section; an error rejects the whole reload
   */
  beforeReload(prepare: (bridge: MasterConfig['bridge']) => () => void): void;
  /**
   * Provides a service to other extensions and to the master.
   * @throws MasterError ERR_EXTENSION_CONFLICT if another module provides it
   */
  provide<T extends object>(key: ServiceKey<T>, service: T): void;
  /**
   * Returns a service.
   * @throws MasterError ERR_EXTENSION_MISSING if no module provides it
   */
  use<T extends object>(key: ServiceKey<T>): T;
  /** Returns a service, or `undefined` if no module provides it. */
  find<T extends object>(key: ServiceKey<T>): T | undefined;
  /**
   * Wraps a service for all modules that use it afterwards.
   * @throws MasterError ERR_EXTENSION_CONFLICT if another module has already used it
   */
  decorate<T extends object>(key: ServiceKey<T>, wrap: (inner: T) => T): void;
  /**
   * Returns the master's interface.
   * @throws MasterError ERR_MASTER_STOPPED before {@link OpenExtension.start}
   */
  readonly master: () => MasterApi;
  /**
   * Counts the calls in progress at a cluster member.
   * @internal
   */
  readonly calls?: CallGate | undefined;
  /** Returns the current policy. */
  policy(): Policy;
  /**
   * Evaluates a question. A denial is written to the audit log.
   * @param policy default: the current policy
   */
  decide(question: Question, policy?: Policy): Decision;
  /** Resolves a target to the ids that it matches with certainty. @throws MasterError ERR_BAD_TGT */
  resolveTarget(target: TargetRequest, bounds?: TargetBounds): Promise<AddressedMinions>;
  /** Returns whether an operator's compound target certainly matches all of these minions. */
  isWithin(minions: readonly string[], target: string): boolean;
  /**
   * Follows a published job to its end, beginning with the stored returns. The job may belong to an
   * earlier master process.
   * @throws MasterError ERR_JOB_UNKNOWN
   */
  resumeJob(jid: string, options?: FollowOptions): AsyncIterable<JobUpdate>;
  /**
   * Returns the subject of a token, using `masterServices.tokenHolders` with its wrappers.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  holdToken(token: string): Promise<TokenHolder>;
  /**
   * Checks that this master is not a stale member of a cluster.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE
   */
  requireCurrent(): void;
  /** Returns an unused job id. */
  freshJid(): Promise<string>;
  /**
   * Returns whether this master or any member of its cluster can reach the minion. A minion that
   * has not responded recently is sent `test.ping` and has `gather_job_timeout` to respond.
   */
  isReachable(minion: string): Promise<boolean>;
  /** Rows of this master only, even in a cluster. */
  readonly state: StateArea;
  /**
   * Rows shared by all members of the cluster. Without a cluster they are those of {@link state}.
   */
  readonly shared: SharedArea;
  readonly admission: KeyLifecycle;
  readonly audit: AuditTrail;
  /** Publishes an event `saltbridge/<namespace>/<tag>`. */
  fire(tag: string, data: WireMap): void;
  readonly logger: Logger;
  /** Clock, in milliseconds since 1970. */
  readonly now: () => number;
  /** Fires when the master begins to close, before {@link OpenExtension.close}. */
  readonly closing: AbortSignal;
}

/**
 * Open extension. Names of request types, runners, methods, routes and metrics belong to one
 * extension each. If two extensions use the same name, the start fails with ERR_EXTENSION_CONFLICT.
 */
export interface OpenExtension {
  /** Request types by `cmd`, created by `defineRequestType`. */
  readonly requests?: RequestTypes;
  /** Runners by name (`module.function`). */
  readonly runners?: Readonly<Record<string, MasterFunction>>;
  /** Wheel functions by name (`module.function`). */
  readonly wheel?: Readonly<Record<string, MasterFunction>>;
  /** Advice for runners and wheel functions that are not served. */
  readonly insteadOf?: InsteadOf;
  /** Runners that only minions can call. The policy decides on each call (action `runner`). */
  readonly minionRunners?: MinionRunners;
  readonly intake?: SignalIntake;
  /** Removes secrets from a minion's return before it is stored and published. */
  readonly redactReturn?: ReturnRedaction;
  /** Pillar data that overrides that of the files and of earlier extensions. */
  readonly pillar?: ExtPillar;
  /** Files for minions. The file server asks the configured backends first. */
  readonly files?: FileServerBackend;
  /** State files in addition to those of the top file. Only one extension may supply them. */
  readonly tops?: TopsProvider;
  /** Decides on the keys of minions. The strictest decision of all extensions applies. */
  readonly advice?: KeyAcceptanceHook;
  /**
   * Called when the accepted key of an id was deleted, rejected or replaced, even if no master was
   * running. It may be called again after a crash.
   */
  onKeyLost?(id: string): Promise<void>;
  /** Named commands for reactions. Only one extension may supply them. */
  readonly commands?: NamedCommands;
  /** Methods of the local socket, called as `<namespace>.<name>`. */
  readonly rpc?: RpcTable;
  /** Returns the current metrics. The master calls it for each request of metrics or status. */
  metrics?(): readonly MetricFamily[];
  /** Routes for the program's HTTP server. */
  readonly routes?: readonly HttpRoutes[];
  /**
   * Starts the work of the extension. The ports are bound and the master's interface is available,
   * but the local socket is not open yet. An error aborts the start of the master.
   */
  start?(): void | Promise<void>;
  /** Waits for work in progress, then closes. Extensions are closed in reverse order. */
  close?(): Promise<void>;
}

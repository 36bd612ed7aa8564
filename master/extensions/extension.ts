/**
 * The extension interface. Salt's services, the bridge and programs use it to add features to a
 * master: stored state, request types, runners, pillar, files, methods of the local socket and
 * routes.
 */

import type { Logger } from 'pino';
import type { Decision, Policy, Question, Subject } from '#acl';
import type { FixedConfig, MasterConfig, ReloadableConfig } from '#config';
import type { WireMap } from '#minion-protocol';
import type {
  AddressedMinions,
  ExtPillar,
  FileServerBackend,
  JobReturn,
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
import type { KeyAcceptanceHook, KeyLifecycle, KeyLoss } from '../auth/index.ts';
import type { CallGate } from '../context/index.ts';
import type { InsteadOf, MasterFunction } from '../functions/index.ts';
import type { FollowOptions, ReturnRedaction } from '../jobs/index.ts';
import type { RequestTypes, SignalIntake } from '../requests/index.ts';
import type { TargetBounds } from '../users/index.ts';
import type { HttpRoutes } from './http-routes.ts';
import type { ServiceKey } from './services.ts';
import type { SharedArea, StateArea, StateOperation } from './state-area.ts';

/** Extension that is opened and closed with a master. */
export interface MasterExtension {
  /** Unique name: lower-case letters, digits and `-`. */
  readonly name: string;
  /**
   * Namespace of the extension's stored rows, events and methods. Extensions share a namespace if
   * they set the same one explicitly. Default: `name`.
   */
  readonly namespace?: string;
  /** Names of required extensions. They are opened before this one. */
  readonly requires?: readonly string[];
  /** Names of optional extensions that are opened before this one if they are present. */
  readonly after?: readonly string[];
  /** Further extensions that are added whenever this one is added. */
  readonly parts?: readonly MasterExtension[];
  /**
   * Opens the extension before the master serves minions. If the returned promise rejects, the
   * start of the master fails.
   */
  open(host: ExtensionHost): Promise<OpenExtension>;
}

/**
 * Subject to which a token belongs, with the policy of this subject. Valid until the token ends.
 */
export interface TokenHolder {
  readonly subject: Subject;
  /** The subject's current policy. Evaluate it with {@link ExtensionHost.decide}. */
  readonly policy: Policy;
  /** Aborted when the token ends. */
  readonly ended: AbortSignal;
  /** Stops watching the token. */
  stop(): void;
}

/**
 * Finds the subject of a token. The master provides this service as `masterServices.tokenHolders`.
 */
export interface TokenHolders {
  /**
   * Returns the subject of a token, and watches the token until {@link TokenHolder.stop}.
   * @param address - address of the client that sent the token, if known. Clients with different
   * addresses take turns if tokens have to be validated by another service
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  hold(token: string, address?: string): Promise<TokenHolder>;
}

/** Services of the master for one extension. */
export interface ExtensionHost {
  /** Options that can only change with a restart of the master. */
  readonly config: FixedConfig;
  /** Returns the current values of the options that a reload can change. */
  reloadable(): ReloadableConfig;
  /**
   * Registers a check that runs before each reload, with the new section `saltbridge: bridge:`.
   * @param prepare - checks the section and returns a function that activates it. If `prepare`
   * throws, the whole reload is rejected
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
   * Wraps a service. All modules that use the service afterwards get the wrapped one.
   * @throws MasterError ERR_EXTENSION_MISSING if no module provides the service;
   * ERR_EXTENSION_CONFLICT if another module has already used it
   */
  decorate<T extends object>(key: ServiceKey<T>, wrap: (inner: T) => T): void;
  /**
   * Returns the master's interface.
   * @throws MasterError ERR_MASTER_STOPPED before {@link OpenExtension.start}
   */
  readonly master: () => MasterApi;
  /**
   * Counts the calls in progress at this cluster member. `undefined` outside a cluster. @internal
   */
  readonly calls?: CallGate | undefined;
  /** Returns the current policy. */
  policy(): Policy;
  /**
   * Decides about a request with the policy. A denial is written to the audit log.
   * @param policy - default: the current policy
   */
  decide(question: Question, policy?: Policy): Decision;
  /**
   * Returns the ids of the minions that certainly match a target.
   * @throws MasterError ERR_BAD_TGT
   */
  resolveTarget(target: TargetRequest, bounds?: TargetBounds): Promise<AddressedMinions>;
  /**
   * Whether a compound target that an operator has configured certainly matches all of these
   * minions.
   */
  isWithin(minions: readonly string[], target: string): boolean;
  /**
   * Iterates over the updates of a published job until the job ends. The stored returns come first.
   * The job may belong to an earlier master process.
   * @throws MasterError ERR_JOB_UNKNOWN
   */
  resumeJob(jid: string, options?: FollowOptions): AsyncIterable<JobUpdate>;
  /**
   * Returns the subject of a token. It uses `masterServices.tokenHolders`, including the wrappers
   * of extensions.
   * @param address - address of the client that sent the token, if known
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  holdToken(token: string, address?: string): Promise<TokenHolder>;
  /**
   * Throws if this master is a cluster member whose data may be out of date.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE
   */
  requireCurrent(): void;
  /** Returns an unused job id. */
  freshJid(): Promise<string>;
  /**
   * Returns whether this master or another member of its cluster can reach the minion. If the
   * minion has not responded recently, the master sends `test.ping` to it. The minion must then
   * respond within `gather_job_timeout`.
   */
  isReachable(minion: string): Promise<boolean>;
  /** Stored rows of this extension that only this master uses, even in a cluster. */
  readonly state: StateArea;
  /**
   * Stored rows of this extension that all members of the cluster share. Without a cluster, they
   * are the rows of {@link state}.
   */
  readonly shared: SharedArea;
  readonly admission: KeyLifecycle;
  readonly audit: AuditTrail;
  /**
   * Publishes an event with the tag `saltbridge/<namespace>/<tag>`.
   * @param owner - who has caused the event, for example a site. Reactions to the event count for
   * this owner. Default: the master
   */
  fire(tag: string, data: WireMap, owner?: string): void;
  readonly logger: Logger;
  /** Clock: returns the time in milliseconds since 1970. */
  readonly now: () => number;
  /** Aborted when the master begins to close, before {@link OpenExtension.close} is called. */
  readonly closing: AbortSignal;
}

/**
 * Extension that was opened. Each name of a request type, runner, method, route or metric belongs
 * to one extension. If two extensions use the same name, the start fails with
 * ERR_EXTENSION_CONFLICT.
 */
export interface OpenExtension {
  /** Request types by `cmd`. Create them with `defineRequestType`. */
  readonly requests?: RequestTypes;
  /** Runners by name (`module.function`). */
  readonly runners?: Readonly<Record<string, MasterFunction>>;
  /** Wheel functions by name (`module.function`). */
  readonly wheel?: Readonly<Record<string, MasterFunction>>;
  /**
   * Function that returns advice for callers of runners and wheel functions of Salt that saltbridge
   * does not support.
   */
  readonly insteadOf?: InsteadOf;
  /** Runners that only minions can call. The policy decides on each call (action `runner`). */
  readonly minionRunners?: MinionRunners;
  readonly intake?: SignalIntake;
  /**
   * Function that removes secrets from a minion's return before the return is stored and published.
   */
  readonly redactReturn?: ReturnRedaction;
  /**
   * Returns operations on {@link ExtensionHost.shared} for a return that a minion sent. The master
   * writes them in the same transaction as the return.
   * @internal
   */
  returnRows?(jid: string, result: JobReturn): readonly StateOperation[];
  /** Pillar data for minions. It overrides data from pillar files and from earlier extensions. */
  readonly pillar?: ExtPillar;
  /** File backend for minions. The file server queries it after the configured backends. */
  readonly files?: FileServerBackend;
  /**
   * State files for the highstate, in addition to the top file. Only one extension may provide
   * them.
   */
  readonly tops?: TopsProvider;
  /**
   * Function that decides about keys that minions offer. If several extensions decide, `deny` takes
   * precedence over `accept`, and `accept` over `wait`.
   */
  readonly advice?: KeyAcceptanceHook;
  /**
   * Called after the accepted key of an id has been deleted, rejected or replaced. If this happened
   * while the master was not running, the master calls the function at its next start. After a
   * crash, it may call the function again.
   */
  onKeyLost?(id: string, where: KeyLoss): Promise<void>;
  /** Named commands that reactions can call. Only one extension may provide them. */
  readonly commands?: NamedCommands;
  /** Methods of the local socket, called as `<namespace>.<name>`. */
  readonly rpc?: RpcTable;
  /**
   * Returns the current metrics of the extension. The master calls it for each request of metrics
   * or status.
   */
  metrics?(): readonly MetricFamily[];
  /** Routes for the HTTP server of the master. */
  readonly routes?: readonly HttpRoutes[];
  /**
   * Starts the work of the extension. The ports are bound and the master's interface is available,
   * but the local socket is not open yet. If this method throws or its promise rejects, the start
   * of the master fails.
   */
  start?(): void | Promise<void>;
  /**
   * Waits for work in progress, then closes the extension. Extensions are closed in reverse order
   * of opening.
   */
  close?(): Promise<void>;
}

/**
 * The extension interface. Salt's services, the bridge and programs add to a master through it:
 * state of their own, request types, runners, pillar, files, methods of the local socket, routes.
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

/** Something that is opened and closed with a master. */
export interface MasterExtension {
  /** Lower-case letters, digits and `-`. Each extension of a master has another name. */
  readonly name: string;
  /**
   * Name of its rows in the store, of its events and of its methods. Extensions that all set the
   * same namespace share it. Default: `name`.
   */
  readonly namespace?: string;
  /** Names of extensions that must be present. They are opened before this one. */
  readonly requires?: readonly string[];
  /** Names of extensions that are opened before this one where they are present. */
  readonly after?: readonly string[];
  /** Extensions that join the master together with this one. */
  readonly parts?: readonly MasterExtension[];
  /** Opens it before any minion is served. An error ends the master's start. */
  open(host: ExtensionHost): Promise<OpenExtension>;
}

/** The subject of a token, for as long as the token is valid. */
interface TokenHolder {
  readonly subject: Subject;
  /** The subject's current policy. Evaluate it with {@link ExtensionHost.decide}. */
  readonly policy: Policy;
  /** Fires when the token ends. */
  readonly ended: AbortSignal;
  /** Ends the use of the token. */
  stop(): void;
}

/** Finds the subject of a token. The master provides it; see `masterServices.tokenHolders`. */
export interface TokenHolders {
  /** @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE */
  hold(token: string): Promise<TokenHolder>;
}

/** Services of the master for one extension. */
export interface ExtensionHost {
  /** The options that a reload does not change. */
  readonly config: FixedConfig;
  /** Returns the options that a reload replaces, with their current values. */
  reloadable(): ReloadableConfig;
  /**
   * Registers a check of the next `saltbridge: bridge:` section. It runs before each reload.
   * @param prepare - returns a function that puts the section in force; an error of it refuses the
   * whole reload
   */
  beforeReload(prepare: (bridge: MasterConfig['bridge']) => () => void): void;
  /**
   * Provides a service to other extensions and to the master.
   * @throws MasterError ERR_EXTENSION_CONFLICT where another module provides it
   */
  provide<T extends object>(key: ServiceKey<T>, service: T): void;
  /** Returns a service. @throws MasterError ERR_EXTENSION_MISSING where no module provides it */
  use<T extends object>(key: ServiceKey<T>): T;
  /** Returns a service, or `undefined` where no module provides it. */
  find<T extends object>(key: ServiceKey<T>): T | undefined;
  /**
   * Puts a wrapper around a service, for all modules that use it afterwards.
   * @throws MasterError ERR_EXTENSION_CONFLICT where another module has used it before
   */
  decorate<T extends object>(key: ServiceKey<T>, wrap: (inner: T) => T): void;
  /** @throws MasterError ERR_MASTER_STOPPED before {@link OpenExtension.start} */
  readonly master: () => MasterApi;
  /** Counts the calls that are under way at a member of a cluster. @internal */
  readonly calls?: CallGate | undefined;
  /** Returns the current policy. */
  policy(): Policy;
  /**
   * Decides a question. A denial is written to the audit log.
   * @param policy - default: the current one
   */
  decide(question: Question, policy?: Policy): Decision;
  /** Resolves a target to the ids that it matches with certainty. @throws MasterError ERR_BAD_TGT */
  resolveTarget(target: TargetRequest, bounds?: TargetBounds): Promise<AddressedMinions>;
  /** Whether a compound target of an operator matches all of these minions with certainty. */
  isWithin(minions: readonly string[], target: string): boolean;
  /**
   * Follows a published job to its end, beginning with the returns that are stored. The job may be
   * that of a master before this one. @throws MasterError ERR_JOB_UNKNOWN
   */
  resumeJob(jid: string, options?: FollowOptions): AsyncIterable<JobUpdate>;
  /**
   * Finds the subject of a token, by `masterServices.tokenHolders` with its wrappers.
   * @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE
   */
  holdToken(token: string): Promise<TokenHolder>;
  /** Returns a job id that no job has. */
  freshJid(): Promise<string>;
  /**
   * Whether the minion can be reached by this master, or by any member of its cluster. It is asked
   * (`test.ping`) unless it answered a moment ago, and has `gather_job_timeout` to answer.
   */
  isReachable(minion: string): Promise<boolean>;
  /** Rows of this master alone, also where it is a member of a cluster. */
  readonly state: StateArea;
  /** Rows of all members of the cluster. Without a cluster they are those of {@link state}. */
  readonly shared: SharedArea;
  readonly admission: KeyLifecycle;
  readonly audit: AuditTrail;
  /** Fires an event `saltbridge/<namespace>/<tag>`. */
  fire(tag: string, data: WireMap): void;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Fires when the master begins to close, before {@link OpenExtension.close}. */
  readonly closing: AbortSignal;
}

/**
 * An opened extension. Names of request types, runners, methods, routes and metrics belong to one
 * extension each: the start fails with ERR_EXTENSION_CONFLICT where two claim one.
 */
export interface OpenExtension {
  /** Request types by `cmd`. Made by `defineRequestType`. */
  readonly requests?: RequestTypes;
  /** Runners by name (`module.function`). */
  readonly runners?: Readonly<Record<string, MasterFunction>>;
  /** Wheel functions by name (`module.function`). */
  readonly wheel?: Readonly<Record<string, MasterFunction>>;
  /** Advises what to use in place of runners and wheel functions that are not served. */
  readonly insteadOf?: InsteadOf;
  /** Runners for minions alone; the policy (action `runner`) decides about each call. */
  readonly minionRunners?: MinionRunners;
  readonly intake?: SignalIntake;
  /** Removes secrets from what a minion returns, before it is stored and fired. */
  readonly redactReturn?: ReturnRedaction;
  /** Pillar over that of the files and of the extensions before this one. */
  readonly pillar?: ExtPillar;
  /** Files for minions. The file server asks the backends of its configuration first. */
  readonly files?: FileServerBackend;
  /** State files beside those of the top file. Only one extension may have them. */
  readonly tops?: TopsProvider;
  /** Decides about keys that minions show. The strictest answer counts. */
  readonly advice?: KeyAcceptanceHook;
  /**
   * Called when the accepted key of an id was deleted, rejected or replaced, also for changes that
   * were made while no master ran. After a crash it may be called again.
   */
  onKeyLost?(id: string): Promise<void>;
  /** Named commands for reactions. Only one extension may have them. */
  readonly commands?: NamedCommands;
  /** Methods at the local socket, called there as `<namespace>.<name>`. */
  readonly rpc?: RpcTable;
  /** Returns the current figures. The master calls it for each request of metrics or status. */
  metrics?(): readonly MetricFamily[];
  /** Routes for the program's HTTP server. */
  readonly routes?: readonly HttpRoutes[];
  /**
   * Begins its work. The ports are bound and the master's interface is available; the local socket
   * is not open yet. An error ends the master's start.
   */
  start?(): void | Promise<void>;
  /** Waits for work in progress, then closes. Extensions are closed in reverse order. */
  close?(): Promise<void>;
}

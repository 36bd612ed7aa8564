/** A master and its states: created, started, closed. */

import type { Logger } from 'pino';
import type { MasterTransport } from '../minion-protocol/index.ts';
import { describeSystemError } from '../runtime/index.ts';
import type { Store } from '../store/index.ts';
import {
  type AuditApi,
  createSilentLogger,
  type InProcessApi,
  type InProcessFunctionsApi,
  type InProcessJobsApi,
  MasterError,
  type MasterStatus,
  type PillarApi,
  type PillarProvider,
  type PresentMinion,
  type ReactionsApi,
  type ReloadReport,
  type StoreApi,
  type UserApi,
} from './api/index.ts';
import type { MasterConfig } from './config/index.ts';
import type { Assembly } from './create-master.ts';
import type { ExtPillar } from './data/index.ts';
import type { FileServerOptions } from './files/index.ts';
import type { MasterExtension, TopsProvider } from './requests/index.ts';

/** What a master is made of; everything but the configuration has a default. */
export interface MasterParts {
  /** From `loadMasterConfig(directory)`, or `resolveMasterConfig({…})`. */
  readonly config: MasterConfig;
  /** Each minion's pillar. Default: that of the files below `pillar_roots`. */
  readonly pillar?: PillarProvider;
  /** Put over that pillar, in this order. Default: none. */
  readonly extPillar?: readonly ExtPillar[];
  /** What each minion's highstate has besides its top file. Default: nothing. */
  readonly tops?: TopsProvider;
  /** What is opened and closed with it, and keeps state in its store. Default: none. */
  readonly extensions?: readonly MasterExtension[];
  /** Where files come from. Default: `file_roots`. */
  readonly fileserver?: FileServerOptions;
  /** Default: says nothing. */
  readonly logger?: Logger;
  /** Default: ZeroMQ on the configured ports. */
  readonly transports?: readonly MasterTransport[];
  /** Default: the embedded store in `saltbridge: state_dir`. */
  readonly store?: Store;
  /** Reads the configuration again, for `acl.reload` of the interface. Default: that is refused. */
  readonly readConfig?: () => Promise<MasterConfig>;
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/** What its modules are opened with. */
export interface StartedParts extends MasterParts {
  readonly logger: Logger;
  /** Told once, when another process has taken the store over: nothing can be kept any more. */
  readonly onReplaced: (error: Error) => void;
}

/** A Salt master in this process. */
export interface Master extends InProcessApi {
  /**
   * Opens keys and store, binds the ports and the local socket. Resolves when minions are served.
   * @throws ConfigError, TransportError ERR_LISTEN, StoreError ERR_STORE_LOCKED, MasterError, such as
   * ERR_FILE_SYSTEM
   */
  start(): Promise<void>;
  /**
   * Takes over what may change while a master runs, at once; docs/configuration.md lists it.
   * @param config - the whole of it, from `loadMasterConfig` or `resolveMasterConfig`
   * @returns what is in force now, and what needs a restart
   * @throws MasterError ERR_MASTER_STOPPED
   */
  reload(config: MasterConfig): Promise<ReloadReport>;
  /** The configuration that is in force. */
  readonly config: MasterConfig;
  /** Answers what is under way, then closes everything. May be called twice. */
  close(): Promise<void>;
  /**
   * Resolves when it has closed: with an error where it closed itself, because another process has
   * taken its store (StoreError ERR_STORE_FENCED).
   */
  readonly closed: Promise<Error | undefined>;
}

type State =
  | { readonly state: 'stopped' }
  | { readonly state: 'starting'; readonly ready: Promise<Assembly> }
  | { readonly state: 'running'; readonly assembly: Assembly }
  | { readonly state: 'closing'; readonly done: Promise<void> };

/** Makes a master. Nothing is opened before {@link Master.start}. */
export function createMaster(parts: MasterParts): Master {
  return new MasterInProcess(parts);
}

class MasterInProcess implements Master {
  readonly #parts: Required<Pick<MasterParts, 'logger'>> & MasterParts;
  #state: State = { state: 'stopped' };
  #replacedBy: Error | undefined;
  #tellClosed: (error: Error | undefined) => void = () => {};
  readonly closed = new Promise<Error | undefined>((resolve) => {
    this.#tellClosed = resolve;
  });

  constructor(parts: MasterParts) {
    this.#parts = { ...parts, logger: parts.logger ?? createSilentLogger() };
  }

  get config(): MasterConfig {
    return this.#state.state === 'running' ? this.#state.assembly.config : this.#parts.config;
  }

  get keys(): InProcessApi['keys'] {
    return this.#running().api.keys;
  }

  get jobs(): InProcessJobsApi {
    return this.#running().api.jobs;
  }

  get events(): InProcessApi['events'] {
    return this.#running().api.events;
  }

  get acl(): InProcessApi['acl'] {
    return this.#running().api.acl;
  }

  get pillar(): PillarApi {
    return this.#running().api.pillar;
  }

  get audit(): AuditApi {
    return this.#running().api.audit;
  }

  get logins(): InProcessApi['logins'] {
    return this.#running().api.logins;
  }

  asUser(token: string): UserApi {
    return this.#running().api.asUser(token);
  }

  get reactions(): ReactionsApi {
    return this.#running().api.reactions;
  }

  async presence(): Promise<readonly PresentMinion[]> {
    return this.#running().api.presence();
  }

  get runners(): InProcessFunctionsApi {
    return this.#running().api.runners;
  }

  get wheel(): InProcessFunctionsApi {
    return this.#running().api.wheel;
  }

  get store(): StoreApi {
    return this.#running().api.store;
  }

  async minions(): ReturnType<InProcessApi['minions']> {
    return this.#running().api.minions();
  }

  async status(): Promise<MasterStatus> {
    return this.#running().api.status();
  }

  async metrics(): ReturnType<InProcessApi['metrics']> {
    return this.#running().api.metrics();
  }

  async start(): Promise<void> {
    if (this.#state.state !== 'stopped') {
      const state = this.#state.state === 'closing' ? 'closed' : this.#state.state;
      throw new MasterError(
        'ERR_MASTER_STOPPED',
        `this master is ${state} already; make a new one`,
      );
    }
    const starting: State = { state: 'starting', ready: this.#open() };
    this.#state = starting;
    try {
      const assembly = await starting.ready;
      if (this.#state === starting) this.#state = { state: 'running', assembly };
    } catch (error) {
      if (this.#state === starting) this.#state = { state: 'stopped' };
      throw error;
    }
  }

  async reload(config: MasterConfig): Promise<ReloadReport> {
    return this.#running().reload(config);
  }

  async close(): Promise<void> {
    if (this.#state.state === 'stopped') return;
    if (this.#state.state !== 'closing') {
      const done = closeAssembly(this.#state).finally(() => this.#tellClosed(this.#replacedBy));
      this.#state = { state: 'closing', done };
    }
    await this.#state.done;
  }

  #open(): Promise<Assembly> {
    const onReplaced = (error: Error): void => {
      this.#replacedBy = error;
      this.close().catch((failure: unknown) => {
        this.#parts.logger.error({ err: failure }, 'master closed, and not all of it could be');
      });
    };
    return open({ ...this.#parts, onReplaced });
  }

  #running(): Assembly {
    if (this.#state.state === 'running') return this.#state.assembly;
    throw new MasterError(
      'ERR_MASTER_STOPPED',
      `this master is ${this.#state.state}; call start()`,
    );
  }
}

/** Loads what serves minions, so that a later start is quick. */
export async function preloadMaster(): Promise<void> {
  await import('./create-master.ts');
}

/** Loads what serves minions when it is first needed: most commands start no master. */
async function open(parts: StartedParts): Promise<Assembly> {
  const { assemble } = await import('./create-master.ts');
  try {
    return await assemble(parts);
  } catch (cause) {
    const reason = describeSystemError(cause);
    if (reason === undefined) throw cause;
    throw new MasterError('ERR_FILE_SYSTEM', `the master cannot start: ${reason}`, { cause });
  }
}

async function closeAssembly(
  state: Extract<State, { state: 'starting' | 'running' }>,
): Promise<void> {
  if (state.state === 'running') return state.assembly.close();
  const assembly = await state.ready.catch(() => {
    // Told to the caller of start; what was opened has been closed again.
  });
  await assembly?.close();
}

import type { Logger } from 'pino';
import {
  ConfigError,
  type ConfigWarning,
  type LogLevel,
  leftOutOptions,
  loadMasterConfig,
  type MasterConfig,
  type PlainOptions,
  resolvePlainOptions,
  type SaltConfig,
} from '#config';
import { describeSystemError } from '#runtime';
import {
  type AuditApi,
  createLogger,
  createSilentLogger,
  type InProcessApi,
  type InProcessFunctionsApi,
  type InProcessJobsApi,
  type MasterApi,
  MasterError,
  type MasterStatus,
  type PillarApi,
  type PresentMinion,
  type ReactionsApi,
  type ReloadReport,
  type StoreApi,
  type UserApi,
} from './api/index.ts';
import type { CallGate } from './context/index.ts';
import type { Assembly } from './create-master.ts';
import type { MasterParts, ReplaceableParts, StartedParts } from './master-parts.ts';

/**
 * Options of {@link createBareMaster}: plain options or a complete `config`, and the parts of the
 * master that the program replaces.
 */
export interface BareMasterOptions extends PlainOptions, ReplaceableParts {
  /**
   * Configuration from `loadSaltConfig(directory)`, or the complete configuration of a master. If
   * it is set, no plain options are allowed except `logLevel`.
   */
  readonly config?: SaltConfig | MasterConfig;
}

/** A Salt master in this process. It can be started and closed once. */
export interface Master extends MasterApi {
  /**
   * Opens the keys and the store, and binds the ports and the local socket. Resolves when the
   * master serves minions.
   * @throws ConfigError, TransportError ERR_LISTEN, StoreError ERR_STORE_LOCKED, MasterError, such
   * as ERR_FILE_SYSTEM
   */
  start(): Promise<void>;
  /**
   * Applies the options that can change while a master runs. docs/configuration.md lists them. If
   * the call fails, nothing is changed.
   * @param next - all options, in any form that `createMaster` accepts. Default: the directory of
   * `config` is read again
   * @returns the changed options, and the options that take effect only after a restart
   * @throws MasterError ERR_MASTER_STOPPED; ERR_NOT_RELOADABLE if there is no directory to read;
   * ConfigError if the configuration is invalid
   */
  reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport>;
  /** Current configuration, including the options of the last `reload`. */
  readonly config: MasterConfig;
  /**
   * Counter of calls of the master's interface that are in progress. Present only while a cluster
   * member runs. @internal
   */
  readonly calls?: CallGate | undefined;
  /** Waits for requests in progress, then closes everything. May be called more than once. */
  close(): Promise<void>;
  /**
   * Resolves when the master has closed. If the master closed itself because another process has
   * taken over its store, the value is the StoreError ERR_STORE_FENCED.
   */
  readonly closed: Promise<Error | undefined>;
}

type State =
  | { readonly state: 'stopped' }
  | { readonly state: 'starting'; readonly ready: Promise<Assembly> }
  | { readonly state: 'running'; readonly assembly: Assembly }
  | { readonly state: 'closing'; readonly done: Promise<void> };

/**
 * Creates a master with only the given extensions. Nothing is opened before {@link Master.start}.
 * @throws ConfigError. Its message contains the name of the invalid option as the program wrote it
 */
export function createBareMaster(options: BareMasterOptions = {}): Master {
  return new MasterInProcess(partsOf(options));
}

/**
 * Returns the parts of a master: those that the program passes, its logger, and the configuration,
 * made from all other options.
 */
function partsOf(options: BareMasterOptions): MasterParts & { readonly logger: Logger } {
  const {
    config: given,
    extensions,
    leftOut,
    logger,
    transports,
    store,
    storeProvider,
    readConfig = rereadOf(given),
    now,
    ...plain
  } = options;
  const own = loggerOf(logger, plain.logLevel);
  if (given !== undefined && 'config' in given) logConfigWarnings(own, given.warnings);
  const parts = {
    extensions,
    leftOut,
    transports,
    store,
    storeProvider,
    readConfig,
    now,
  };
  const set = Object.entries(parts).filter(([, value]) => value !== undefined);
  const config = given === undefined ? resolvePlainOptions(plain) : configOf(given, plain);
  for (const { option, extension } of leftOutOptions(config, leftOut ?? [])) {
    const reason = `has no effect, because this master has no extension ${extension}`;
    own.warn({ option, extension, reason }, 'configuration');
  }
  return { ...Object.fromEntries(set), config, logger: own };
}

/**
 * Logs the warnings about a configuration, for example about options that have no effect or another
 * effect than in Salt.
 */
export function logConfigWarnings(logger: Logger, warnings: readonly ConfigWarning[]): void {
  for (const { key: option, message: reason, ...place } of warnings) {
    logger.warn({ option, reason, ...place }, 'configuration');
  }
}

/**
 * Returns the complete configuration that the program passes as `config`.
 * @param beside - other options of the program. Only `logLevel` may be set
 * @throws ConfigError ERR_OPTION_CONFLICT if another option is set, or if the directory contains
 * tenants
 */
function configOf(given: SaltConfig | MasterConfig, beside: PlainOptions): MasterConfig {
  const { logLevel: _, ...others } = beside;
  const [other] = Object.entries(others).flatMap(([name, value]) =>
    value === undefined ? [] : name,
  );
  if (other !== undefined) {
    const origin = { file: 'options', line: 0, key: other };
    const problem =
      'cannot be combined with config, which contains all options; pass one of the two';
    throw new ConfigError('ERR_OPTION_CONFLICT', origin, problem);
  }
  return wholeConfigOf(given);
}

/**
 * Returns the complete configuration of one master.
 * @throws ConfigError ERR_OPTION_CONFLICT if the directory contains tenants, each of which is a
 * master of its own
 */
function wholeConfigOf(given: SaltConfig | MasterConfig): MasterConfig {
  if (!('config' in given)) return given;
  const { config, tenants = [] } = given;
  const [first] = tenants;
  if (first === undefined) return config;
  const origin = { file: config.confFile, line: 0, key: 'saltbridge:tenants' };
  const problem = `names several masters; create one master per directory, such as ${first.directory}`;
  throw new ConfigError('ERR_OPTION_CONFLICT', origin, problem);
}

function rereadOf(
  given: SaltConfig | MasterConfig | undefined,
): (() => Promise<MasterConfig>) | undefined {
  if (given === undefined || !('config' in given)) return undefined;
  return async () => (await loadMasterConfig(given.directory)).config;
}

function loggerOf(logger: Logger | undefined, level: LogLevel | undefined): Logger {
  if (level === undefined) return logger ?? createSilentLogger();
  return logger?.child({}, { level }) ?? createLogger(level);
}

class MasterInProcess implements Master, InProcessApi {
  readonly #parts: MasterParts & { readonly logger: Logger };
  #state: State = { state: 'stopped' };
  #replacedBy: Error | undefined;
  #resolveClosed: (error: Error | undefined) => void = () => {};
  readonly closed = new Promise<Error | undefined>((resolve) => {
    this.#resolveClosed = resolve;
  });

  constructor(parts: MasterParts & { readonly logger: Logger }) {
    this.#parts = parts;
  }

  get config(): MasterConfig {
    return this.#state.state === 'running' ? this.#state.assembly.config.all : this.#parts.config;
  }

  get calls(): CallGate | undefined {
    return this.#state.state === 'running' ? this.#state.assembly.calls : undefined;
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

  get cluster(): InProcessApi['cluster'] {
    return this.#running().api.cluster;
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
        `this master is already ${state}; create a new one`,
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

  async reload(next?: SaltConfig | MasterConfig | PlainOptions): Promise<ReloadReport> {
    const running = this.#running();
    if (next === undefined) return running.reload(await this.#readAgain());
    return running.reload(isPlain(next) ? resolvePlainOptions(next) : wholeConfigOf(next));
  }

  #readAgain(): Promise<MasterConfig> {
    const { readConfig } = this.#parts;
    if (readConfig !== undefined) return readConfig();
    const problem =
      'this master was not created from a configuration directory; pass the new options';
    throw new MasterError('ERR_NOT_RELOADABLE', problem);
  }

  async close(): Promise<void> {
    if (this.#state.state === 'stopped') return;
    if (this.#state.state !== 'closing') {
      const done = closeAssembly(this.#state).finally(() => this.#resolveClosed(this.#replacedBy));
      this.#state = { state: 'closing', done };
    }
    await this.#state.done;
  }

  #open(): Promise<Assembly> {
    const onReplaced = (error: Error): void => {
      this.#replacedBy = error;
      this.close().catch((failure: unknown) => {
        this.#parts.logger.error(
          { err: failure },
          'internal error while closing the modules of the master',
        );
      });
    };
    return open({ ...this.#parts, onReplaced });
  }

  #running(): Assembly {
    if (this.#state.state === 'running') return this.#state.assembly;
    throw new MasterError(
      'ERR_MASTER_STOPPED',
      `this master is ${this.#state.state}; call start() first`,
    );
  }
}

/**
 * Whether these are plain options. A result of `loadSaltConfig` has the property `config`, and a
 * complete configuration has `confFile`. Plain options have neither.
 */
function isPlain(options: SaltConfig | MasterConfig | PlainOptions): options is PlainOptions {
  return !('config' in options) && !('confFile' in options);
}

/** Loads in advance the modules that a running master needs, so that a later start is faster. */
export async function preloadMaster(): Promise<void> {
  await import('./create-master.ts');
}

/**
 * Creates the modules of a master. Their code is loaded on demand, because most commands do not
 * start a master.
 */
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
    // Ignore the error here, because the caller of `start` receives it. The created modules have
    // been closed again.
  });
  await assembly?.close();
}

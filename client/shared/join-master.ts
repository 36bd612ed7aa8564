/**
 * Shared master: several processes of a host use one master. One process, the holder, runs it. The
 * other processes call it.
 */

import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { Agent } from 'node:http';
import type { Logger } from 'pino';
import { loadSaltConfig, type MasterConfig, storeDirectory } from '#config';
import {
  type BareMasterOptions,
  createSilentLogger,
  type Master,
  type MasterApi,
  MasterError,
} from '#master';
import { createJidSource } from '#minion-protocol';
import { codeOf, linkSignals, sleepUntilAborted } from '#runtime';
import { prepareStoreDirectory } from '#store';
import { type Connection, localConnection } from '../connection.ts';
import { RemoteError } from '../errors.ts';
import { failOverExtension } from '../extension-client.ts';
import { type MasterSource, maxWaitingCalls, type ReachedMaster } from '../fail-over.ts';
import { createMasterApi, type ExtensionClient } from '../master-client.ts';
import { type MethodCaller, openMethodStream } from '../rpc-client.ts';
import { failOverCaller } from '../settled-jobs.ts';
import { SharedMasterError } from './errors.ts';
import { ownHolder, remoteHolder } from './holder.ts';
import { HolderWatch } from './holder-watch.ts';
import {
  createJoinExtension,
  extensionName,
  type Joined,
  type JoinRequest,
} from './join-extension.ts';
import { digestOptions } from './option-digests.ts';

/** Role of a process. The `holder` runs the master, a `sibling` calls it. */
type SharedRole = 'holder' | 'sibling';

/**
 * Options of each process that shares a master. They must be equal in all processes, except for
 * callbacks and extensions. The callbacks and extensions of a process take effect when this process
 * runs the master (becomes the holder).
 */
export interface SharedMasterOptions extends Omit<BareMasterOptions, 'store' | 'transports'> {
  /** Called when this process becomes the holder, or stops being the holder. */
  readonly onRole?: (role: SharedRole) => void;
}

/** A master that this process shares with other processes of its host. */
export interface SharedMaster extends MasterApi {
  readonly role: SharedRole;
  /**
   * Starts the master, or joins the process that runs it.
   * @throws SharedMasterError ERR_OPTIONS_DIFFER, ERR_HOLDER_HUNG, ERR_NO_HOLDER, and the errors of
   * starting a master
   */
  start(): Promise<void>;
  /**
   * Leaves the shared master. If this process is the holder, another process takes over. May be
   * called twice.
   */
  close(): Promise<void>;
  /**
   * Returns the client of an extension. The client can still be used after another process has
   * become the holder. Runs of the bridge (`run`, `runPlan`) get an idempotency key if they have
   * none, and continue when a holder stops.
   * @param name - name of the extension, for example `bridge`
   */
  extension(name: string): ExtensionClient;
}

/**
 * Functions that create the shared master. A process calls them when it becomes the holder: the
 * process that runs this master.
 */
export interface MasterFactory {
  create(options: BareMasterOptions): Master;
  /** Loads the modules of a master, so that a later start is fast. */
  preload(): Promise<void>;
}

/**
 * Shares a master with the other processes of this host that have the same `state_dir`. One of
 * them, the holder, owns the store, the ports and the local socket. The other processes call it
 * over its socket. When the holder stops, another process takes over within three seconds. When the
 * holder hangs, another process takes over after `takeover_after`. All processes must run under one
 * account and with the same options.
 * @throws ConfigError, which names the option
 */
export function shareMaster(options: SharedMasterOptions, factory: MasterFactory): SharedMaster {
  const member = new Member(options, factory);
  return {
    ...createMasterApi(member.caller),
    get role() {
      return member.role;
    },
    start: () => member.start(),
    close: () => member.close(),
    extension: (name) => failOverExtension(member, name),
  };
}

/** Delay between two checks while no holder is known, in milliseconds. */
const pauseMs = 50;
/**
 * Delay between two checks of the holder (the process that runs the master) as long as it answers,
 * in milliseconds.
 */
const watchMs = 1000;
/** Delay after a failed attempt to run or to join the master, in milliseconds. */
const failurePauseMs = 500;

interface WaitingCall {
  readonly resolve: (holder: ReachedMaster | undefined) => void;
  readonly reject: (error: Error) => void;
}

class Member implements MasterSource {
  readonly caller: MethodCaller;
  readonly #options: SharedMasterOptions;
  readonly #factory: MasterFactory;
  readonly #onRole: (role: SharedRole) => void;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #waiting = new Set<WaitingCall>();
  #config: MasterConfig;
  #holder: ReachedMaster | undefined;
  #withoutHolderSince = performance.now();
  /** Master that this process starts or runs. */
  #own: Master | undefined;
  #role: SharedRole = 'sibling';
  /** Error with which the last attempt to run or to join the master failed. */
  #obstacle: Error | undefined;
  #running: Promise<void> | undefined;
  #request: JoinRequest | undefined;
  /**
   * Whether this process has already run or joined the master. If so, later failures are retried.
   */
  #isStarted = false;

  constructor({ onRole, ...options }: SharedMasterOptions, factory: MasterFactory) {
    this.#options = options;
    this.#factory = factory;
    this.#onRole = onRole ?? (() => {});
    // This master is never started. It only validates and completes the options.
    this.#config = factory.create(options).config;
    this.#log = (options.logger ?? createSilentLogger()).child({ component: 'processes' });
    const suffix = `p${process.pid}${randomBytes(2).toString('hex')}`;
    this.caller = failOverCaller(this, createJidSource(Date.now, suffix));
  }

  get role(): SharedRole {
    return this.#role;
  }

  async start(): Promise<void> {
    if (this.#running !== undefined) {
      throw new MasterError(
        'ERR_MASTER_STOPPED',
        'this shared master was already started; create a new one with joinMaster',
      );
    }
    const directory = await prepareStoreDirectory(storeDirectory(this.#config.stateDir));
    const watch = new HolderWatch({
      directory,
      takeoverAfterMs: this.#config.takeoverAfterSeconds * 1000,
      onEnded: (pid) =>
        this.#log.error(
          { pid },
          'killed the process that ran the shared master, because it did not respond',
        ),
    });
    await new Promise<void>((resolve, reject) => {
      this.#waiting.add({ resolve: () => resolve(), reject });
      this.#running = this.#run(watch, directory, reject);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#rejectWaiting(stopped());
    await this.#own?.close();
    await this.#running;
  }

  get waitLimitMs(): number {
    const { takeoverAfterSeconds, holderWaitSeconds } = this.#config;
    return (takeoverAfterSeconds + holderWaitSeconds) * 1000;
  }

  refused(cause: unknown): SharedMasterError {
    const message = 'the process that runs the shared master does not accept connections';
    return new SharedMasterError('ERR_NO_HOLDER', message, { cause });
  }

  async master(
    signal?: AbortSignal,
    since = performance.now(),
  ): Promise<ReachedMaster | undefined> {
    if (signal?.aborted) return undefined;
    if (this.#holder !== undefined) return this.#holder;
    if (this.#running === undefined || this.#closing.signal.aborted) throw stopped();
    if (this.#obstacle instanceof SharedMasterError) throw this.#obstacle;
    if (this.#waiting.size >= maxWaitingCalls) {
      const message = `too many calls wait for the shared master (${maxWaitingCalls}); repeat the call later`;
      throw new RemoteError('ERR_WAITING_CALLS', message, { wasSent: false });
    }
    const limitMs = this.waitLimitMs;
    const restMs = Math.max(since, this.#withoutHolderSince) + limitMs - performance.now();
    if (restMs <= 0) throw this.#noHolder(limitMs);
    let waiting: WaitingCall | undefined;
    let timer: NodeJS.Timeout | undefined;
    const give = (): void => waiting?.resolve(undefined);
    try {
      return await new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        this.#waiting.add(waiting);
        timer = setTimeout(() => reject(this.#noHolder(limitMs)), restMs);
        signal?.addEventListener('abort', give, { once: true });
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', give);
      if (waiting !== undefined) this.#waiting.delete(waiting);
    }
  }

  #noHolder(limitMs: number): SharedMasterError {
    const cause = this.#obstacle;
    const why = cause === undefined ? '' : `: ${cause.message}`;
    const message = `no process has run the shared master for ${limitMs / 1000} seconds${why}`;
    return new SharedMasterError('ERR_NO_HOLDER', message, { cause });
  }

  /**
   * Runs the shared master, or joins the process that runs it (the holder). Repeats this until this
   * process leaves.
   */
  async #run(
    watch: HolderWatch,
    directory: string,
    failStart: (error: unknown) => void,
  ): Promise<void> {
    while (!this.#closing.signal.aborted) {
      let restMs = pauseMs;
      try {
        const seen = await watch.look();
        if (seen === 'none') await this.#hold(watch);
        else if (seen === 'answering') await this.#join(watch);
        else if (seen === 'hung') throw this.#hung(directory, watch.reason);
        if (this.#obstacle instanceof SharedMasterError) this.#obstacle = undefined;
      } catch (error) {
        if (!this.#isStarted) {
          this.#running = undefined;
          failStart(error);
          return;
        }
        this.#fail(error);
        restMs = failurePauseMs;
      }
      // This timer keeps the process alive. The timers of the checks do not.
      await sleepUntilAborted(restMs, this.#closing.signal);
    }
  }

  /**
   * Reads the configuration again. The previous holder may have reloaded options, and this process
   * must use the same ones.
   */
  async #refreshConfig(): Promise<void> {
    const reread = rereadOf(this.#options);
    if (!this.#isStarted || reread === undefined) return;
    try {
      this.#config = await reread();
      this.#request = undefined;
    } catch (error) {
      this.#log.error(
        { err: error },
        'cannot reload the configuration; the previous configuration stays in effect',
      );
    }
  }

  /** Starts the master of this process and waits until it has closed. */
  async #hold(watch: HolderWatch): Promise<void> {
    await this.#refreshConfig();
    const master = this.#factory.create(withConfig(this.#options, this.#config));
    // If two processes start at the same time, the slower one joins instead of waiting for the
    // lock.
    if ((await watch.look()) !== 'none') return;
    const end = new AbortController();
    // Each pending call adds a listener to this signal.
    setMaxListeners(0, end.signal);
    this.#own = master;
    try {
      await master.start();
      this.#log.info('this process now runs the shared master');
      this.#setRole('holder');
      this.#setHolder(ownHolder(master, this.#connection(), end.signal));
      const error = await master.closed;
      if (error !== undefined)
        this.#log.error(
          { err: error },
          'another process has taken over the shared master from this process',
        );
    } catch (error) {
      if (codeOf(error) !== 'ERR_STORE_LOCKED') throw error;
    } finally {
      this.#forgetHolder();
      this.#own = undefined;
      end.abort();
      this.#setRole('sibling');
    }
  }

  /**
   * Joins the holder, the process that runs the shared master. Waits until the holder stops or
   * hangs.
   */
  async #join(watch: HolderWatch): Promise<void> {
    const agent = new Agent({ keepAlive: false });
    const connection = this.#connection(agent);
    const left = new AbortController();
    const joined = linkSignals(this.#closing.signal, left.signal);
    const end = new AbortController();
    // Each pending call adds a listener to this signal.
    setMaxListeners(0, end.signal);
    try {
      const entered = await this.#enter(connection, joined.signal);
      if (entered === undefined) return;
      const { stream, pid } = entered;
      this.#log.info({ pid }, 'joined the process that runs the shared master');
      this.#setHolder(remoteHolder(connection, end.signal, this.#config));
      void this.#factory.preload();
      await this.#watchHolder(watch, stream, left.signal);
    } catch (error) {
      if (codeOf(error) === 'ERR_OPTIONS_DIFFER' && error instanceof Error) {
        throw new SharedMasterError('ERR_OPTIONS_DIFFER', error.message);
      }
      throw error;
    } finally {
      this.#forgetHolder();
      left.abort();
      joined.unlink();
      agent.destroy();
      end.abort();
    }
  }

  /**
   * Joins the shared master with the current options of this process. If they differ from the
   * options of the process that runs the master (the holder), reads the configuration again and
   * retries once.
   * @returns `undefined` if the holder is starting or closing
   */
  async #enter(connection: Connection, signal: AbortSignal): Promise<EnteredStream | undefined> {
    try {
      return await openJoin(connection, this.#joinRequest(), signal);
    } catch (error) {
      if (codeOf(error) !== 'ERR_OPTIONS_DIFFER') throw error;
      await this.#refreshConfig();
      return openJoin(connection, this.#joinRequest(), signal);
    }
  }

  /**
   * Returns the request of this process to join. It is cached, because the process sends it often
   * while a holder starts.
   */
  #joinRequest(): JoinRequest {
    const salt = randomBytes(16).toString('hex');
    this.#request ??= { pid: process.pid, salt, options: digestOptions(this.#config, salt) };
    return this.#request;
  }

  /**
   * Resolves when the holder, the process that runs the shared master, has ended the stream. Also
   * resolves when a check finds that the holder has stopped, was ended or hangs.
   */
  async #watchHolder(
    watch: HolderWatch,
    stream: AsyncIterable<Joined>,
    left: AbortSignal,
  ): Promise<void> {
    let isOver = false;
    const ended = drain(stream).then(() => {
      isOver = true;
    });
    while (!isOver) {
      await Promise.race([ended, sleepUntilAborted(watchMs, left)]);
      if (isOver) return;
      const seen = await watch.look();
      if (seen !== 'answering' && seen !== 'silent') return;
    }
  }

  #connection(agent?: Agent): Connection {
    // All processes run under one account. The master treats a call without a proof of the account
    // as a call of the socket's owner, so no proof is needed.
    const { prove: _, ...connection } = localConnection({ socketPath: this.#config.socket }, agent);
    return { ...connection, failsOnClose: true };
  }

  #setRole(role: SharedRole): void {
    if (this.#role === role) return;
    this.#role = role;
    this.#onRole(role);
  }

  #setHolder(holder: ReachedMaster): void {
    this.#holder = holder;
    this.#isStarted = true;
    this.#obstacle = undefined;
    for (const { resolve } of this.#waiting) resolve(holder);
    this.#waiting.clear();
  }

  #forgetHolder(): void {
    if (this.#holder !== undefined) this.#withoutHolderSince = performance.now();
    this.#holder = undefined;
  }

  #hung(directory: string, reason: string): SharedMasterError {
    const message =
      `the process that runs the shared master has not responded for ` +
      `${this.#config.takeoverAfterSeconds} seconds, and this process cannot end it: ${reason}; ` +
      `end it with kill (its pid is in ${directory}/holder.json)`;
    return new SharedMasterError('ERR_HOLDER_HUNG', message);
  }

  #fail(error: unknown): void {
    const obstacle = error instanceof Error ? error : new Error(String(error));
    if (this.#obstacle?.message !== obstacle.message) {
      this.#log.error({ err: obstacle }, 'cannot run or join the shared master; trying again');
    }
    this.#obstacle = obstacle;
    if (obstacle instanceof SharedMasterError) this.#rejectWaiting(obstacle);
  }

  #rejectWaiting(error: Error): void {
    for (const { reject } of this.#waiting) reject(error);
    this.#waiting.clear();
  }
}

function stopped(): MasterError {
  return new MasterError(
    'ERR_MASTER_STOPPED',
    'this process has not joined the shared master; call start() first',
  );
}

/**
 * Returns a function that reads the configuration files again. Returns `undefined` if the program
 * supplied the options itself.
 */
function rereadOf({ readConfig, config }: SharedMasterOptions): SharedMasterOptions['readConfig'] {
  if (readConfig !== undefined || config === undefined || !('config' in config)) return readConfig;
  return async () => (await loadSaltConfig(config.directory)).config;
}

/**
 * Returns the options with which this process creates the master: the configuration `config`, and
 * the extensions, the logger and the callbacks in `options`. Adds the extension through which other
 * processes join.
 */
function withConfig(options: SharedMasterOptions, config: MasterConfig): BareMasterOptions {
  const { extensions = [], logger, logLevel, now } = options;
  const readConfig = rereadOf(options);
  const parts = { logger, logLevel, now, readConfig };
  const given = Object.entries(parts).filter(([, value]) => value !== undefined);
  return {
    ...Object.fromEntries(given),
    config,
    extensions: [...extensions, createJoinExtension()],
  };
}

/**
 * Stream of a process that has joined the shared master. It ends when the process that runs the
 * master ends.
 */
interface EnteredStream {
  readonly stream: AsyncIterable<Joined>;
  /** Process id of the holder, the process that runs the shared master. */
  readonly pid: number;
}

/**
 * Joins the holder's master by opening a stream.
 * @returns `undefined` if the holder is starting or closing
 */
async function openJoin(
  connection: Connection,
  request: JoinRequest,
  signal: AbortSignal,
): Promise<EnteredStream | undefined> {
  try {
    const name = `${extensionName}.join`;
    const stream = await openMethodStream<Joined>(connection, name, request, signal);
    const { value } = await stream.next();
    return value === undefined ? undefined : { stream, pid: value.pid };
  } catch (error) {
    if (codeOf(error) === 'ERR_SOCKET') return undefined;
    if (codeOf(error) !== 'ERR_RPC_UNKNOWN_METHOD') throw error;
    const message =
      'the process that runs the master does not share it; create the master there with joinMaster';
    throw new SharedMasterError('ERR_NO_HOLDER', message, { cause: error });
  }
}

async function drain(items: AsyncIterable<unknown>): Promise<void> {
  try {
    for await (const _ of items);
  } catch {
    // Any error means that the holder has ended.
  }
}

/** A master that several processes of a host share: one holds it, the others call it. */

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

/** Whether a process holds the master, or calls the one that another process holds. */
type SharedRole = 'holder' | 'sibling';

/**
 * What each process gives: the same options as the others, and its own callbacks and extensions,
 * which are in force while it holds the master.
 */
export interface SharedMasterOptions extends Omit<BareMasterOptions, 'store' | 'transports'> {
  /** Called when this process begins to hold the master, and when it does so no longer. */
  readonly onRole?: (role: SharedRole) => void;
}

/** A master that this process shares with others of its host. */
export interface SharedMaster extends MasterApi {
  readonly role: SharedRole;
  /**
   * Starts the master, or joins the process that holds it.
   * @throws SharedMasterError ERR_OPTIONS_DIFFER, ERR_HOLDER_HUNG, ERR_NO_HOLDER; what the start of
   * a master throws
   */
  start(): Promise<void>;
  /** Leaves; if this process holds the master, another one takes over. May be called twice. */
  close(): Promise<void>;
  /**
   * Methods of an extension of the master, whichever process holds it. Runs of the bridge (`run`,
   * `runPlan`) get an idempotency key if they have none, and go on when a holder ends.
   * @param name - of the extension, for instance `bridge`
   */
  extension(name: string): ExtensionClient;
}

/** Creates the master of a process, with its services. */
export interface MasterFactory {
  create(options: BareMasterOptions): Master;
  /** Loads what a master needs, so that a later start is quick. */
  preload(): Promise<void>;
}

/**
 * Shares a master with the other processes of this host that have the same `state_dir`. One of them
 * holds it: store, ports and local socket. The others have the same interface through its socket.
 * When the holder ends, another process takes over within three seconds; when it hangs, after
 * `takeover_after`. All run under one account and are given the same options.
 * @throws ConfigError, which names the option as the program does
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

/** Between two looks while nobody is known to hold the master. */
const pauseMs = 50;
/** Between two looks at a holder that answers. */
const watchMs = 1000;
/** After an attempt to hold or join that failed. */
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
  /** The master of this process, while it starts or runs. */
  #own: Master | undefined;
  #role: SharedRole = 'sibling';
  /** Why nobody holds it, as far as this process knows. */
  #obstacle: Error | undefined;
  #running: Promise<void> | undefined;
  #request: JoinRequest | undefined;
  /** Whether it has held or joined the master once: what fails then is tried again. */
  #isStarted = false;

  constructor({ onRole, ...options }: SharedMasterOptions, factory: MasterFactory) {
    this.#options = options;
    this.#factory = factory;
    this.#onRole = onRole ?? (() => {});
    // Nothing of it is opened: it knows what the options mean.
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
      throw new MasterError('ERR_MASTER_STOPPED', 'this master was started already; join anew');
    }
    const directory = await prepareStoreDirectory(storeDirectory(this.#config.stateDir));
    const watch = new HolderWatch({
      directory,
      takeoverAfterMs: this.#config.takeoverAfterSeconds * 1000,
      onEnded: (pid) => this.#log.error({ pid }, 'the process that held the master hung: ended'),
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
    const message = 'the process that holds the master takes no connections';
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
      const message = `${maxWaitingCalls} calls wait for a process that holds the master`;
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
    const message = `no process held the master for ${limitMs / 1000} seconds${why}`;
    return new SharedMasterError('ERR_NO_HOLDER', message, { cause });
  }

  /** Holds the master or joins its holder, over and over, until this process leaves. */
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
      // Keeps the process alive, unlike a look that nothing waits for.
      await sleepUntilAborted(restMs, this.#closing.signal);
    }
  }

  /** What was taken over by the holder meanwhile is in force with the next one too. */
  async #refreshConfig(): Promise<void> {
    const reread = rereadOf(this.#options);
    if (!this.#isStarted || reread === undefined) return;
    try {
      this.#config = await reread();
      this.#request = undefined;
    } catch (error) {
      this.#log.error({ err: error }, 'configuration not read; the one before stays in force');
    }
  }

  /** Starts the master of this process, and waits until it has closed. */
  async #hold(watch: HolderWatch): Promise<void> {
    await this.#refreshConfig();
    const master = this.#factory.create(withConfig(this.#options, this.#config));
    // Whoever is late joins the quicker one, which a start would wait for in vain.
    if ((await watch.look()) !== 'none') return;
    const end = new AbortController();
    // Each call that is under way listens to it.
    setMaxListeners(0, end.signal);
    this.#own = master;
    try {
      await master.start();
      this.#log.info('this process holds the master');
      this.#setRole('holder');
      this.#setHolder(ownHolder(master, this.#connection(), end.signal));
      const error = await master.closed;
      if (error !== undefined) this.#log.error({ err: error }, 'another process holds the master');
    } catch (error) {
      if (codeOf(error) !== 'ERR_STORE_LOCKED') throw error;
    } finally {
      this.#forgetHolder();
      this.#own = undefined;
      end.abort();
      this.#setRole('sibling');
    }
  }

  /** Joins the process that holds the master, and waits until that ends or hangs. */
  async #join(watch: HolderWatch): Promise<void> {
    const agent = new Agent({ keepAlive: false });
    const connection = this.#connection(agent);
    const left = new AbortController();
    const joined = linkSignals(this.#closing.signal, left.signal);
    const end = new AbortController();
    // Each call that is under way listens to it.
    setMaxListeners(0, end.signal);
    try {
      const entered = await this.#enter(connection, joined.signal);
      if (entered === undefined) return;
      const { stream, pid } = entered;
      this.#log.info({ pid }, 'joined the process that holds the master');
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
   * With the options that this process has; where those differ, with what the configuration says now.
   * @returns `undefined`: the holder is starting, or closing
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

  /** Made once: it is needed many times while a holder starts, when the machine has most to do. */
  #joinRequest(): JoinRequest {
    const salt = randomBytes(16).toString('hex');
    this.#request ??= { pid: process.pid, salt, options: digestOptions(this.#config, salt) };
    return this.#request;
  }

  /** Resolves when the stream has ended, or the holder is seen to hold the master no longer. */
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
    // All processes are of one account, and a call without proof is of the socket's owner.
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
      `the process that holds the master has not answered for ` +
      `${this.#config.takeoverAfterSeconds} seconds and cannot be ended from here: ${reason}; ` +
      `end it by hand (${directory}/holder.json names it)`;
    return new SharedMasterError('ERR_HOLDER_HUNG', message);
  }

  #fail(error: unknown): void {
    const obstacle = error instanceof Error ? error : new Error(String(error));
    if (this.#obstacle?.message !== obstacle.message) {
      this.#log.error({ err: obstacle }, 'the master can neither be held nor joined');
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
  return new MasterError('ERR_MASTER_STOPPED', 'this process does not share the master; start it');
}

/** Reads the files of a configuration again; `undefined` for options of the program. */
function rereadOf({ readConfig, config }: SharedMasterOptions): SharedMasterOptions['readConfig'] {
  if (readConfig !== undefined || config === undefined || !('config' in config)) return readConfig;
  return async () => (await loadSaltConfig(config.directory)).config;
}

/** The replaced parts, and the whole configuration in place of the options that make it. */
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

/** The stream of a process that has joined, which ends with the holder. */
interface EnteredStream {
  readonly stream: AsyncIterable<Joined>;
  /** Of the holder. */
  readonly pid: number;
}

/** @returns `undefined`: the holder is starting, or closing */
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
    const message = 'a program that does not share it holds the master; start it by joinMaster too';
    throw new SharedMasterError('ERR_NO_HOLDER', message, { cause: error });
  }
}

async function drain(items: AsyncIterable<unknown>): Promise<void> {
  try {
    for await (const _ of items);
  } catch {
    // However it ended, the holder has.
  }
}

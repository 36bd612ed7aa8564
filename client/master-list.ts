/**
 * List of masters. It selects a master that accepts calls, and uses it until the connection to it
 * is lost.
 */

import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UserApi } from '#master';
import { codeOf, delay, errorMessage, inTime, linkSignals, retryDelayMs } from '#runtime';
import { type Connection, type RemoteMaster, remoteConnection } from './connection.ts';
import { RemoteError } from './errors.ts';
import type { MasterSource, ReachedMaster } from './fail-over.ts';
import { callerOf, callMethod } from './rpc-client.ts';

type MasterDescription = Awaited<ReturnType<UserApi['describeMaster']>>;

/** Masters of a cluster with an HTTP API. */
export interface RemoteMasters extends Omit<RemoteMaster, 'url'> {
  /**
   * Addresses of the masters, each like `url` of {@link RemoteMaster}. Calls go to the first one,
   * or to the next one if it is unreachable or stops.
   */
  readonly urls: readonly (string | URL)[];
}

/**
 * Time to search for a master before calls fail, in milliseconds. It is longer than a cluster needs
 * to elect a leader of its log.
 */
const reachMs = 15_000;
const retryDelays = { initialDelayMs: 100, maxDelayMs: 1000 };
/** Time limit for a check of a master, in milliseconds. */
const answerMs = 5000;
/** Interval between checks of a master while calls wait for it, in milliseconds. */
const watchMs = 3000;
/** Time without a successful check after which calls to a master fail, in milliseconds. */
const silentMs = 10_000;

export class MasterList implements MasterSource {
  readonly waitLimitMs: number = reachMs;
  readonly #connections: readonly Connection[];
  #current: ReachedMaster | undefined;
  #reaching: Promise<ReachedMaster> | undefined;
  /** Index of the address with which the search for a master starts. */
  #first = 0;

  /**
   * Creates a list.
   * @throws TypeError if there is no address, if an address is invalid, or if an address without
   * TLS is not on this host
   */
  constructor({ urls, ...access }: RemoteMasters) {
    if (urls.length === 0) throw new TypeError('the list urls must contain at least one address');
    this.#connections = urls.map((url) => remoteConnection({ ...access, url }));
  }

  async master(signal?: AbortSignal): Promise<ReachedMaster | undefined> {
    if (signal?.aborted) return undefined;
    if (this.#current?.end.aborted === false) return this.#current;
    this.#reaching ??= this.#reach().finally(() => {
      this.#reaching = undefined;
    });
    return signal === undefined ? this.#reaching : inTime(this.#reaching, signal);
  }

  refused(cause: unknown): Error {
    return new RemoteError('ERR_SOCKET', 'none of the masters accepts connections', { cause });
  }

  /**
   * Returns the first master that is ready. If none is ready, returns the first one that answers.
   */
  async #reach(): Promise<ReachedMaster> {
    const since = performance.now();
    for (let round = 1; ; round += 1) {
      const failures: unknown[] = [];
      let answering: VisitedMaster | undefined;
      for (let step = 0; step < this.#connections.length; step += 1) {
        const index = (this.#first + step) % this.#connections.length;
        const visited = await this.#visit(index).catch((error: unknown) => {
          failures.push(error);
          return undefined;
        });
        if (visited?.isReady === true) return this.#enter(visited);
        answering ??= visited;
      }
      if (answering !== undefined) return this.#enter(answering);
      if (performance.now() - since > reachMs) throw this.#noneReached(failures);
      await sleep(retryDelayMs(round, retryDelays, Math.random));
    }
  }

  #enter(visited: VisitedMaster): ReachedMaster {
    this.#first = visited.index;
    this.#current = visited;
    return visited;
  }

  /**
   * Returns the master with this index in the list, after it has answered a request.
   * @throws RemoteError if it cannot be reached, stops, or has closed its store
   */
  async #visit(index: number): Promise<VisitedMaster> {
    const [connection] = this.#connections.slice(index);
    if (connection === undefined)
      throw new RangeError(`internal error: the list of masters has no index ${index}`);
    let description: MasterDescription | undefined;
    try {
      description = await describe(connection);
    } catch (error) {
      // A rejection also shows that the master is reachable.
      if (isUnreachable(error)) throw error;
    }
    const leave = (): void => {
      if (this.#first === index) this.#first = (index + 1) % this.#connections.length;
    };
    return new VisitedMaster({ index, connection, description, onBreak: leave });
  }

  #noneReached(failures: readonly unknown[]): RemoteError {
    const [cause] = failures;
    const reasons = failures.map(errorMessage);
    const message = `cannot reach any of ${this.#connections.length} masters: ${reasons.join('; ')}`;
    return new RemoteError('ERR_SOCKET', message, { cause, wasSent: false });
  }
}

/**
 * Returns the master's description of itself.
 * @throws RemoteError
 */
async function describe(connection: Connection): Promise<MasterDescription> {
  const silent = new AbortController();
  const timer = setTimeout(() => silent.abort(), answerMs);
  const limited: Connection = {
    ...connection,
    open: (path) => connection.open(path, silent.signal),
  };
  try {
    return await callMethod<MasterDescription>(limited, 'users.describeMaster', {});
  } finally {
    clearTimeout(timer);
  }
}

function isUnreachable(error: unknown): boolean {
  return ['ERR_SOCKET', 'ERR_MASTER_STOPPED', 'ERR_STORE_CLOSED'].includes(codeOf(error) ?? '');
}

interface Visit {
  readonly index: number;
  readonly connection: Connection;
  /** Description of the master. `undefined` if the master does not disclose it to this caller. */
  readonly description: MasterDescription | undefined;
  readonly onBreak: () => void;
}

/** Master that has answered. It is checked periodically while calls wait for it. */
class VisitedMaster implements ReachedMaster {
  readonly index: number;
  readonly caller: ReachedMaster['caller'];
  readonly connection: Connection;
  readonly jobs: string | undefined;
  readonly ownJobs: string | undefined;
  readonly hasOthers: boolean = true;
  readonly isReady: boolean;
  readonly onBreak: () => void;
  readonly #end = new AbortController();
  /** Aborted when the master no longer answers. Waiting calls then continue on another master. */
  readonly #silent = new AbortController();
  readonly #plain: Connection;
  #waiting = 0;
  #watching: Promise<void> | undefined;

  constructor({ index, connection, description, onBreak }: Visit) {
    // Each pending call adds a listener to this signal.
    setMaxListeners(0, this.#end.signal, this.#silent.signal);
    this.index = index;
    this.#plain = connection;
    this.jobs = description?.jobs;
    this.ownJobs = description?.ownJobs;
    this.isReady = description?.isReady ?? true;
    this.onBreak = () => {
      this.#end.abort();
      onBreak();
    };
    this.connection = {
      ...connection,
      failsOnClose: true,
      open: (path, signal) => {
        const ends = linkSignals(this.#silent.signal, signal);
        const request = connection.open(path, ends.signal);
        this.#waiting += 1;
        request.once('close', () => {
          ends.unlink();
          this.#waiting -= 1;
        });
        this.#watching ??= this.#watch().finally(() => {
          this.#watching = undefined;
        });
        return request;
      },
    };
    this.caller = callerOf(this.connection);
  }

  get end(): AbortSignal {
    return this.#end.signal;
  }

  async #watch(): Promise<void> {
    let answeredAt = performance.now();
    while (this.#waiting > 0) {
      await delay(watchMs);
      if (this.#waiting === 0) return;
      const isThere = await describe(this.#plain).then(
        () => true,
        (error: unknown) => !isUnreachable(error),
      );
      if (isThere) answeredAt = performance.now();
      else if (performance.now() - answeredAt >= silentMs) this.#giveUp();
    }
  }

  #giveUp(): void {
    this.#silent.abort();
    this.onBreak();
  }
}

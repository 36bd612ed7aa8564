/** Finds a master that takes calls among several addresses, and stays with it until a call breaks. */

import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UserApi } from '#master';
import { codeOf, delay, inTime, linkSignals, retryDelayMs } from '#runtime';
import { type Connection, type RemoteMaster, remoteConnection } from './connection.ts';
import { RemoteError } from './errors.ts';
import type { MasterSource, ReachedMaster } from './fail-over.ts';
import { callerOf, callMethod } from './rpc-client.ts';

type MasterDescription = Awaited<ReturnType<UserApi['describeMaster']>>;

/** Masters whose HTTP API is served: those of a cluster. */
export interface RemoteMasters extends Omit<RemoteMaster, 'url'> {
  /**
   * Their addresses, each as `url` of {@link RemoteMaster}. Calls go to the first one, and on to the
   * next when that cannot be reached or ends.
   */
  readonly urls: readonly (string | URL)[];
}

/** For which masters are looked for before calls fail: longer than the log elects a leader. */
const reachMs = 15_000;
const retryDelays = { initialDelayMs: 100, maxDelayMs: 1000 };
/** In which a master must say that it is there. */
const answerMs = 5000;
/** How often it is asked while calls wait for it, and for how long it may be silent then. */
const watchMs = 3000;
const silentMs = 10_000;

export class MasterList implements MasterSource {
  readonly waitLimitMs: number = reachMs;
  readonly #connections: readonly Connection[];
  #current: ReachedMaster | undefined;
  #reaching: Promise<ReachedMaster> | undefined;
  /** Where the search begins. */
  #first = 0;

  /** @throws TypeError without an address, and as {@link remoteConnection} */
  constructor({ urls, ...access }: RemoteMasters) {
    if (urls.length === 0) throw new TypeError('urls: expected at least one address');
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
    return new RemoteError('ERR_SOCKET', 'the master takes no connections', { cause });
  }

  /** The first one that is ready; else the first one that answers. */
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

  /** @throws RemoteError where no master answers */
  async #visit(index: number): Promise<VisitedMaster> {
    const [connection] = this.#connections.slice(index);
    if (connection === undefined) throw new RangeError('an address was taken away');
    let description: MasterDescription | undefined;
    try {
      description = await describe(connection);
    } catch (error) {
      // Whatever else it refuses, it is there.
      if (isUnreachable(error)) throw error;
    }
    const leave = (): void => {
      if (this.#first === index) this.#first = (index + 1) % this.#connections.length;
    };
    return new VisitedMaster({ index, connection, description, onBreak: leave });
  }

  #noneReached(failures: readonly unknown[]): RemoteError {
    const [cause] = failures;
    const reasons = failures.map((it) => (it instanceof Error ? it.message : String(it)));
    const message = `none of ${this.#connections.length} masters can be reached: ${reasons.join('; ')}`;
    return new RemoteError('ERR_SOCKET', message, { cause, wasSent: false });
  }
}

/** What a master says of itself to whoever calls. @throws RemoteError */
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
  /** `undefined`: it does not tell this caller. */
  readonly description: MasterDescription | undefined;
  readonly onBreak: () => void;
}

/** A master that answered. While calls wait for it, it is asked whether it still does. */
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
  /** Fires when it answers nothing more: calls that wait for it break. */
  readonly #silent = new AbortController();
  readonly #plain: Connection;
  #waiting = 0;
  #watching: Promise<void> | undefined;

  constructor({ index, connection, description, onBreak }: Visit) {
    // Each call that is under way listens to them.
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

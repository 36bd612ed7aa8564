/**
 * Stored runs of commands or plans. Runs of this process are found by id, stored runs by
 * idempotency key. In a cluster, another member continues a run whose member fails.
 */

import type { ExtensionHost } from '#master';
import { Budget, KeyedMutex } from '#runtime';
import type { RowCodec } from '#store';
import { StoreError } from '#store';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import { identifyCaller } from './callers.ts';
import { ClusterRuns } from './cluster-runs.ts';
import type { CommandCaller } from './command-request.ts';
import { type IdempotencyKeyOwner, IdempotencyKeys } from './idempotency-keys.ts';
import { Releases } from './releases.ts';
import type { RunQuotas } from './run-quotas.ts';
import { RunRegistry } from './run-registry.ts';
import type { TrackedRun } from './tracked-run.ts';

interface Outcome {
  readonly status: string;
}

/** Run, as it is stored under its key. */
interface Stored {
  readonly id: string;
  readonly digest: string;
  /** Outcome. Absent while the run is active. */
  readonly outcome?: Outcome;
}

/** Data that another member needs to continue a run. */
interface Carried {
  readonly name: string;
  readonly owner: IdempotencyKeyOwner;
}

type AnyRun = TrackedRun<{ readonly type: string }, Outcome>;

export interface StoredRunsOptions<S, C, R> {
  readonly host: ExtensionHost;
  readonly quotas: RunQuotas;
  readonly storedRow: RowCodec<S>;
  readonly carriedRow: RowCodec<C>;
  /** Removes data from a row that exceeds 1 MiB. */
  readonly shorten: (stored: S) => S;
  /** Creates a local run that follows a run of another member. */
  readonly follow: (owner: IdempotencyKeyOwner, name: string, stored: S) => R;
  /** Returns the outcome of a run whose member stored none. */
  readonly lostOutcome: (run: R) => Outcome;
}

/**
 * Manages active runs, and finds them again.
 * @typeParam S - stored run
 * @typeParam C - data with which another member continues it
 * @typeParam R - run with its updates
 */
export class StoredRuns<S extends Stored, C extends Carried, R extends AnyRun> {
  readonly keys: IdempotencyKeys<S>;
  /** Active runs by caller. Each takes a place. */
  readonly places: Budget;
  readonly #options: StoredRunsOptions<S, C, R>;
  readonly #registry: RunRegistry<R>;
  readonly #underWay = new Set<Promise<void>>();
  readonly #byOwner = new KeyedMutex();
  #cluster: ClusterRuns<C> | undefined;

  constructor(options: StoredRunsOptions<S, C, R>) {
    const { host, quotas, storedRow, shorten } = options;
    this.#options = options;
    this.#registry = new RunRegistry(quotas.ended);
    this.places = new Budget(bridgeLimits.activeRuns, quotas.active);
    this.keys = new IdempotencyKeys(host.shared, storedRow, shorten);
  }

  /** Runs of all members. `undefined` without a cluster, and before {@link share}. */
  get cluster(): ClusterRuns<C> | undefined {
    return this.#cluster;
  }

  /** Number of active runs. */
  get active(): number {
    return this.#underWay.size;
  }

  /**
   * In a cluster, enables other members to continue runs.
   * @param kind - kind of the runner, the same on all members
   * @param resume - continues a run of another member
   */
  async share(kind: string, resume: (carried: C) => Promise<unknown>): Promise<void> {
    const { host, carriedRow: row } = this.#options;
    const { shared: state, logger: log } = host;
    this.#cluster = await ClusterRuns.open<C>({
      state,
      kind,
      row,
      resume: async (_id, carried) => void (await resume(carried)),
      find: (id) => this.#registry.get(id),
      log,
    });
  }

  /** Continues runs of earlier processes. Call it after the master's interface is available. */
  goOn(): void {
    this.#cluster?.rows.start();
  }

  /**
   * Serializes requests with the same key. Repeats the work if another member of the cluster used
   * the key first.
   */
  claim<T>(owner: IdempotencyKeyOwner, work: () => Promise<T>): Promise<T> {
    return this.#byOwner.run(JSON.stringify(owner), async () => {
      for (;;) {
        try {
          return await work();
        } catch (error) {
          if (!(error instanceof StoreError) || error.code !== 'ERR_REVISION') throw error;
        }
      }
    });
  }

  /**
   * Performs one run, and releases its resources at the end.
   * @param work - calls `reply` when the run is active or found; returns a function that reports
   * the end of the run, if there is one to report
   * @returns the argument of `reply`
   */
  carryOut<H>(
    work: (releases: Releases, reply: (handle: H) => void) => Promise<(() => void) | undefined>,
  ): Promise<H> {
    const releases = new Releases();
    return new Promise((reply, reject) => {
      work(releases, reply)
        .finally(() => releases.release())
        .then((report) => report?.())
        .catch(reject);
    });
  }

  /** Counts a run as active until it is released. */
  begin(run: R, releases: Releases): R {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underWay.add(promise);
    releases.add(() => {
      this.#underWay.delete(promise);
      resolve();
    });
    return this.#registry.add(run);
  }

  /** Registers a run that ended earlier. */
  addEnded(run: R, outcome: Outcome): R {
    run.end(outcome);
    return this.#registry.add(run);
  }

  /** Returns a stored run if it is active, on this or another member. */
  liveOf(owner: IdempotencyKeyOwner, name: string, stored: S): R | undefined {
    const live = this.#registry.get(stored.id);
    const isCurrent = live !== undefined && (this.#cluster?.isCurrent(live) ?? !live.isInterrupted);
    if (isCurrent) return live;
    const isElsewhere = this.#cluster?.rows.isElsewhere(stored.id) === true;
    return isElsewhere ? this.#followElsewhere(owner, name, stored) : undefined;
  }

  /**
   * Returns a run of this caller, from any member.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started it; AuthenticationError
   * ERR_EAUTH_TOKEN
   */
  async find(id: string, asked: CommandCaller): Promise<R> {
    const caller = await identifyCaller(this.#options.host, asked);
    if (this.#registry.get(id) === undefined) await this.#findElsewhere(id);
    return this.#registry.find(id, caller);
  }

  async #findElsewhere(id: string): Promise<void> {
    const carried = await this.#cluster?.find(id);
    const stored = carried && (await this.keys.get(carried.owner));
    if (carried === undefined || stored === undefined) return;
    if (this.#registry.get(id) !== undefined) return;
    this.#followElsewhere(carried.owner, carried.name, stored);
  }

  #followElsewhere(owner: IdempotencyKeyOwner, name: string, stored: S): R {
    const run = this.#registry.add(this.#options.follow(owner, name, stored));
    this.#cluster?.follow(
      run,
      async () => (await this.keys.get(owner))?.outcome ?? this.#options.lostOutcome(run),
    );
    return run;
  }

  /** Waits for the active runs, and releases the others to other members. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#cluster?.close();
  }
}

/** Returns the error of a run that was not started before its deadline. */
export function lateRunError(name: string): BridgeError {
  const text = `${name}: the run was not started before its deadline; repeat the request`;
  return new BridgeError('ERR_RUN_UNKNOWN', text);
}

/**
 * Active runs in memory and stored runs, for commands or plans. Active runs are found by their id,
 * stored runs by their idempotency key. In a cluster, another member continues the runs of a member
 * that fails.
 */

import type { ExtensionHost } from '#master';
import { Budget, KeyedMutex, memoryOf } from '#runtime';
import { type RowCodec, retryConflicts } from '#store';
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

/** Run in the form in which it is stored under its idempotency key. */
interface Stored {
  readonly id: string;
  readonly digest: string;
  /** Outcome. Absent if the run has not ended. */
  readonly outcome?: Outcome;
}

/**
 * Stored request of a run. If the member that executes the run fails, another cluster member
 * repeats the request to continue the run.
 */
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
  /**
   * Returns a smaller form of a stored run. Called if the row exceeds 1 MiB, or if the caller has
   * stored too many bytes.
   */
  readonly shorten: (stored: S) => S;
  /**
   * Creates the object that represents a run in this process while another member of the cluster
   * executes the run.
   */
  readonly follow: (owner: IdempotencyKeyOwner, name: string, stored: S) => R;
  /**
   * Returns the outcome to report for a run whose real outcome was never stored, because the
   * cluster member that executed the run failed.
   */
  readonly lostOutcome: (run: R) => Outcome;
}

/**
 * Manages the active and the stored runs of commands or plans.
 * @typeParam S - stored form of a run
 * @typeParam C - request with which another member continues a run
 * @typeParam R - run with its updates
 */
export class StoredRuns<S extends Stored, C extends Carried, R extends AnyRun> {
  readonly keys: IdempotencyKeys<S>;
  /** Number of active runs of each caller, with its limits. */
  readonly places: Budget;
  /** Counts the parameters of the active runs of each caller, in bytes. */
  readonly #parameterBytes = new Budget(bridgeLimits.activeParameterBytes);
  /** Counts the returns in the active runs of each caller, in bytes. */
  readonly #returnBytes = new Budget(bridgeLimits.activeReturnBytes);
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

  /**
   * Active runs of all cluster members. `undefined` without a cluster, or before {@link share} is
   * called.
   */
  get cluster(): ClusterRuns<C> | undefined {
    return this.#cluster;
  }

  /** Number of active runs. */
  get active(): number {
    return this.#underWay.size;
  }

  /**
   * Enables other members of a cluster to continue the runs of this member. Without a cluster, does
   * nothing.
   * @param kind - name of this kind of runs; it must be the same on all members
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

  /**
   * Continues runs that earlier processes started. Must be called after the master has started to
   * serve requests.
   */
  goOn(): void {
    this.#cluster?.rows.start();
  }

  /**
   * Performs work for a request with an idempotency key. Requests with the same key are handled one
   * after the other. If another cluster member stores the key first, calls `work` again.
   */
  claim<T>(owner: IdempotencyKeyOwner, work: () => Promise<T>): Promise<T> {
    return this.#byOwner.run(JSON.stringify(owner), () => retryConflicts(work));
  }

  /**
   * Calls `work`, and releases the resources of the run when the promise of `work` settles.
   * @param work - starts a run, or finds an existing one, and passes its handle to `reply`. If it
   * starts a run, its promise resolves when the run has ended. The promise's value is a function
   * that publishes the outcome. It is called after the resources were released
   * @returns the handle of the run
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

  /**
   * Counts the parameters of a run toward the limit on bytes of its caller, until
   * `releases.release()` is called.
   * @throws BridgeError ERR_COMMAND_BUSY if the limit is reached
   */
  holdParameters(caller: string, parameters: unknown, releases: Releases): void {
    const bytes = memoryOf(parameters);
    if (!this.#parameterBytes.tryTake(caller, bytes)) {
      const problem = 'the parameters of the active runs of this caller are too large; retry later';
      throw new BridgeError('ERR_COMMAND_BUSY', problem);
    }
    releases.add(() => this.#parameterBytes.release(caller, bytes));
  }

  /** Registers a run, and counts it as active until `releases.release()` is called. */
  begin(run: R, releases: Releases): R {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underWay.add(promise);
    releases.add(() => {
      this.#underWay.delete(promise);
      resolve();
    });
    releases.add(run.limitReturns(this.#returnBytes));
    return this.#registry.add(run);
  }

  /** Registers a run that has already ended. */
  addEnded(run: R, outcome: Outcome): R {
    run.end(outcome);
    return this.#registry.add(run);
  }

  /**
   * Returns the active run that a stored row describes. Returns `undefined` if the run is active
   * neither on this member nor on another.
   */
  liveOf(owner: IdempotencyKeyOwner, name: string, stored: S): R | undefined {
    const live = this.#registry.get(stored.id);
    const isCurrent = live !== undefined && (this.#cluster?.isCurrent(live) ?? !live.isInterrupted);
    if (isCurrent) return live;
    const isElsewhere = this.#cluster?.rows.isElsewhere(stored.id) === true;
    return isElsewhere ? this.#followElsewhere(owner, name, stored) : undefined;
  }

  /**
   * Returns a run that this caller started, on any member.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started the run;
   * AuthenticationError ERR_EAUTH_TOKEN
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

  /**
   * Waits until this process has no active runs. Then releases interrupted runs, so that other
   * members can continue them.
   */
  async close(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#cluster?.close();
  }
}

/** Returns the error for a run that could not be started before its deadline. */
export function lateRunError(name: string): BridgeError {
  const text = `${name}: the deadline of the run passed before it started; repeat the request`;
  return new BridgeError('ERR_RUN_UNKNOWN', text);
}

/**
 * Runs of commands or of plans: by id those of this process, by key those that are stored. In a
 * cluster, a run continues at another member when its member is gone.
 */

import type { ExtensionHost } from '#master';
import { Budget, KeyedMutex } from '#runtime';
import type { RowCodec } from '#store';
import { StoreError } from '#store';
import { BridgeError } from '../errors.ts';
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

/** A run as it is stored under its key. */
interface Stored {
  readonly id: string;
  readonly digest: string;
  /** Absent: the run is not over. */
  readonly outcome?: Outcome;
}

/** What another member needs to continue a run. */
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
  /** Leaves out what makes a row larger than 1 MiB. */
  readonly shorten: (stored: S) => S;
  /** Makes a run of another member known here. */
  readonly follow: (owner: IdempotencyKeyOwner, name: string, stored: S) => R;
  /** Outcome of a run of another member that left none. */
  readonly lostOutcome: (run: R) => Outcome;
}

/**
 * Keeps runs while they are under way, and finds them again.
 * @typeParam S - a run as it is stored
 * @typeParam C - what another member needs to continue it
 * @typeParam R - a run as its followers see it
 */
export class StoredRuns<S extends Stored, C extends Carried, R extends AnyRun> {
  readonly keys: IdempotencyKeys<S>;
  /** Places of callers: each run under way takes one. */
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
    this.places = new Budget(quotas.active);
    this.keys = new IdempotencyKeys(host.shared, storedRow, shorten);
  }

  /** The runs of all members; `undefined` if the master is in no cluster, or before {@link share}. */
  get cluster(): ClusterRuns<C> | undefined {
    return this.#cluster;
  }

  /** Number of runs under way. */
  get active(): number {
    return this.#underWay.size;
  }

  /**
   * Lets runs continue at other members, if there are any.
   * @param kind - which of a member's runners this is; the same at all members
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

  /** Continues the runs that other processes left. Called once the master's interface is there. */
  goOn(): void {
    this.#cluster?.rows.start();
  }

  /**
   * Lets requests with the same key wait for each other. Repeats the work if another member of the
   * cluster was first with the key.
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
   * Carries out one run, and releases at its end what it holds.
   * @param work - calls `reply` once the run is under way or found. It returns what reports the end of
   * the run, if there is anything to report
   * @returns what `reply` was called with
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

  /** Counts a run as under way until it is released. */
  begin(run: R, releases: Releases): R {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underWay.add(promise);
    releases.add(() => {
      this.#underWay.delete(promise);
      resolve();
    });
    return this.#registry.add(run);
  }

  /** Makes a run known that was over before. */
  addEnded(run: R, outcome: Outcome): R {
    run.end(outcome);
    return this.#registry.add(run);
  }

  /** Returns a stored run if it is under way, here or at another member. */
  liveOf(owner: IdempotencyKeyOwner, name: string, stored: S): R | undefined {
    const live = this.#registry.get(stored.id);
    const isCurrent = live !== undefined && (this.#cluster?.isCurrent(live) ?? !live.isInterrupted);
    if (isCurrent) return live;
    const isElsewhere = this.#cluster?.rows.isElsewhere(stored.id) === true;
    return isElsewhere ? this.#followElsewhere(owner, name, stored) : undefined;
  }

  /**
   * Returns a run that this caller began, at whichever member.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller began it; AuthenticationError
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

  /** Waits for the runs under way, and leaves the rest to other members. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#cluster?.close();
  }
}

/** Nothing of the run was done, and its caller waits no more. */
export function lateRunError(name: string): BridgeError {
  const text = `${name}: it was not begun before its deadline; ask again`;
  return new BridgeError('ERR_RUN_UNKNOWN', text);
}

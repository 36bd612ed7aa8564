/** Makes the runs of a cluster survive the failure of a member: another member continues them. */

import type { Logger } from 'pino';
import type { SharedArea, StateOperation } from '#master';
import { inMilliseconds } from '#runtime';
import type { RowCodec } from '#store';
import { type HeldRow, HeldRows } from '#store';
import { RunUpdates } from './run-updates.ts';
import type { TrackedRun } from './tracked-run.ts';

/**
 * Maximum time to wait until the store reports the row of another member's run, in milliseconds.
 * The row contains the request of the run.
 */
const hearMs = 500;

export interface ClusterRunsOptions<C> {
  readonly state: SharedArea;
  /** Kind of the runs, for example `commands`. It is part of the keys of their rows in the store. */
  readonly kind: string;
  /**
   * Codec of the stored request of a run. To continue the run, another member repeats this request.
   */
  readonly row: RowCodec<C>;
  /**
   * Continues a run that another process has started. If the promise rejects, this process does not
   * try again.
   */
  readonly resume: (id: string, call: C) => Promise<void>;
  /**
   * Returns the object that represents a run in this process, or `undefined` if there is none.
   * Another process may execute the run.
   */
  readonly find: (id: string) => AnyRun | undefined;
  readonly log: Logger;
}

type AnyRun = TrackedRun<{ readonly type: string }, { readonly status: string }>;

/**
 * Active runs of all cluster members. The store contains one encrypted row for each run, with the
 * request that started it. The updates of a run are sent to the members whose clients follow it.
 * @typeParam C - request with which another member can repeat the run
 */
export class ClusterRuns<C extends object> {
  /** Table of the active runs in the store, with one row for each run. */
  readonly rows: HeldRows;
  readonly #options: ClusterRunsOptions<C>;
  readonly #updates: RunUpdates;
  readonly #waiting = new Map<string, Set<() => void>>();
  /**
   * Callbacks by id of the run. Each is called when this member receives the stored row of the run.
   */
  readonly #expected = new Map<string, () => void>();

  private constructor(options: ClusterRunsOptions<C>, cluster: NonNullable<SharedArea['cluster']>) {
    this.#options = options;
    const { state, kind, resume, find, log } = options;
    this.rows = new HeldRows({
      state,
      cluster,
      prefix: ['runs', kind],
      resume: async (id, body, cancel) => {
        await resume(id, this.#unseal(id, body));
        if (cancel !== undefined) find(id)?.cancel(cancel);
      },
      onChange: (id, row) => this.#note(id, row),
      log,
    });
    this.#updates = new RunUpdates({ cluster, kind, process: this.rows.process, find });
  }

  /** Opens the table of active runs. Returns `undefined` if there is no cluster. */
  static async open<C extends object>(
    options: ClusterRunsOptions<C>,
  ): Promise<ClusterRuns<C> | undefined> {
    const { cluster } = options.state;
    if (cluster === undefined) return undefined;
    const runs = new ClusterRuns(options, cluster);
    await runs.rows.follow();
    return runs;
  }

  /**
   * Whether the run object in memory is up to date. It is outdated if the run was interrupted. It
   * is also outdated if it follows the run of another process, and that process no longer executes
   * the run.
   */
  isCurrent(run: AnyRun): boolean {
    return !run.isInterrupted && (this.rows.isElsewhere(run.id) || !this.#updates.follows(run));
  }

  /**
   * Adds the updates and the outcome of another member's run to a local copy of the run. Forwards a
   * cancellation to that member.
   * @param outcome - reads the outcome after the run ended
   */
  follow<U extends { readonly type: string }, O extends { readonly status: string }>(
    run: TrackedRun<U, O>,
    outcome: () => Promise<O>,
  ): void {
    const { id } = run;
    const { log } = this.#options;
    const cancel = (): void => {
      this.rows.cancel(id, run.undoesOnCancel).catch((error: unknown) => {
        log.error({ run: id, err: error }, 'could not ask another cluster member to cancel a run');
      });
    };
    run.cancelled.addEventListener('abort', cancel, { once: true });
    this.#updates.follow(run, this.rows.get(id)?.process);
    const follow = async (): Promise<void> => {
      await this.over(id);
      await this.#updates.rest(id);
      run.end(await outcome());
    };
    follow().catch((error: unknown) => run.fail(error));
  }

  /**
   * Resolves when the run is no longer active on any cluster member. Resolves at once if this
   * member knows no active run with this id.
   */
  async over(id: string): Promise<void> {
    if (this.rows.get(id) === undefined) return;
    await new Promise<void>((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting.add(resolve));
    });
  }

  /**
   * Returns the request that started an active run, or `undefined` if there is no such run. If this
   * member has not received the stored row of the run yet, waits for it up to {@link hearMs}.
   */
  async find(id: string): Promise<C | undefined> {
    if (this.rows.get(id) === undefined) await this.#heard(id);
    const body = await this.rows.read(id);
    return body && this.#unseal(id, body);
  }

  async #heard(id: string): Promise<void> {
    const heard = new Promise<void>((resolve) => {
      this.#expected.set(id, resolve);
    });
    await inMilliseconds(heard, hearMs);
    this.#expected.delete(id);
  }

  /**
   * Returns the store operations that make this process the owner of a run. Writing them fails if
   * another process owns the run.
   */
  take(id: string, call: C): StateOperation[] {
    const sealed = this.#options.state.seal(this.#options.row.encode(call));
    return this.rows.take(id, sealed);
  }

  /** Releases the runs of this process, so that other members can continue them. */
  async close(): Promise<void> {
    this.#updates.close();
    await this.rows.close();
  }

  #unseal(id: string, body: Uint8Array): C {
    const { state, kind, row } = this.#options;
    return row.decode({ key: ['runs', kind, id], value: state.unseal(body) });
  }

  #note(id: string, row: HeldRow | undefined): void {
    if (row === undefined) {
      for (const resolve of this.#waiting.get(id) ?? []) resolve();
      this.#waiting.delete(id);
      return;
    }
    this.#expected.get(id)?.();
    if (row.process !== '') this.#updates.passOn(id, row.process);
    const isOwn = row.process === this.rows.process;
    if (isOwn && row.cancel !== undefined) this.#options.find(id)?.cancel(row.cancel);
  }
}

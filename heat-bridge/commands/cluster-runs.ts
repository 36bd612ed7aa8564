/** Runs that the members of a cluster have not ended: another one goes on when a member is gone. */

import type { Logger } from 'pino';
import type { SharedArea, StateOperation } from '#master';
import { inMilliseconds } from '#runtime';
import type { RowCodec } from '#store';
import { type HeldRow, HeldRows } from '#store';
import { RunUpdates } from './run-updates.ts';
import type { TrackedRun } from './tracked-run.ts';

/** A member may hear so much later than others of a run that has begun. */
const hearMs = 500;

export interface ClusterRunsOptions<C> {
  readonly state: SharedArea;
  /** Part of the key of its rows. */
  readonly kind: string;
  /** What it takes to ask for a run again, in its row. */
  readonly row: RowCodec<C>;
  /** Goes on with a run that another process began; it is forgotten where this rejects. */
  readonly resume: (id: string, call: C) => Promise<void>;
  /** A run that is known here, of whichever process. */
  readonly find: (id: string) => AnyRun | undefined;
  readonly log: Logger;
}

type AnyRun = TrackedRun<{ readonly type: string }, { readonly status: string }>;

/**
 * A run has a row, with what it takes to ask for it again, sealed; what it tells reaches who follows
 * it at another member.
 * @typeParam C - what it takes to ask for a run again
 */
export class ClusterRuns<C extends object> {
  /** A row for each run that is not over. */
  readonly rows: HeldRows;
  readonly #options: ClusterRunsOptions<C>;
  readonly #updates: RunUpdates;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Told when a run is heard of that somebody asks for. */
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

  /** `undefined`: there is no other member. */
  static async open<C extends object>(
    options: ClusterRunsOptions<C>,
  ): Promise<ClusterRuns<C> | undefined> {
    const { cluster } = options.state;
    if (cluster === undefined) return undefined;
    const runs = new ClusterRuns(options, cluster);
    await runs.rows.follow();
    return runs;
  }

  /** Whether a run that is known here is the one that goes on, or went on to its end. */
  isCurrent(run: AnyRun): boolean {
    return !run.isInterrupted && (this.rows.isElsewhere(run.id) || !this.#updates.follows(run));
  }

  /**
   * Lets a run tell what another member tells of it, and in the end its outcome; who cancels it ends
   * it there.
   * @param outcome - reads it when it is over
   */
  follow<U extends { readonly type: string }, O extends { readonly status: string }>(
    run: TrackedRun<U, O>,
    outcome: () => Promise<O>,
  ): void {
    const { id } = run;
    const { log } = this.#options;
    const cancel = (): void => {
      this.rows.cancel(id, run.undoesOnCancel).catch((error: unknown) => {
        log.error({ run: id, err: error }, 'a run was not cancelled');
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

  /** Resolves when nobody runs it any more. */
  async over(id: string): Promise<void> {
    if (this.rows.get(id) === undefined) return;
    await new Promise<void>((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting.add(resolve));
    });
  }

  /** What it takes to ask for a run again that is not over; waits a moment to hear of it. */
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

  /** Makes this process the one that runs it; nothing is written where another one does. */
  take(id: string, call: C): StateOperation[] {
    const sealed = this.#options.state.seal(this.#options.row.encode(call));
    return this.rows.take(id, sealed);
  }

  /** Leaves what this process runs to the others. */
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

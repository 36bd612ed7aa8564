/** Runs that the members of a cluster have not ended: another one goes on when a member is gone. */

import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import {
  readMarkedJson,
  type SharedArea,
  type StateChange,
  type StateOperation,
  StoreError,
  writeMarkedJson,
} from '../../master/index.ts';
import { inMilliseconds } from '../../runtime/index.ts';
import { RunUpdates } from './run-updates.ts';
import type { TrackedRun } from './tracked-run.ts';

const lookMs = 5000;
/** A member may hear so much later than others of a run that has begun. */
const hearMs = 500;
const nobody = '';
/** That no row has. */
const noRevision = Number.MAX_SAFE_INTEGER;

/** Who goes on with a run; as plain text, to be looked at by every member. */
interface RunRow {
  readonly member: string;
  /** Of the process; empty: whoever takes it. */
  readonly process: string;
  readonly revision: number;
  /** Somebody wants it to end; whether what is done is taken back. */
  readonly cancel?: { readonly undo: boolean };
}

export interface ClusterRunsOptions<C> {
  readonly state: SharedArea;
  /** Part of the key of its rows. */
  readonly kind: string;
  /** Goes on with a run that another process began; it is forgotten where this rejects. */
  readonly resume: (id: string, call: C) => Promise<void>;
  /** A run that is known here, of whichever process. */
  readonly find: (id: string) => AnyRun | undefined;
  readonly log: Logger;
}

type AnyRun = TrackedRun<{ readonly type: string }, { readonly status: string }>;

/** A run of this process, while it goes on. */
interface HeldRun {
  /** Fires when another process has it. */
  readonly lost: AbortSignal;
  readonly release: () => void;
}

/**
 * A run has a row, with what it takes to ask for it again. Whoever runs it is named there, and whoever
 * is named no longer writes nothing of it.
 * @typeParam C - what it takes to ask for a run again
 */
export class ClusterRuns<C extends object> {
  readonly #options: ClusterRunsOptions<C>;
  readonly #process = randomUUID();
  readonly #rows = new Map<string, RunRow>();
  readonly #updates: RunUpdates;
  /** Ends what this process does of a run that another one has now. */
  readonly #held = new Map<string, AbortController>();
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Told when a run is heard of that somebody asks for. */
  readonly #expected = new Map<string, () => void>();
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(options: ClusterRunsOptions<C>, cluster: NonNullable<SharedArea['cluster']>) {
    this.#options = options;
    const { kind, find } = options;
    this.#updates = new RunUpdates({ cluster, kind, process: this.#process, find });
    this.#timer = setInterval(() => this.#look(), lookMs).unref();
  }

  /** `undefined`: there is no other member. */
  static async open<C extends object>(
    options: ClusterRunsOptions<C>,
  ): Promise<ClusterRuns<C> | undefined> {
    const { state, kind } = options;
    if (state.cluster === undefined) return undefined;
    const runs = new ClusterRuns(options, state.cluster);
    await state.follow(['runs', kind], (change) => runs.#note(change));
    return runs;
  }

  /** Goes on with what this member ran before, and with what others leave. */
  start(): void {
    this.#options.state.cluster?.onHeld(() => this.#look());
    this.#look();
  }

  /** Whether another member runs it. */
  isElsewhere(id: string): boolean {
    const row = this.#rows.get(id);
    return row !== undefined && row.process !== this.#process && !this.#isFree(row);
  }

  /** Whether a run that is known here is the one that goes on, or went on to its end. */
  isCurrent(run: AnyRun): boolean {
    return !run.isInterrupted && (this.isElsewhere(run.id) || !this.#updates.follows(run));
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
      this.cancel(id, run.undoesOnCancel).catch((error: unknown) => {
        log.error({ run: id, err: error }, 'a run was not cancelled');
      });
    };
    run.cancelled.addEventListener('abort', cancel, { once: true });
    this.#updates.follow(run, this.#rows.get(id)?.process);
    const follow = async (): Promise<void> => {
      await this.over(id);
      await this.#updates.rest(id);
      run.end(await outcome());
    };
    follow().catch((error: unknown) => run.fail(error));
  }

  /** A run of this process begins. */
  hold(id: string): HeldRun {
    const lost = new AbortController();
    this.#held.set(id, lost);
    const release = (): void => {
      if (this.#held.get(id) === lost) this.#held.delete(id);
    };
    return { lost: lost.signal, release };
  }

  /** Resolves when nobody runs it any more. */
  async over(id: string): Promise<void> {
    if (!this.#rows.has(id)) return;
    await new Promise<void>((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting.add(resolve));
    });
  }

  /** What it takes to ask for a run again that is not over; waits a moment to hear of it. */
  async find(id: string): Promise<C | undefined> {
    if (!this.#rows.has(id)) await this.#heard(id);
    const entry = await this.#options.state.get(this.#key(id));
    return entry === undefined ? undefined : this.#unpack(entry.value).call;
  }

  async #heard(id: string): Promise<void> {
    const heard = new Promise<void>((resolve) => {
      this.#expected.set(id, resolve);
    });
    await inMilliseconds(heard, hearMs);
    this.#expected.delete(id);
  }

  /** Has whoever runs it end it; nothing happens where it is over. */
  async cancel(id: string, undo: boolean): Promise<void> {
    const { state } = this.#options;
    for (;;) {
      const entry = await state.get(this.#key(id));
      if (entry === undefined) return;
      const { call, row } = this.#unpack(entry.value);
      const value = this.#pack(call, { ...row, cancel: { undo } });
      try {
        await state.write([{ op: 'put', key: this.#key(id), value, ifRevision: entry.revision }]);
        return;
      } catch (error) {
        if (!isSecond(error)) throw error;
      }
    }
  }

  /** Forgets a run that cannot go on, of this process or of one that is gone. */
  async forget(id: string): Promise<void> {
    try {
      await this.whileRun(id, async () => void (await this.#options.state.write(this.endLeft(id))));
    } catch (error) {
      if (!isSecond(error)) throw error;
    }
  }

  /** Makes this process the one that runs it; nothing is written where another one does. */
  take(id: string, call: C): StateOperation[] {
    const { member = nobody } = this.#options.state.cluster ?? {};
    const value = this.#pack(call, { member, process: this.#process });
    const ifRevision = this.#rows.get(id)?.revision ?? 0;
    // protection: runs-of-one-member
    return [{ op: 'put', key: this.#key(id), value, ifRevision }];
  }

  /** Lets a write fail where another process runs it by now. */
  condition(id: string): StateOperation[] {
    return [{ op: 'require', key: this.#key(id), ifRevision: this.#ownRevision(id) }];
  }

  /** Ends it, unless another process runs it by now. */
  end(id: string): StateOperation[] {
    return [{ op: 'delete', key: this.#key(id), ifRevision: this.#ownRevision(id) }];
  }

  /** Ends what no other process runs; nothing is written where another one does. */
  endLeft(id: string): StateOperation[] {
    const row = this.#rows.get(id);
    if (row === undefined) return [];
    if (row.process === this.#process || !this.#isFree(row)) return this.end(id);
    return [{ op: 'delete', key: this.#key(id), ifRevision: row.revision }];
  }

  #ownRevision(id: string): number {
    const row = this.#rows.get(id);
    // protection: runs-another-has
    if (row?.process !== this.#process) return noRevision;
    return row.revision;
  }

  /**
   * Writes, with {@link condition} or {@link end}, as long as this process runs it: also where the row
   * changes meanwhile because somebody cancels it.
   * @throws StoreError ERR_REVISION once another process runs it
   */
  async whileRun(id: string, write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (!isSecond(error) || this.#rows.get(id)?.process !== this.#process) throw error;
      }
    }
  }

  /** Leaves what this process runs to the others. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#updates.close();
    await this.#looking;
    const { state, log } = this.#options;
    for (const [id, row] of this.#rows) {
      if (row.process !== this.#process) continue;
      const entry = await state.get(this.#key(id));
      if (entry?.revision !== row.revision) continue;
      const { call, row: head } = this.#unpack(entry.value);
      const value = this.#pack(call, { ...head, process: nobody });
      const ifRevision = row.revision;
      await state
        .write([{ op: 'put', key: this.#key(id), value, ifRevision }])
        .catch((error: unknown) => {
          log.warn({ run: id, err: error }, 'a run was not left to the other members at once');
        });
    }
  }

  #key(id: string): readonly string[] {
    return ['runs', this.#options.kind, id];
  }

  #pack(call: C, row: Omit<RunRow, 'revision'>): Uint8Array {
    const sealed = this.#options.state.seal(Buffer.from(writeMarkedJson(call)));
    return Buffer.concat([Buffer.from(`${JSON.stringify(row)}\n`), sealed]);
  }

  #unpack(value: Uint8Array): { readonly row: Omit<RunRow, 'revision'>; readonly call: C } {
    const end = value.indexOf(0x0a);
    const sealed = this.#options.state.unseal(value.subarray(end + 1));
    const call = readMarkedJson(Buffer.from(sealed).toString('utf8')) as unknown as C; // by #pack
    return { row: headOf(value), call };
  }

  #note(change: StateChange): void {
    const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    const before = this.#rows.get(id);
    if (change.type === 'put') {
      const { value, revision } = change.entry;
      const row = { ...headOf(value), revision };
      this.#rows.set(id, row);
      this.#expected.get(id)?.();
      if (row.process === nobody) this.#look();
      else this.#updates.passOn(id, row.process);
      const isOwn = row.process === this.#process;
      if (before?.process === this.#process && !isOwn) this.#held.get(id)?.abort();
      if (isOwn && row.cancel !== undefined) this.#options.find(id)?.cancel(row.cancel);
      return;
    }
    this.#rows.delete(id);
    for (const resolve of this.#waiting.get(id) ?? []) resolve();
    this.#waiting.delete(id);
  }

  /** Whether whoever ran it is gone. */
  #isFree({ member, process }: RunRow): boolean {
    if (process === nobody) return true;
    const { cluster } = this.#options.state;
    // A process of this member before this one.
    if (member === cluster?.member) return process !== this.#process;
    return cluster?.isGone(member) === true;
  }

  #look(): void {
    if (this.#isClosed) return;
    this.#looking = this.#looking.then(async () => {
      const { cluster } = this.#options.state;
      for (const [id, row] of [...this.#rows]) {
        const isOwn = row.member === cluster?.member && row.process !== nobody;
        if (this.#isClosed || !this.#isFree(row) || !(isOwn || cluster?.isHeld === true)) continue;
        await this.#resume(id);
      }
    });
  }

  async #resume(id: string): Promise<void> {
    const { state, resume, find, log } = this.#options;
    try {
      const entry = await state.get(this.#key(id));
      if (entry === undefined) return;
      const { call, row } = this.#unpack(entry.value);
      log.info({ run: id }, 'a run goes on that another process began');
      await resume(id, call).catch(async (error: unknown) => {
        if (error instanceof StoreError) throw error;
        log.error({ run: id, err: error }, 'a run of another process cannot go on');
        await this.forget(id);
      });
      if (row.cancel !== undefined) find(id)?.cancel(row.cancel);
    } catch (error) {
      // Another member was first, or nothing can be written now: the next look sees.
      log.debug({ run: id, err: error }, 'a run was not taken over');
    }
  }
}

/** Another member was first. */
function isSecond(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}

function headOf(value: Uint8Array): Omit<RunRow, 'revision'> {
  const head = Buffer.from(value.subarray(0, value.indexOf(0x0a))).toString('utf8');
  return JSON.parse(head);
}

/**
 * Rows of unfinished work in a cluster. One process performs the work. After it has stopped,
 * another process continues the work.
 */

import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import { StoreError } from './errors.ts';
import { Bytes, defineRow, fromJson, type RowOf } from './row-codec.ts';
import { type Change, type Entry, isConflict, type Key, type Operation } from './store.ts';

const lookMs = 5000;
const noProcess = '';
/** Revision number that no row has. A write that requires this revision always fails. */
const noRevision = Number.MAX_SAFE_INTEGER;

type RowOperation = Exclude<Operation, { readonly op: 'append' }>;

/** Access to rows that all members of the cluster read and write. */
interface RowState {
  get(key: Key): Promise<Entry | undefined>;
  write(operations: readonly RowOperation[]): Promise<number>;
  /** Calls the listener for each row below a prefix, and then for each change. */
  follow(prefix: Key, listener: (change: Change) => void): Promise<void>;
}

interface RowCluster {
  /** Name of this member. */
  readonly member: string;
  isGone(member: string): boolean;
  /**
   * Whether this member currently performs the tasks that exactly one member performs for the whole
   * cluster.
   */
  readonly isHeld: boolean;
  onHeld(listener: () => void): void;
}

/**
 * Row of unfinished work: the process that performs the work, and the data of the module that
 * started the work.
 */
const heldRow = defineRow({
  name: 'held work',
  schema: Type.Object({
    /** Name of the member that performs the work. */
    member: Type.String(),
    /** Id of the process that performs the work. Empty if any process may take over the work. */
    process: Type.String(),
    /**
     * Present if cancelling the work was requested. `undo` states whether to undo what was already
     * done.
     */
    cancel: Type.Optional(Type.Object({ undo: Type.Boolean() })),
    body: Bytes,
  }),
  unversioned: (bytes) => {
    const end = bytes.indexOf(0x0a);
    return { ...Object(fromJson(bytes.subarray(0, end))), body: bytes.subarray(end + 1) };
  },
});

type RowHead = Omit<RowOf<typeof heldRow>, 'body'>;

/**
 * A row of unfinished work without its data, in the latest version that this process has received.
 */
export interface HeldRow extends RowHead {
  readonly revision: number;
}

export interface HeldRowsOptions {
  readonly state: RowState;
  readonly cluster: RowCluster;
  /** Prefix of the keys of the rows. */
  readonly prefix: Key;
  /**
   * Continues work that another process has left. The function calls {@link HeldRows.take} to take
   * over the row of this work. If the function rejects with an error other than a StoreError, the
   * row is deleted.
   */
  readonly resume: (id: string, body: Uint8Array, cancel: RowHead['cancel']) => Promise<void>;
  /** Called when a row has changed, with `undefined` if it was deleted. */
  readonly onChange?: (id: string, row: HeldRow | undefined) => void;
  readonly log: Logger;
}

/** Work that this process is performing. */
export interface Hold {
  /** Aborted when another process has taken over the work. */
  readonly lost: AbortSignal;
  readonly release: () => void;
}

/**
 * Rows of unfinished work. Each row names the process that performs the work. Only that process can
 * write to the row. A process that was replaced can no longer write to it.
 */
export class HeldRows {
  /** Id of this process in the rows. */
  readonly process: string = randomUUID();
  readonly #options: HeldRowsOptions;
  readonly #rows = new Map<string, HeldRow>();
  /**
   * Abort controllers of the work that this process performs for rows, by row id. If another
   * process takes over a row, this process aborts its work for the row.
   */
  readonly #held = new Map<string, AbortController>();
  /** Ids of rows that could not be deleted yet. */
  readonly #forgotten = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: HeldRowsOptions) {
    this.#options = options;
  }

  /** Loads all rows and follows their changes. Resolves when all rows are loaded. */
  async follow(): Promise<void> {
    const { state, prefix } = this.#options;
    await state.follow(prefix, (change) => this.#note(change));
  }

  /**
   * Starts to continue the work of earlier processes of this member, and the work of members that
   * have stopped.
   */
  start(): void {
    this.#timer = setInterval(() => this.#look(), lookMs).unref();
    this.#options.cluster.onHeld(() => this.#look());
    this.#look();
  }

  get(id: string): HeldRow | undefined {
    return this.#rows.get(id);
  }

  /** Whether another running process performs the work with this id. */
  isElsewhere(id: string): boolean {
    const row = this.#rows.get(id);
    return row !== undefined && row.process !== this.process && !this.#isFree(row);
  }

  /**
   * Registers work that this process starts. The returned signal aborts when another process takes
   * over the work.
   */
  hold(id: string): Hold {
    const lost = new AbortController();
    this.#held.set(id, lost);
    const release = (): void => {
      if (this.#held.get(id) === lost) this.#held.delete(id);
    };
    return { lost: lost.signal, release };
  }

  /** Returns the stored data of unfinished work, or `undefined` if the work has ended. */
  async read(id: string): Promise<Uint8Array | undefined> {
    const entry = await this.#options.state.get(this.#key(id));
    return entry === undefined ? undefined : heldRow.decode(entry).body;
  }

  /**
   * Asks the process that performs the work to cancel it. Does nothing if the work has finished.
   */
  async cancel(id: string, undo: boolean): Promise<void> {
    const { state } = this.#options;
    for (;;) {
      const entry = await state.get(this.#key(id));
      if (entry === undefined) return;
      const value = heldRow.encode({ ...heldRow.decode(entry), cancel: { undo } });
      try {
        await state.write([{ op: 'put', key: this.#key(id), value, ifRevision: entry.revision }]);
        return;
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    }
  }

  /**
   * Deletes the row of work that cannot be continued. The work belonged to this process or to a
   * process that has stopped. If the deletion fails, it is retried.
   */
  async forget(id: string): Promise<void> {
    this.#forgotten.add(id);
    try {
      await this.whileOwn(id, async () => void (await this.#options.state.write(this.endLeft(id))));
      this.#forgotten.delete(id);
    } catch (error) {
      if (isConflict(error)) this.#forgotten.delete(id);
      else
        this.#options.log.debug(
          { run: id, err: error },
          'cannot delete the stored state of a run; the deletion will be retried',
        );
    }
  }

  /**
   * Returns the operation that assigns the work to this process. The write of this operation fails
   * if the row of the work has changed since this process last received that row.
   */
  take(id: string, body: Uint8Array): RowOperation[] {
    const { member } = this.#options.cluster;
    const value = heldRow.encode({ member, process: this.process, body });
    const ifRevision = this.#rows.get(id)?.revision ?? 0;
    return [{ op: 'put', key: this.#key(id), value, ifRevision }];
  }

  /** Returns a condition that makes a write fail if the work is assigned to another process. */
  condition(id: string): RowOperation[] {
    return [{ op: 'require', key: this.#key(id), ifRevision: this.#ownRevision(id) }];
  }

  /**
   * Returns the operation that deletes the row of work that this process has ended. The write fails
   * if the work is assigned to another process.
   */
  end(id: string): RowOperation[] {
    return [{ op: 'delete', key: this.#key(id), ifRevision: this.#ownRevision(id) }];
  }

  /**
   * Returns the operation that deletes a row of work. The work must belong to this process, or to a
   * process that has stopped. The write fails if another running process performs the work.
   */
  endLeft(id: string): RowOperation[] {
    const row = this.#rows.get(id);
    if (row === undefined) return [];
    if (row.process === this.process || !this.#isFree(row)) return this.end(id);
    return [{ op: 'delete', key: this.#key(id), ifRevision: row.revision }];
  }

  /**
   * Performs a write that may succeed only while the work belongs to this process. It must contain
   * an operation that {@link condition} or {@link end} returned. Repeats the write if another
   * change of the row came first, for example a cancel request.
   * @throws StoreError ERR_REVISION once the work is assigned to another process
   */
  async whileOwn(id: string, write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (!isConflict(error) || this.#rows.get(id)?.process !== this.process) throw error;
      }
    }
  }

  /** Releases the work of this process, so that other members can continue it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#looking;
    const { state, log } = this.#options;
    for (const [id, row] of this.#rows) {
      if (row.process !== this.process) continue;
      const entry = await state.get(this.#key(id));
      if (entry?.revision !== row.revision) continue;
      const value = heldRow.encode({ ...heldRow.decode(entry), process: noProcess });
      const ifRevision = row.revision;
      await state
        .write([{ op: 'put', key: this.#key(id), value, ifRevision }])
        .catch((error: unknown) => {
          log.warn(
            { run: id, err: error },
            'cannot release an unfinished run; the run continues after this member restarts, or after another member detects that this member is gone',
          );
        });
    }
  }

  #key(id: string): Key {
    return [...this.#options.prefix, id];
  }

  #ownRevision(id: string): number {
    const row = this.#rows.get(id);
    if (row?.process !== this.process) return noRevision;
    return row.revision;
  }

  #note(change: Change): void {
    const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    if (change.type === 'put') {
      const before = this.#rows.get(id);
      const { body: _body, ...head } = heldRow.decode(change.entry);
      const row = { ...head, revision: change.entry.revision };
      this.#rows.set(id, row);
      if (before?.process === this.process && row.process !== this.process) {
        this.#held.get(id)?.abort();
        this.#held.delete(id);
      }
      if (row.process === noProcess) this.#look();
      this.#options.onChange?.(id, row);
      return;
    }
    this.#rows.delete(id);
    this.#options.onChange?.(id, undefined);
  }

  /** Whether the process in the row has stopped, so that another process may continue the work. */
  #isFree({ member, process }: HeldRow): boolean {
    if (process === noProcess) return true;
    const { cluster } = this.#options;
    // The row names an earlier process of this member.
    if (member === cluster.member) return process !== this.process;
    return cluster.isGone(member);
  }

  #look(): void {
    if (this.#isClosed || this.#timer === undefined) return;
    this.#looking = this.#looking.then(async () => {
      const { cluster } = this.#options;
      for (const id of [...this.#forgotten]) await this.forget(id);
      for (const [id, row] of [...this.#rows]) {
        const isOwn = row.member === cluster.member && row.process !== noProcess;
        if (this.#isClosed || !this.#isFree(row) || !(isOwn || cluster.isHeld)) continue;
        await this.#resume(id);
      }
    });
  }

  async #resume(id: string): Promise<void> {
    const { state, resume, log } = this.#options;
    try {
      const entry = await state.get(this.#key(id));
      if (entry === undefined) return;
      const { body, ...head } = heldRow.decode(entry);
      log.info({ run: id }, 'continuing a run that another process started');
      await resume(id, body, head.cancel).catch(async (error: unknown) => {
        if (error instanceof StoreError) throw error;
        log.error({ run: id, err: error }, 'cannot continue a run that another process started');
        await this.forget(id);
      });
    } catch (error) {
      // Another member was faster, or the store cannot be written now. The next check retries.
      log.debug(
        { run: id, err: error },
        'cannot take over a run of another process; the next check retries',
      );
    }
  }
}

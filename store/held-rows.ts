/** Work that one process of a cluster does, and another one goes on with when that one is gone. */

import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import { StoreError } from './errors.ts';
import { Bytes, defineRow, fromJson, type RowOf } from './row-codec.ts';
import type { Change, Entry, Key, Operation } from './store.ts';

const lookMs = 5000;
const nobody = '';
/** That no row has. */
const noRevision = Number.MAX_SAFE_INTEGER;

type RowOperation = Exclude<Operation, { readonly op: 'append' }>;

/** Rows that all members read and write. */
interface RowState {
  get(key: Key): Promise<Entry | undefined>;
  write(operations: readonly RowOperation[]): Promise<number>;
  /** Tells each row below a prefix, and from then on each change of one. */
  follow(prefix: Key, listener: (change: Change) => void): Promise<void>;
}

interface RowCluster {
  /** Name of this member. */
  readonly member: string;
  isGone(member: string): boolean;
  /** Whether this member does now what one of them does for all. */
  readonly isHeld: boolean;
  onHeld(listener: () => void): void;
}

/** Rows of work that is not over: who does it, and the bytes of the module whose work it is. */
const heldRow = defineRow({
  name: 'held work',
  schema: Type.Object({
    /** Name of the member that does it. */
    member: Type.String(),
    /** Of the process; empty: whoever takes it. */
    process: Type.String(),
    /** Somebody wants it to end; whether what is done is taken back. */
    cancel: Type.Optional(Type.Object({ undo: Type.Boolean() })),
    body: Bytes,
  }),
  unversioned: (bytes) => {
    const end = bytes.indexOf(0x0a);
    return { ...Object(fromJson(bytes.subarray(0, end))), body: bytes.subarray(end + 1) };
  },
});

type RowHead = Omit<RowOf<typeof heldRow>, 'body'>;

/** A row, as it was last heard of. */
export interface HeldRow extends RowHead {
  readonly revision: number;
}

export interface HeldRowsOptions {
  readonly state: RowState;
  readonly cluster: RowCluster;
  /** What the keys of the rows begin with. */
  readonly prefix: Key;
  /**
   * Goes on with what another process began, and takes the row; it is forgotten where this rejects
   * with anything else than a StoreError.
   */
  readonly resume: (id: string, body: Uint8Array, cancel: RowHead['cancel']) => Promise<void>;
  /** A row has changed; `undefined`: it is not there any more. */
  readonly onChange?: (id: string, row: HeldRow | undefined) => void;
  readonly log: Logger;
}

/** Work of this process, while it goes on. */
export interface Hold {
  /** Fires when another process has it. */
  readonly lost: AbortSignal;
  readonly release: () => void;
}

/**
 * Rows of work that is not over. Who does it is named there, and whoever is named no longer writes
 * nothing of it.
 */
export class HeldRows {
  /** Name of this process in its rows. */
  readonly process: string = randomUUID();
  readonly #options: HeldRowsOptions;
  readonly #rows = new Map<string, HeldRow>();
  /** Ends what this process does of a row that another one has now. */
  readonly #held = new Map<string, AbortController>();
  /** To be forgotten, once that can be written. */
  readonly #forgotten = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: HeldRowsOptions) {
    this.#options = options;
  }

  /** Resolves when all rows are known. */
  async follow(): Promise<void> {
    const { state, prefix } = this.#options;
    await state.follow(prefix, (change) => this.#note(change));
  }

  /** Goes on with what this member did before, and with what others leave. */
  start(): void {
    this.#timer = setInterval(() => this.#look(), lookMs).unref();
    this.#options.cluster.onHeld(() => this.#look());
    this.#look();
  }

  get(id: string): HeldRow | undefined {
    return this.#rows.get(id);
  }

  /** Whether another process does it, that is not gone. */
  isElsewhere(id: string): boolean {
    const row = this.#rows.get(id);
    return row !== undefined && row.process !== this.process && !this.#isFree(row);
  }

  /** This process begins with it. */
  hold(id: string): Hold {
    const lost = new AbortController();
    this.#held.set(id, lost);
    const release = (): void => {
      if (this.#held.get(id) === lost) this.#held.delete(id);
    };
    return { lost: lost.signal, release };
  }

  /** What is written down of work that is not over. */
  async read(id: string): Promise<Uint8Array | undefined> {
    const entry = await this.#options.state.get(this.#key(id));
    return entry === undefined ? undefined : heldRow.decode(entry).body;
  }

  /** Has whoever does it end it; nothing happens where it is over. */
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
        if (!isSecond(error)) throw error;
      }
    }
  }

  /**
   * Forgets what cannot go on, of this process or of one that is gone. Where that cannot be written
   * now, it is tried again.
   */
  async forget(id: string): Promise<void> {
    this.#forgotten.add(id);
    try {
      await this.whileOwn(id, async () => void (await this.#options.state.write(this.endLeft(id))));
      this.#forgotten.delete(id);
    } catch (error) {
      if (isSecond(error)) this.#forgotten.delete(id);
      else this.#options.log.debug({ run: id, err: error }, 'a run was not forgotten yet');
    }
  }

  /** Makes this process the one that does it; nothing is written where another one does. */
  take(id: string, body: Uint8Array): RowOperation[] {
    const { member } = this.#options.cluster;
    const value = heldRow.encode({ member, process: this.process, body });
    const ifRevision = this.#rows.get(id)?.revision ?? 0;
    return [{ op: 'put', key: this.#key(id), value, ifRevision }];
  }

  /** Lets a write fail where another process does it by now. */
  condition(id: string): RowOperation[] {
    return [{ op: 'require', key: this.#key(id), ifRevision: this.#ownRevision(id) }];
  }

  /** Ends it, unless another process does it by now. */
  end(id: string): RowOperation[] {
    return [{ op: 'delete', key: this.#key(id), ifRevision: this.#ownRevision(id) }];
  }

  /** Ends what no other process does; nothing is written where another one does. */
  endLeft(id: string): RowOperation[] {
    const row = this.#rows.get(id);
    if (row === undefined) return [];
    if (row.process === this.process || !this.#isFree(row)) return this.end(id);
    return [{ op: 'delete', key: this.#key(id), ifRevision: row.revision }];
  }

  /**
   * Writes, with {@link condition} or {@link end}, as long as this process does it: also where the row
   * changes meanwhile because somebody cancels it.
   * @throws StoreError ERR_REVISION once another process does it
   */
  async whileOwn(id: string, write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (!isSecond(error) || this.#rows.get(id)?.process !== this.process) throw error;
      }
    }
  }

  /** Leaves what this process does to the others. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#looking;
    const { state, log } = this.#options;
    for (const [id, row] of this.#rows) {
      if (row.process !== this.process) continue;
      const entry = await state.get(this.#key(id));
      if (entry?.revision !== row.revision) continue;
      const value = heldRow.encode({ ...heldRow.decode(entry), process: nobody });
      const ifRevision = row.revision;
      await state
        .write([{ op: 'put', key: this.#key(id), value, ifRevision }])
        .catch((error: unknown) => {
          log.warn({ run: id, err: error }, 'a run was not left to the other members at once');
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
      if (row.process === nobody) this.#look();
      this.#options.onChange?.(id, row);
      return;
    }
    this.#rows.delete(id);
    this.#options.onChange?.(id, undefined);
  }

  /** Whether whoever did it is gone. */
  #isFree({ member, process }: HeldRow): boolean {
    if (process === nobody) return true;
    const { cluster } = this.#options;
    // A process of this member before this one.
    if (member === cluster.member) return process !== this.process;
    return cluster.isGone(member);
  }

  #look(): void {
    if (this.#isClosed || this.#timer === undefined) return;
    this.#looking = this.#looking.then(async () => {
      const { cluster } = this.#options;
      for (const id of [...this.#forgotten]) await this.forget(id);
      for (const [id, row] of [...this.#rows]) {
        const isOwn = row.member === cluster.member && row.process !== nobody;
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
      log.info({ run: id }, 'a run goes on that another process began');
      await resume(id, body, head.cancel).catch(async (error: unknown) => {
        if (error instanceof StoreError) throw error;
        log.error({ run: id, err: error }, 'a run of another process cannot go on');
        await this.forget(id);
      });
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

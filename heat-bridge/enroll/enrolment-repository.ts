/** All enrolments: in memory, and in the state area of the bridge. */

import { EventEmitter, on } from 'node:events';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { MultiMap } from '#runtime';
import { defineRow, fromJson } from '#store';
import { isLive } from '../live-enrolment.ts';
import { type Enrolment, EnrolmentSchema } from './enrolment.ts';

const prefix = 'enrolments';

/** Rows `enrolments/<number>`. */
const enrolmentRow = defineRow({
  name: 'enrolment',
  schema: EnrolmentSchema,
  unversioned: fromJson,
});

/** Numbers of those whose end was kept, and not yet carried out. */
const endingPrefix = 'enrolments-ending';
/** Milliseconds that an enrolment which is over can still be looked up. */
const keepMs = 7 * 86_400_000;

/** Enrolments that have an id now, by what others know of them. */
export type KnownEnrolments = Pick<
  EnrolmentRepository,
  'get' | 'liveOf' | 'liveOfInstance' | 'liveOfProject'
>;

/** Tells one enrolment's changes by its number. */
type Changes = Record<string, [Enrolment]>;

/** Where enrolments are kept. */
type EnrolmentRows = Pick<SharedArea, 'cluster' | 'follow' | 'write'>;

/**
 * Members of a cluster have the same enrolments: each follows what the others write. Bounded by the keys that it brought, the
 * open tickets, and a week of what is over.
 */
export class EnrolmentRepository {
  readonly #state: EnrolmentRows;
  readonly #now: () => number;
  readonly #byNumber = new Map<string, Enrolment>();
  /** Number of the enrolment that has the id. */
  readonly #byId = new Map<string, string>();
  readonly #byInstance = new MultiMap<string, Enrolment>();
  readonly #byProject = new MultiMap<string, Enrolment>();
  readonly #open = new Set<string>();
  readonly #changes = new EventEmitter<Changes>().setMaxListeners(0);
  /** Numbers of those that are over, with the time until which they are kept; oldest first. */
  readonly #over = new Map<string, number>();
  readonly #ending = new Set<string>();
  /** Of the rows in the store of a cluster, by number. */
  readonly #revisions = new Map<string, number>();
  /** Numbers of those that are being written here. */
  readonly #writing = new Set<string>();
  #onFollowed: (enrolment: Enrolment) => void = () => {};

  private constructor(state: EnrolmentRows, now: () => number) {
    this.#state = state;
    this.#now = now;
  }

  static async open(state: EnrolmentRows, now: () => number): Promise<EnrolmentRepository> {
    const book = new EnrolmentRepository(state, now);
    await state.follow([prefix], (change) => book.#note(change));
    await state.follow([endingPrefix], (change) => {
      if (change.type === 'put') book.#ending.add(change.entry.key.at(-1) ?? '');
      else book.#ending.delete(change.key.at(-1) ?? '');
    });
    return book;
  }

  /** Told of each that another member of the cluster has written. */
  set onFollowed(listener: (enrolment: Enrolment) => void) {
    this.#onFollowed = listener;
  }

  get(number: string): Enrolment | undefined {
    return this.#byNumber.get(number);
  }

  /** The enrolment that has an id now. */
  liveOf(id: string): Enrolment | undefined {
    return this.#byNumber.get(this.#byId.get(id) ?? '');
  }

  /** Those of an instance that have an id now. */
  liveOfInstance(instance: string): Iterable<Enrolment> {
    return this.#byInstance.get(instance);
  }

  /** Those of a project that have an id now. */
  liveOfProject(project: string): Iterable<Enrolment> {
    return this.#byProject.get(project);
  }

  all(): IterableIterator<Enrolment> {
    return this.#byNumber.values();
  }

  /** How many wait for their machine. */
  get open(): number {
    return this.#open.size;
  }

  /** How many there are in each state. */
  counts(): Readonly<Record<Enrolment['state'], number>> {
    const counts = { open: 0, accepted: 0, 'signed-in': 0, failed: 0, retired: 0 };
    for (const { state } of this.#byNumber.values()) counts[state] += 1;
    return counts;
  }

  /**
   * By heart at once, so that nothing else can be made of it meanwhile; durable when it resolves. In a
   * cluster it is by heart when it is durable.
   * @throws StoreError ERR_REVISION where another member has made something else of it
   */
  put(...enrolments: readonly Enrolment[]): Promise<void> {
    return this.putWith(enrolments, []);
  }

  /** As {@link put}, and {@link ending} until {@link endCompleted}: also in the next process. */
  async putEnd(enrolment: Enrolment): Promise<void> {
    const { number } = enrolment;
    const key = [endingPrefix, number];
    await this.putWith([enrolment], [{ op: 'put', key, value: new Uint8Array() }]);
    this.#ending.add(number);
  }

  /** Enrolments that are over, and what they brought is perhaps still there. */
  *ending(): IterableIterator<Enrolment> {
    for (const number of this.#ending) {
      const enrolment = this.#byNumber.get(number);
      if (enrolment !== undefined) yield enrolment;
    }
  }

  /** Nothing of what an enrolment brought is there any more. */
  async endCompleted({ number }: Enrolment): Promise<void> {
    await this.#state.write([{ op: 'delete', key: [endingPrefix, number] }]);
    this.#ending.delete(number);
  }

  /** As {@link put}, with other steps in the same transaction. */
  async putWith(enrolments: readonly Enrolment[], more: readonly StateOperation[]): Promise<void> {
    if (this.#state.cluster !== undefined) return this.#writeShared(enrolments, more);
    const before = enrolments.map(({ number }) => this.#byNumber.get(number));
    for (const enrolment of enrolments) this.#remember(enrolment);
    try {
      await this.#state.write([...enrolments.map((it) => this.#rowOf(it)), ...more]);
    } catch (error) {
      for (const [index, enrolment] of enrolments.entries()) {
        const known = before[index];
        if (known === undefined) this.#forget(enrolment);
        else this.#remember(known);
      }
      throw error;
    }
  }

  async #writeShared(
    enrolments: readonly Enrolment[],
    more: readonly StateOperation[],
  ): Promise<void> {
    const numbers = enrolments.map(({ number }) => number);
    for (const number of numbers) this.#writing.add(number);
    try {
      const rows = enrolments.map((enrolment): StateOperation => {
        const ifRevision = this.#revisions.get(enrolment.number) ?? 0;
        return { ...this.#rowOf(enrolment), ifRevision };
      });
      await this.#state.write([...rows, ...more]);
    } finally {
      for (const number of numbers) this.#writing.delete(number);
    }
  }

  #rowOf(enrolment: Enrolment): StateOperation & { readonly op: 'put' } {
    return {
      op: 'put',
      key: [prefix, enrolment.number],
      value: enrolmentRow.encode(enrolment),
      ...(isLive(enrolment) ? {} : { expiresAt: this.#now() + keepMs }),
    };
  }

  /** One of the store; in a cluster also what any member makes of it. */
  #note(change: StateChange): void {
    if (change.type === 'delete') return;
    const { revision } = change.entry;
    const enrolment = enrolmentRow.decode(change.entry);
    const { number } = enrolment;
    this.#remember(enrolment);
    if (this.#state.cluster === undefined) return;
    this.#revisions.set(number, revision);
    if (this.#writing.has(number)) return;
    this.#onFollowed(enrolment);
    this.announce(enrolment);
  }

  /** Tells those who follow, once what is kept was carried out. */
  announce(enrolment: Enrolment): void {
    this.#changes.emit(enrolment.number, enrolment);
  }

  /** Forgets what has been over for a week; the store does so by itself. */
  prune(): void {
    const now = this.#now();
    for (const [number, until] of this.#over) {
      const enrolment = this.#byNumber.get(number);
      if (until <= now && enrolment !== undefined) this.#forget(enrolment);
    }
  }

  /** The enrolment as it is and as it becomes. */
  async *follow(number: string, signal: AbortSignal): AsyncGenerator<Enrolment, void, void> {
    const changes = on(this.#changes, number, { signal });
    try {
      const enrolment = this.#byNumber.get(number);
      if (enrolment !== undefined) yield enrolment;
      for await (const [next] of changes) yield next;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #remember(enrolment: Enrolment): void {
    const { number, id, instance, project, state } = enrolment;
    const before = this.#byNumber.get(number);
    if (before !== undefined) this.#removeFromIndexes(before);
    this.#byNumber.set(number, enrolment);
    if (state === 'open') this.#open.add(number);
    if (isLive(enrolment)) {
      this.#byProject.add(project, enrolment);
      if (instance !== undefined) this.#byInstance.add(instance, enrolment);
      this.#byId.set(id, number);
      this.#over.delete(number);
      return;
    }
    if (this.#byId.get(id) === number) this.#byId.delete(id);
    this.#over.set(number, this.#now() + keepMs);
  }

  #removeFromIndexes(enrolment: Enrolment): void {
    const { number, project, instance } = enrolment;
    this.#open.delete(number);
    this.#byProject.delete(project, enrolment);
    if (instance !== undefined) this.#byInstance.delete(instance, enrolment);
  }

  #forget({ number, id }: Enrolment): void {
    const known = this.#byNumber.get(number);
    if (known !== undefined) this.#removeFromIndexes(known);
    this.#byNumber.delete(number);
    this.#revisions.delete(number);
    this.#over.delete(number);
    if (this.#byId.get(id) === number) this.#byId.delete(id);
  }
}

/** Repository of all enrolments. They are in memory, and in the state area of the bridge. */

import { EventEmitter, on } from 'node:events';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { FairTable, MultiMap } from '#runtime';
import { defineRow, fromJson } from '#store';
import { bridgeLimits } from '../limits.ts';
import { isLive } from '../live-enrolment.ts';
import { type Enrolment, EnrolmentSchema } from './enrolment.ts';

const prefix = 'enrolments';

/** Rows of enrolments, with the keys `enrolments/<number>`. */
const enrolmentRow = defineRow({
  name: 'enrolment',
  schema: EnrolmentSchema,
  unversioned: fromJson,
});

/**
 * Prefix of the rows for ended enrolments. The key or data of these enrolments must still be
 * removed.
 */
const endingPrefix = 'enrolments-ending';
/** Time for which an ended enrolment remains readable, in milliseconds. */
const keepMs = 7 * 86_400_000;

/** Read access to enrolments. */
export type KnownEnrolments = Pick<
  EnrolmentRepository,
  'acceptedOfProject' | 'get' | 'liveOf' | 'liveOfInstance'
>;

/**
 * Events of the emitter that reports changes. The name of an event is the number of the changed
 * enrolment.
 */
type Changes = Record<string, [Enrolment]>;

/** State area in which enrolments are stored. */
type EnrolmentRows = Pick<SharedArea, 'cluster' | 'follow' | 'write'>;

/**
 * Repository of all enrolments, which the members of a cluster share. Each member applies the
 * writes of the other members. The size is limited by the numbers of accepted keys, of unused
 * tickets, and of enrolments that ended within a week.
 */
export class EnrolmentRepository {
  readonly #state: EnrolmentRows;
  readonly #now: () => number;
  readonly #byNumber = new Map<string, Enrolment>();
  /**
   * Number (identifier) of the live enrolment of each minion id. An enrolment is live while its
   * ticket is unused or its key is accepted.
   */
  readonly #byId = new Map<string, string>();
  readonly #byInstance = new MultiMap<string, Enrolment>();
  /** Live enrolments with an accepted key, by project. */
  readonly #acceptedByProject = new MultiMap<string, Enrolment>();
  readonly #open = new Set<string>();
  /** Number of open enrolments by project. */
  readonly #openOf = new Map<string, number>();
  readonly #changes = new EventEmitter<Changes>().setMaxListeners(0);
  /**
   * Times at which ended enrolments are deleted, by number of the enrolment, in milliseconds since
   * 1970.
   */
  readonly #over = new FairTable<number>(bridgeLimits.endedEnrolments, {
    onEvict: (number) => this.#drop(number),
  });
  readonly #ending = new Set<string>();
  /**
   * Revision of the stored row of each enrolment, by number of the enrolment. Used only in a
   * cluster.
   */
  readonly #revisions = new Map<string, number>();
  /** Numbers of the enrolments that this member is writing. */
  readonly #writing = new Set<string>();
  #onFollowed: (enrolment: Enrolment) => void = () => {};

  private constructor(state: EnrolmentRows, now: () => number) {
    this.#state = state;
    this.#now = now;
  }

  static async open(state: EnrolmentRows, now: () => number): Promise<EnrolmentRepository> {
    const repository = new EnrolmentRepository(state, now);
    await state.follow([prefix], (change) => repository.#note(change));
    await state.follow([endingPrefix], (change) => {
      if (change.type === 'put') repository.#ending.add(change.entry.key.at(-1) ?? '');
      else repository.#ending.delete(change.key.at(-1) ?? '');
    });
    return repository;
  }

  /** Sets the listener that receives each enrolment that another cluster member has written. */
  set onFollowed(listener: (enrolment: Enrolment) => void) {
    this.#onFollowed = listener;
  }

  get(number: string): Enrolment | undefined {
    return this.#byNumber.get(number);
  }

  /**
   * Returns the live enrolment of a minion id, or `undefined`. An enrolment is live while its
   * ticket is unused or its key is accepted.
   */
  liveOf(id: string): Enrolment | undefined {
    return this.#byNumber.get(this.#byId.get(id) ?? '');
  }

  /** Returns the live enrolments of an instance: those with an unused ticket or an accepted key. */
  liveOfInstance(instance: string): Iterable<Enrolment> {
    return this.#byInstance.get(instance);
  }

  /** Returns the enrolments of a project that have an accepted key and have not ended. */
  acceptedOfProject(project: string): Iterable<Enrolment> {
    return this.#acceptedByProject.get(project);
  }

  all(): IterableIterator<Enrolment> {
    return this.#byNumber.values();
  }

  /** Number of open enrolments. Their tickets are unused. */
  get open(): number {
    return this.#open.size;
  }

  /** Returns the number of open enrolments of a project. */
  openOf(project: string): number {
    return this.#openOf.get(project) ?? 0;
  }

  /** Returns the number of enrolments in each state. */
  counts(): Readonly<Record<Enrolment['state'], number>> {
    const counts = { open: 0, accepted: 0, 'signed-in': 0, failed: 0, retired: 0 };
    for (const { state } of this.#byNumber.values()) counts[state] += 1;
    return counts;
  }

  /**
   * Stores enrolments. Resolves when the change is durable. Without a cluster, memory is updated at
   * once, so that no conflicting change can start meanwhile. In a cluster, memory is updated when
   * the change is durable.
   * @throws StoreError ERR_REVISION if another member has changed the enrolment
   */
  put(...enrolments: readonly Enrolment[]): Promise<void> {
    return this.putWith(enrolments, []);
  }

  /**
   * Stores the end of an enrolment. Resolves when the change is durable. Until {@link endCompleted}
   * is called, {@link ending} yields the enrolment, even after a restart.
   */
  async putEnd(enrolment: Enrolment): Promise<void> {
    const { number } = enrolment;
    const key = [endingPrefix, number];
    await this.putWith([enrolment], [{ op: 'put', key, value: new Uint8Array() }]);
    this.#ending.add(number);
  }

  /** Yields ended enrolments whose key or other data may still exist. */
  *ending(): IterableIterator<Enrolment> {
    for (const number of this.#ending) {
      const enrolment = this.#byNumber.get(number);
      if (enrolment !== undefined) yield enrolment;
    }
  }

  /** Records that the key and all other data of an ended enrolment have been removed. */
  async endCompleted({ number }: Enrolment): Promise<void> {
    await this.#state.write([{ op: 'delete', key: [endingPrefix, number] }]);
    this.#ending.delete(number);
  }

  /** Stores enrolments and performs other operations, in one transaction. */
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

  /** Applies a stored row to memory. In a cluster, other members write rows too. */
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

  /**
   * Yields a changed enrolment to all iterations of {@link follow}. Must be called after the
   * effects of the change have been carried out.
   */
  announce(enrolment: Enrolment): void {
    this.#changes.emit(enrolment.number, enrolment);
  }

  /**
   * Removes from memory the enrolments that ended more than a week ago. Their rows in the store
   * expire.
   */
  prune(): void {
    const now = this.#now();
    for (const number of [...this.#over.keys()]) {
      const enrolment = this.#byNumber.get(number);
      const until = this.#over.peek(number) ?? now;
      if (until <= now && enrolment !== undefined) this.#forget(enrolment);
    }
  }

  /** Deletes an ended enrolment early, because its project has too many of them. */
  #drop(number: string): void {
    const enrolment = this.#byNumber.get(number);
    if (enrolment === undefined || isLive(enrolment)) return;
    this.#forget(enrolment);
    if (this.#state.cluster?.isHeld === false) return;
    // Ignore a failure, because the row then expires.
    this.#state.write([{ op: 'delete', key: [prefix, number] }]).catch(() => {});
  }

  /** Yields the enrolment now and after each change. */
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
    if (state === 'open') {
      this.#open.add(number);
      this.#openOf.set(project, this.openOf(project) + 1);
    }
    if (isLive(enrolment)) {
      if (state !== 'open') this.#acceptedByProject.add(project, enrolment);
      if (instance !== undefined) this.#byInstance.add(instance, enrolment);
      this.#byId.set(id, number);
      this.#over.delete(number);
      return;
    }
    if (this.#byId.get(id) === number) this.#byId.delete(id);
    this.#over.set(project, number, this.#now() + keepMs);
  }

  #removeFromIndexes(enrolment: Enrolment): void {
    const { number, project, instance } = enrolment;
    if (this.#open.delete(number)) {
      const left = this.openOf(project) - 1;
      if (left > 0) this.#openOf.set(project, left);
      else this.#openOf.delete(project);
    }
    this.#acceptedByProject.delete(project, enrolment);
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

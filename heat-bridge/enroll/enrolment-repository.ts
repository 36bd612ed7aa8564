/** All enrolments: in memory, and in the state area of the bridge. */

import { EventEmitter, on } from 'node:events';
import type { StateArea, StateOperation } from '../../master/index.ts';
import { MultiMap } from '../../runtime/index.ts';
import { type Enrolment, type EnrolmentState, isLive } from './enrolment.ts';

const prefix = 'enrolments';
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

/** Bounded by the keys that it brought, the open tickets, and a week of what is over. */
export class EnrolmentRepository {
  readonly #state: Pick<StateArea, 'list' | 'write'>;
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

  private constructor(state: Pick<StateArea, 'list' | 'write'>, now: () => number) {
    this.#state = state;
    this.#now = now;
  }

  static async open(
    state: Pick<StateArea, 'list' | 'write'>,
    now: () => number,
  ): Promise<EnrolmentRepository> {
    const book = new EnrolmentRepository(state, now);
    for await (const { value } of state.list([prefix])) {
      book.#remember(JSON.parse(Buffer.from(value).toString('utf8')));
    }
    for await (const { key } of state.list([endingPrefix])) book.#ending.add(key.at(-1) ?? '');
    return book;
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
  counts(): Readonly<Record<EnrolmentState, number>> {
    const counts = { open: 0, accepted: 0, 'signed-in': 0, failed: 0, retired: 0 };
    for (const { state } of this.#byNumber.values()) counts[state] += 1;
    return counts;
  }

  /** By heart at once, so that nothing else can be made of it meanwhile; durable when it resolves. */
  put(...enrolments: readonly Enrolment[]): Promise<void> {
    return this.#write(enrolments, []);
  }

  /** As {@link put}, and {@link ending} until {@link endCompleted}: also in the next process. */
  async putEnd(enrolment: Enrolment): Promise<void> {
    const { number } = enrolment;
    const key = [endingPrefix, number];
    await this.#write([enrolment], [{ op: 'put', key, value: new Uint8Array() }]);
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

  async #write(enrolments: readonly Enrolment[], more: readonly StateOperation[]): Promise<void> {
    const before = enrolments.map(({ number }) => this.#byNumber.get(number));
    for (const enrolment of enrolments) this.#remember(enrolment);
    try {
      const rows = enrolments.map((enrolment) => ({
        op: 'put' as const,
        key: [prefix, enrolment.number],
        value: Buffer.from(JSON.stringify(enrolment)),
        ...(isLive(enrolment) ? {} : { expiresAt: this.#now() + keepMs }),
      }));
      await this.#state.write([...rows, ...more]);
    } catch (error) {
      for (const [index, enrolment] of enrolments.entries()) {
        const known = before[index];
        if (known === undefined) this.#forget(enrolment);
        else this.#remember(known);
      }
      throw error;
    }
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
    this.#over.delete(number);
    if (this.#byId.get(id) === number) this.#byId.delete(id);
  }
}

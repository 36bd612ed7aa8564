import type { JobReturn } from '../api/index.ts';
import type { JobRecord } from './job-row.ts';

const noMinions: ReadonlySet<string> = new Set();

/**
 * Job in memory, with its minions and the minions and resources that have returned. Memory contains
 * thousands of jobs, and most of them have finished. Data that only running jobs need is therefore
 * allocated on demand.
 */
export class Job {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** Whether returns of the job are stored. False for the master's own `find_job` calls. */
  readonly isKept: boolean;
  /** Time of the publication, in milliseconds since 1970. */
  readonly publishedAt: number;
  /** Name under which limits count the returns. `undefined` for jobs of operators and services. */
  readonly limitOwner: string | undefined;
  readonly #minions: Set<string>;
  #answered: Set<string> | undefined;
  /** Resources whose returns have arrived. The key is the id of the minion that manages them. */
  #resources: Map<string, Set<string>> | undefined;
  /**
   * Resources from which returns are expected, by minion id. Contains only minions that send one
   * return for each resource, and no return of their own.
   */
  #expected: Map<string, ReadonlySet<string>> | undefined;
  #running: ReadonlySet<string> = noMinions;
  #listeners: Set<(result: JobReturn) => void> | undefined;

  constructor(
    record: Pick<JobRecord, 'jid' | 'fun' | 'limitOwner' | 'minions' | 'publishedAt'>,
    options: { readonly isKept: boolean },
  ) {
    this.jid = record.jid;
    this.fun = record.fun;
    this.#minions = new Set(record.minions);
    this.isKept = options.isKept;
    this.publishedAt = record.publishedAt;
    this.limitOwner = record.limitOwner;
  }

  get minions(): ReadonlySet<string> {
    return this.#minions;
  }

  /**
   * Adds the minions of the next slice of a batch. The job is published to them with the same jid.
   */
  extend(minions: readonly string[]): void {
    for (const minion of minions) this.#minions.add(minion);
  }

  /** Whether a minion, or the given resource of it, has returned. */
  hasAnswered(minionId: string, resource?: string): boolean {
    if (resource === undefined) return this.#answered?.has(minionId) === true;
    return this.#resources?.get(minionId)?.has(resource) === true;
  }

  /**
   * Records the minions that send one return for each of their resources, and no return of their
   * own. The map contains the ids of these resources, by minion.
   */
  expectResources(resources: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (resources.size > 0) this.#expected = new Map([...(this.#expected ?? []), ...resources]);
  }

  /**
   * Returns the resources of a minion if the minion sends one return for each of them. `undefined`
   * if the minion sends one return for itself.
   */
  expectedOf(minionId: string): ReadonlySet<string> | undefined {
    return this.#expected?.get(minionId);
  }

  /**
   * Whether all expected returns of a minion have arrived: its own, or one for each expected
   * resource.
   */
  isOver(minionId: string): boolean {
    if (this.hasAnswered(minionId)) return true;
    const expected = this.expectedOf(minionId);
    const answered = this.#resources?.get(minionId);
    if (expected === undefined || answered === undefined) return false;
    if (answered.size < expected.size) return false;
    return [...expected].every((id) => answered.has(id));
  }

  /** Whether any resource of a minion has returned. */
  hasResourceAnswer(minionId: string): boolean {
    return this.#resources?.has(minionId) === true;
  }

  /**
   * Number of minions whose own return has arrived while the job was in memory. Returns of
   * resources do not count.
   */
  get answered(): number {
    return this.#answered?.size ?? 0;
  }

  /** Minions that confirmed, when they were last asked, that they run the job. */
  get running(): ReadonlySet<string> {
    return this.#running;
  }

  /**
   * Updates {@link running} after the master has asked some minions whether they run the job.
   * @param asked - minions that were asked
   * @param running - minions among them that confirmed it
   */
  noteRunning(asked: readonly string[], running: ReadonlySet<string>): void {
    const others = new Set(this.#running);
    for (const minion of asked) others.delete(minion);
    this.#running = new Set([...others, ...running]);
  }

  /**
   * Records a return, and passes it to all listeners. A second return of the same minion or
   * resource is ignored.
   */
  answer(result: JobReturn): void {
    const { minion, resource } = result;
    if (this.hasAnswered(minion, resource)) return;
    if (resource === undefined) this.#note(minion);
    else this.#noteResource(minion, resource);
    for (const listener of this.#listeners ?? []) listener(result);
  }

  #note(minion: string): void {
    this.#answered ??= new Set();
    this.#answered.add(minion);
  }

  #noteResource(minion: string, resource: string): void {
    this.#resources ??= new Map();
    const answered = this.#resources.get(minion) ?? new Set<string>();
    this.#resources.set(minion, answered.add(resource));
  }

  /**
   * Calls the listener for each return from now on. Returns a function that removes the listener.
   */
  onReturn(listener: (result: JobReturn) => void): () => void {
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => {
      this.#listeners?.delete(listener);
      if (this.#listeners?.size === 0) this.#listeners = undefined;
    };
  }

  get isWatched(): boolean {
    return this.#listeners !== undefined;
  }
}

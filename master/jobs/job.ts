import type { JobReturn } from '../api/index.ts';
import type { JobRecord } from './job-row.ts';

const nobody: ReadonlySet<string> = new Set();

/**
 * Job in memory, with its minions and the received returns. Thousands are held, nearly all
 * finished, so the data of running jobs is allocated only when needed.
 */
export class Job {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** Whether its returns are stored. False for the master's own `find_job` calls. */
  readonly isKept: boolean;
  /** Time of the publication, in milliseconds since 1970. */
  readonly publishedAt: number;
  readonly #minions: Set<string>;
  #answered: Set<string> | undefined;
  /** Resources that have returned, by the minions that manage them. */
  #resources: Map<string, Set<string>> | undefined;
  /** Resources that minions return for instead of themselves. */
  #expected: Map<string, ReadonlySet<string>> | undefined;
  #running: ReadonlySet<string> = nobody;
  #listeners: Set<(result: JobReturn) => void> | undefined;

  constructor(
    record: Pick<JobRecord, 'jid' | 'fun' | 'minions' | 'publishedAt'>,
    options: { readonly isKept: boolean },
  ) {
    this.jid = record.jid;
    this.fun = record.fun;
    this.#minions = new Set(record.minions);
    this.isKept = options.isKept;
    this.publishedAt = record.publishedAt;
  }

  get minions(): ReadonlySet<string> {
    return this.#minions;
  }

  /** Adds minions to which the job is published under its jid: the next slice of a batch. */
  extend(minions: readonly string[]): void {
    for (const minion of minions) this.#minions.add(minion);
  }

  /** Returns whether a minion, or one of its resources, has returned. */
  hasAnswered(minionId: string, resource?: string): boolean {
    if (resource === undefined) return this.#answered?.has(minionId) === true;
    return this.#resources?.get(minionId)?.has(resource) === true;
  }

  /** Sets the resources that minions return for instead of themselves. */
  expectResources(resources: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (resources.size > 0) this.#expected = new Map([...(this.#expected ?? []), ...resources]);
  }

  /** Returns the resources that a minion returns for, or `undefined` if it returns for itself. */
  expectedOf(minionId: string): ReadonlySet<string> | undefined {
    return this.#expected?.get(minionId);
  }

  /**
   * Returns whether a minion has returned completely: for itself, or for each expected resource.
   */
  isOver(minionId: string): boolean {
    if (this.hasAnswered(minionId)) return true;
    const expected = this.expectedOf(minionId);
    const answered = this.#resources?.get(minionId);
    if (expected === undefined || answered === undefined) return false;
    if (answered.size < expected.size) return false;
    return [...expected].every((id) => answered.has(id));
  }

  /** Returns whether any resource of a minion has returned. */
  hasResourceAnswer(minionId: string): boolean {
    return this.#resources?.has(minionId) === true;
  }

  /** Number of minions that have returned while the job was in memory. */
  get answered(): number {
    return this.#answered?.size ?? 0;
  }

  /** Minions that confirmed, when last asked, that the job still runs. */
  get running(): ReadonlySet<string> {
    return this.#running;
  }

  /** Updates the running minions after some minions were asked. */
  noteRunning(asked: readonly string[], running: ReadonlySet<string>): void {
    const others = new Set(this.#running);
    for (const minion of asked) others.delete(minion);
    this.#running = new Set([...others, ...running]);
  }

  /**
   * Reports a return to all listeners. A second return of the same minion or resource is ignored.
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

  /** Calls the listener for each later return. Returns a function that removes it. */
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

/** Jobs that the master holds in memory. */

import type { JobReturn } from '../api/index.ts';
import type { JobRecord } from './job-row.ts';

const nobody: ReadonlySet<string> = new Set();

/**
 * A job that the master still knows by heart: who it is for, who has answered. Thousands are known,
 * nearly all of them over: what only one under way needs is made when it does.
 */
export class Job {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** Whether its returns are kept. Not so for the master's own `find_job` rounds. */
  readonly isKept: boolean;
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
  readonly #minions: Set<string>;
  #answered: Set<string> | undefined;
  /** Resources that have answered, by the minions that manage them. */
  #resources: Map<string, Set<string>> | undefined;
  /** What minions return for in place of themselves. */
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

  /** It is published to more minions under its jid: the next slice of a batch. */
  extend(minions: readonly string[]): void {
    for (const minion of minions) this.#minions.add(minion);
  }

  /** Whether a minion has answered, or a resource of it. */
  hasAnswered(minionId: string, resource?: string): boolean {
    if (resource === undefined) return this.#answered?.has(minionId) === true;
    return this.#resources?.get(minionId)?.has(resource) === true;
  }

  /** These minions return for these resources, in place of themselves. */
  expectResources(resources: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (resources.size > 0) this.#expected = new Map([...(this.#expected ?? []), ...resources]);
  }

  /** What a minion returns for in place of itself; `undefined`: for itself. */
  expectedOf(minionId: string): ReadonlySet<string> | undefined {
    return this.#expected?.get(minionId);
  }

  /** Whether all that a minion returns has come: for itself, or for each expected resource. */
  isOver(minionId: string): boolean {
    if (this.hasAnswered(minionId)) return true;
    const expected = this.expectedOf(minionId);
    const answered = this.#resources?.get(minionId);
    if (expected === undefined || answered === undefined) return false;
    if (answered.size < expected.size) return false;
    return [...expected].every((id) => answered.has(id));
  }

  /** Whether any resource of a minion has answered. */
  hasResourceAnswer(minionId: string): boolean {
    return this.#resources?.has(minionId) === true;
  }

  /** How many have answered since it is known by heart. */
  get answered(): number {
    return this.#answered?.size ?? 0;
  }

  /** Minions that said last time they were asked that they are still at it. */
  get running(): ReadonlySet<string> {
    return this.#running;
  }

  /** Remembers which of the minions that were asked said that they are at it. */
  noteRunning(asked: readonly string[], running: ReadonlySet<string>): void {
    const others = new Set(this.#running);
    for (const minion of asked) others.delete(minion);
    this.#running = new Set([...others, ...running]);
  }

  /** Tells everybody who waits. A second return of the same minion or resource tells nobody. */
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

  /** Calls `listener` for each return from now on, until the given function is called. */
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

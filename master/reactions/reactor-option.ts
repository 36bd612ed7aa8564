import type { ReactorEntry } from '../config/reactor.ts';
import { type Reaction, reaction } from './reaction.ts';

/** Salt has no such limits; these are as wide as its own queue, `reactor_worker_hwm`. */
const wide = { atOnce: 1000, queue: 10_000, rate: '1000/second' } as const;

/** The reactions of the option `reactor`: one for each of its files, called as it is written there. */
export function reactorReactions(entries: readonly ReactorEntry[]): Reaction[] {
  const tags = new Map<string, string[]>();
  for (const { tag, sls } of entries) {
    for (const file of sls) tags.set(file, [...(tags.get(file) ?? []), tag]);
  }
  return Array.from(tags, ([sls, globs]) => {
    return reaction(sls, { on: [...new Set(globs)], do: { sls }, ...wide });
  });
}

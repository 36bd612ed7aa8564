/** Compares what was acknowledged to minions with what arrived. */
import type { Arrival } from './endpoint.ts';

/** A signal that a minion was acknowledged; moments by one clock, milliseconds. */
export interface Acknowledged {
  readonly handle: string;
  readonly minion: string;
  readonly number: number;
  readonly sentAt: number;
  readonly acknowledgedAt: number;
}

/** Each must be 0. */
export interface Verdict {
  /** Acknowledged, and never arrived. */
  readonly lost: number;
  /** Arrived under another id than the minion's. */
  readonly otherIds: number;
  /** Pairs of a handle of which the second arrived before the first did for the last time. */
  readonly outOfOrder: number;
}

interface Span {
  readonly first: number;
  readonly last: number;
}

export function judge(
  acknowledged: readonly Acknowledged[],
  arrivals: readonly Arrival[],
): Verdict {
  const spans = spansOf(arrivals);
  const arrived = acknowledged.filter((it) => spans.has(nameOf(it)));
  let outOfOrder = 0;
  for (const before of arrived) {
    for (const after of arrived) {
      const isOrdered = before.handle === after.handle && before.acknowledgedAt < after.sentAt;
      const [a, b] = [spans.get(nameOf(before)), spans.get(nameOf(after))];
      if (isOrdered && a !== undefined && b !== undefined && a.last > b.first) outOfOrder += 1;
    }
  }
  return {
    lost: acknowledged.length - arrived.length,
    otherIds: arrivals.filter(({ id, minion }) => id !== minion).length,
    outOfOrder,
  };
}

function spansOf(arrivals: readonly Arrival[]): ReadonlyMap<string, Span> {
  const spans = new Map<string, Span>();
  for (const [index, arrival] of arrivals.entries()) {
    const name = nameOf(arrival);
    spans.set(name, { first: spans.get(name)?.first ?? index, last: index });
  }
  return spans;
}

function nameOf({ handle, minion, number }: Pick<Arrival, 'handle' | 'minion' | 'number'>): string {
  return `${handle} ${minion} ${number}`;
}

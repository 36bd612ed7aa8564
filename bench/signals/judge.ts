/** Compares what was acknowledged to minions, and permitted in the audit log, with what arrived. */
import type { Arrival } from './endpoint.ts';

/** A signal that a minion sent; moments in milliseconds since 1970. */
export interface Emitted {
  readonly handle: string;
  readonly minion: string;
  readonly number: number;
  readonly sentAt: number;
  /** When the minion was answered. */
  readonly endedAt: number;
  /** Whether the answer says that it was taken. */
  readonly isAcknowledged: boolean;
}

/** A line of the audit log that says allow. A minion sends one signal at a time. */
export interface Permitted {
  readonly handle: string;
  readonly minion: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** Each must be 0. */
export interface Verdict {
  /** Acknowledged, and never arrived. */
  readonly lost: number;
  /** Permitted in the audit log, and never arrived. */
  readonly permittedLost: number;
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
  emitted: readonly Emitted[],
  arrivals: readonly Arrival[],
  permitted: readonly Permitted[],
): Verdict {
  const spans = spansOf(arrivals);
  const acknowledged = emitted.filter(({ isAcknowledged }) => isAcknowledged);
  const arrived = acknowledged.filter((it) => spans.has(nameOf(it)));
  let outOfOrder = 0;
  for (const before of arrived) {
    for (const after of arrived) {
      const isOrdered = before.handle === after.handle && before.endedAt < after.sentAt;
      const [a, b] = [spans.get(nameOf(before)), spans.get(nameOf(after))];
      if (isOrdered && a !== undefined && b !== undefined && a.last > b.first) outOfOrder += 1;
    }
  }
  return {
    lost: acknowledged.length - arrived.length,
    permittedLost: permitted.filter((it) => !isArrived(signalOf(it, emitted), spans)).length,
    otherIds: arrivals.filter(({ id, minion }) => id !== minion).length,
    outOfOrder,
  };
}

function isArrived(signal: Emitted | undefined, spans: ReadonlyMap<string, Span>): boolean {
  return signal !== undefined && spans.has(nameOf(signal));
}

/** The signal that was under way when the line was written. */
function signalOf(
  { handle, minion, at }: Permitted,
  emitted: readonly Emitted[],
): Emitted | undefined {
  return emitted.find(
    (it) => it.handle === handle && it.minion === minion && it.sentAt <= at && at <= it.endedAt,
  );
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

/**
 * Compares the signals that were acknowledged to minions, or permitted in the audit log, with the
 * signals that arrived.
 */
import type { Arrival } from './endpoint.ts';

/** A signal that a minion sent. Times are in milliseconds since 1970. */
export interface Emitted {
  readonly handle: string;
  readonly minion: string;
  readonly number: number;
  readonly sentAt: number;
  /** Time of the reply to the minion. */
  readonly endedAt: number;
  /** Whether the reply means that the signal was accepted. */
  readonly isAcknowledged: boolean;
}

/** A line of the audit log that permits a signal. A minion sends one signal at a time. */
export interface Permitted {
  readonly handle: string;
  readonly minion: string;
  /** Time of the line, in milliseconds since 1970. */
  readonly at: number;
}

/** Numbers of faults. Each must be 0. */
export interface Verdict {
  /** Signals that were acknowledged but never arrived. */
  readonly lost: number;
  /** Signals that were permitted in the audit log but never arrived. */
  readonly permittedLost: number;
  /** Signals that arrived with a wrong id. Each signal must have the id of its minion. */
  readonly otherIds: number;
  /**
   * Number of pairs of signals to one handle in the wrong order: the second signal arrived before
   * the last arrival of the first one.
   */
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

/** Returns the signal that was in progress when a line of the audit log was written. */
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

/** What every transport gets, and gives. */

import { writeJson } from '../../../runtime/index.ts';
import type { Exchange, OutgoingRequest } from '../../outgoing/exchange.ts';
import type { Destination, Transport } from '../destination.ts';
import type { Outcome } from '../outcome.ts';
import type { Signal } from '../signal.ts';

/** A signal on its way. */
export interface Delivery<D extends Destination = Destination> {
  readonly destination: D;
  /** The record's own name, the same at each try. */
  readonly recordId: string;
  readonly alias: string;
  readonly minion: string;
  readonly member: string | undefined;
  /** The id under which Heat counts. */
  readonly signalId: string;
  readonly signal: Signal;
  /** Tries before this one since the process started. */
  readonly failures: number;
  /** When the handle ends, milliseconds since 1970. */
  readonly expiresAt: number;
  readonly now: () => number;
  ask(request: OutgoingRequest): Promise<Exchange>;
}

/** Tries once to bring a signal to where it belongs. */
export type Deliver<D extends Destination> = (delivery: Delivery<D>) => Promise<Outcome>;

/** The destination of a transport. */
export type DestinationOf<T extends Transport> = Extract<Destination, { transport: T }>;

/**
 * The signal as an `OS::Heat::WaitConditionHandle` takes it. Always with its id: without one each
 * try would count as one more.
 */
export function heatBody({ signal, signalId }: Delivery): string {
  return writeJson({ ...signal, id: signalId });
}

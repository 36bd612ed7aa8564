/** The body of a signal for an `OS::Heat::WaitConditionHandle`. */

import { writeJson } from '#runtime';
import type { Delivery } from './transport.ts';

/** Writes the signal with its id: without one, Heat would count each try as another signal. */
export function heatBody({
  record,
  signalId,
}: Pick<Delivery<unknown>, 'record' | 'signalId'>): string {
  const { reason, ...signal } = record.signal;
  const text = reason === undefined ? {} : { reason: storableReason(reason) };
  return writeJson({ ...signal, ...text, id: signalId });
}

/**
 * A reason that Heat can store. Its database has columns of three-byte UTF-8: a character beyond them
 * ends the engine's work on the stack, which then stays in progress.
 */
export function storableReason(reason: string): string {
  return reason.toWellFormed().replace(/[\u{10000}-\u{10ffff}]/gu, '\ufffd');
}

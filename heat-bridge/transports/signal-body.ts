/** The body of a signal for an `OS::Heat::WaitConditionHandle`. */

import { writeJson } from '#runtime';
import type { Delivery } from './transport.ts';

/** Writes the signal with its id: without one, Heat would count each try as another signal. */
export function heatBody({
  record,
  signalId,
}: Pick<Delivery<unknown>, 'record' | 'signalId'>): string {
  return writeJson({ ...record.signal, id: signalId });
}

import type { Enrolment } from './enroll/enrolment.ts';

/** Whether an enrolment uses its id: it is open, or its key is accepted. */
export function isLive({ state }: Enrolment): boolean {
  return state === 'open' || state === 'accepted' || state === 'signed-in';
}

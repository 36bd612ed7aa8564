import type { Enrolment } from './enroll/enrolment.ts';

/** Whether an enrolment occupies its minion id: its ticket is unused, or its key is accepted. */
export function isLive({ state }: Enrolment): boolean {
  return state === 'open' || state === 'accepted' || state === 'signed-in';
}

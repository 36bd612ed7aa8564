import type { Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';
import { list } from './words.ts';

/** Minions that a planned restart of the master would leave without a connection. */
export async function checkRestart({ running }: Patient): Promise<DoctorFinding[]> {
  const ids = running?.minions.filter((it) => it.needsOwnRestart).map(({ id }) => id) ?? [];
  if (ids.length === 0) return [];
  return [
    {
      code: 'minion-needs-restart',
      severity: 'warning',
      subject: list(ids),
      problem:
        'After a restart of the master these minions do not connect again: Salt 3007 and later over TCP and WebSocket.',
      remedy: 'Restart each minion after the master, or let them use ZeroMQ.',
    },
  ];
}

import type { Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';
import { list } from './words.ts';

const latestProtocol = 3;

/** Accepted ids whose returns an accepted minion could forge: they have not proved protocol 3. */
export async function checkProtocol(patient: Patient): Promise<DoctorFinding[]> {
  const ids = lowIds(patient);
  if (ids.length === 0) return [];
  const { minimumAuthVersion } = patient.config.config;
  const isLockedOut = minimumAuthVersion !== 'auto' && minimumAuthVersion >= latestProtocol;
  return [
    {
      code: 'protocol-low',
      severity: 'warning',
      subject: list(ids),
      problem: isLockedOut
        ? 'These ids have not proved protocol 3, and lower ones are refused.'
        : 'These ids have not proved protocol 3: other minions could return in their name.',
      remedy: 'Update the minions (3006.17, 3007.9 or later); delete the ids that are no more.',
    },
  ];
}

function lowIds({ keys, running, store }: Patient): string[] {
  if (running !== undefined) {
    return running.keys
      .filter(({ state, protocol }) => state === 'accepted' && protocol < latestProtocol)
      .map(({ id }) => id);
  }
  if (store === undefined) return [];
  return keys.keys
    .filter(({ place, id }) => place === 'accepted' && (store.pins.get(id) ?? 0) < latestProtocol)
    .map(({ id }) => id);
}

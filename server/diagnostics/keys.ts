import path from 'node:path';
import { keyMarks } from '#master';
import { isNewMinionId } from '#minion-protocol';
import { unlimitedSteps, WorkBudget } from '#runtime';
import type { SurveyedKey } from './key-survey.ts';
import { surveyOwnKeys } from './own-key-survey.ts';
import { type DiagnosticsInput, type DoctorFinding, formatList } from './report.ts';

const dayMs = 86_400_000;
const pendingDays = 7;

/**
 * Checks the master's key pairs, and the signature file that can be used instead of the signing key
 * pair.
 */
export async function checkOwnKeys({
  config: { config },
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  for (const { name, fault } of await surveyOwnKeys(config)) {
    // If the master has no key files at all, its first start creates them.
    if (fault === undefined || !fault.isFatal) continue;
    findings.push({
      code: `own-key-${fault.kind}`,
      severity: 'error',
      subject: path.resolve(config.pkiDir, name),
      problem: `${fault.problem}.`,
      remedy: `${fault.remedy}.`,
    });
  }
  return findings;
}

/**
 * Checks the keys of minions. Reports unusable keys, and keys that wait for an operator's decision.
 */
export async function checkMinionKeys({
  keys: survey,
  world,
  config: { config },
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { keys, unreadable } = survey;
  return [
    ...unreadable.map((directory) => unusable(directory, 'The directory cannot be read.')),
    ...keys.flatMap(faulty),
    ...duplicates(keys),
    ...(await lookalikes(keys)),
    ...(config.minionIds === 'salt' ? [] : unusual(keys)),
    ...denied(keys),
    ...pending(keys, world.now()),
  ];
}

function faulty({ file, fault }: SurveyedKey): DoctorFinding[] {
  switch (fault) {
    case undefined:
      return [];
    case 'unreadable':
      return [unusable(file, 'The file cannot be read, or is too large for a key.')];
    case 'no-key':
      return [unusable(file, 'The file does not contain a public RSA key in PEM.')];
    case 'small':
      return [
        {
          code: 'minion-key-small',
          severity: 'error',
          subject: file,
          problem: 'The key has less than 2048 bits: the minion cannot sign in.',
          remedy:
            'Delete the key here and the key pair on the minion. The minion then creates a new pair.',
        },
      ];
  }
}

function unusable(subject: string, problem: string): DoctorFinding {
  return {
    code: 'minion-key-unusable',
    severity: 'error',
    subject,
    problem,
    remedy: 'Restore it from a backup, or delete the key so that the minion can enrol again.',
  };
}

/** Finds keys that are stored under several ids. This happens if a machine is renamed or cloned. */
function duplicates(keys: readonly SurveyedKey[]): DoctorFinding[] {
  const idsByKey = new Map<string, Set<string>>();
  for (const { id, pem, fault } of keys) {
    if (fault !== undefined) continue;
    const text = pem.replace(/\s+/g, '');
    idsByKey.set(text, (idsByKey.get(text) ?? new Set()).add(id));
  }
  return [...idsByKey.values()]
    .filter((ids) => ids.size > 1)
    .map((ids) => ({
      code: 'minion-key-duplicate',
      severity: 'warning',
      subject: formatList([...ids].sort()),
      problem: 'These ids share one key: each of the machines can impersonate the others.',
      remedy: 'Delete the ids that are no longer used. Give cloned machines their own key pairs.',
    }));
}

/** Finds ids that are easily confused, if at least one of them is accepted. */
async function lookalikes(keys: readonly SurveyedKey[]): Promise<DoctorFinding[]> {
  const accepted = keys.filter(({ place }) => place === 'accepted');
  const marksOf = await keyMarks(accepted, new WorkBudget(unlimitedSteps));
  const ids = new Set(
    keys.flatMap((key) => {
      const { alike = [] } = marksOf(key);
      return alike.length === 0 ? [] : [key.id, ...alike];
    }),
  );
  if (ids.size === 0) return [];
  return [
    {
      code: 'minion-id-alike',
      severity: 'warning',
      subject: formatList([...ids].sort()),
      problem: 'Accepted ids differ from others only in case and are easily confused.',
      remedy:
        'Find out which machines have these ids. Delete the keys of those that are not yours.',
    },
  ];
}

/**
 * Finds ids that are not permitted for new minions. An earlier version, or the option `minion_ids:
 * salt`, permitted them.
 */
function unusual(keys: readonly SurveyedKey[]): DoctorFinding[] {
  const ids = keys.map(({ id }) => id).filter((id) => !isNewMinionId(id));
  if (ids.length === 0) return [];
  return [
    {
      code: 'minion-id-unusual',
      severity: 'warning',
      subject: formatList([...new Set(ids)].map((id) => JSON.stringify(id))),
      problem:
        'New minions cannot use such an id: as a target it can match other minions, or be confused with another id.',
      remedy:
        'Accepted minions continue to work. Give these machines other ids, and delete the old keys.',
    },
  ];
}

function denied(keys: readonly SurveyedKey[]): DoctorFinding[] {
  const ids = keys.filter(({ place }) => place === 'denied').map(({ id }) => id);
  if (ids.length === 0) return [];
  return [
    {
      code: 'minion-key-denied',
      severity: 'warning',
      subject: formatList(ids),
      problem: 'A machine tried to sign in under this id with a different key.',
      remedy: 'Find the machine. Delete the denied key, or accept it instead of the current key.',
    },
  ];
}

function pending(keys: readonly SurveyedKey[], now: number): DoctorFinding[] {
  const ids = keys
    .filter(({ place, since }) => place === 'pending' && now - since > pendingDays * dayMs)
    .map(({ id }) => id);
  if (ids.length === 0) return [];
  return [
    {
      code: 'minion-key-pending',
      severity: 'warning',
      subject: formatList(ids),
      problem: `The keys have waited for more than ${pendingDays} days.`,
      remedy:
        'Accept, reject or delete them. Too many of them prevent new machines from enrolling.',
    },
  ];
}

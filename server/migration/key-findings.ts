/** Findings about the keys of the salt-master: their number, and the unusable keys. */

import path from 'node:path';
import type { MasterConfig } from '#config';
import { type KeyState, placeDirectories } from '#master';
import { isNewMinionId } from '#minion-protocol';
import type { KeySurvey, SurveyedKey } from '../diagnostics/key-survey.ts';
import { surveyOwnKeys } from '../diagnostics/own-key-survey.ts';
import type { MigrationFinding } from './finding.ts';
import { unreadableFinding } from './site-files.ts';

const faults = {
  unreadable: 'cannot be read',
  'no-key': 'is not a usable RSA key',
  small: 'has less than 2048 bits',
} as const;

/** Counts the keys in each state. */
export function countKeys({ keys }: KeySurvey): Record<KeyState, number> {
  const counts = { accepted: 0, denied: 0, pending: 0, rejected: 0 };
  for (const { place } of keys) counts[place]++;
  return counts;
}

/**
 * Returns findings about the master's key pairs, about the states of minion keys, and about each
 * unusable key.
 */
export async function keyFindings(
  config: MasterConfig,
  survey: KeySurvey,
): Promise<MigrationFinding[]> {
  const counts = countKeys(survey);
  const states = Object.entries(counts).map(([state, count]) => `${count} ${state}`);
  return [
    ...(await ownKeyFindings(config)),
    {
      outcome: 'honoured',
      kind: 'keys',
      name: 'minion keys',
      file: config.pkiDir,
      line: 0,
      meaning: `The master uses the existing key files without copying them: ${states.join(', ')}.`,
      remedy: '',
    },
    ...survey.unreadable.map((directory) => unreadableFinding(directory)),
    ...survey.keys.flatMap(faultyKey),
    ...unusualIds(config, survey.keys),
    ...(counts.denied > 0 ? [deniedKeys(config, counts.denied)] : []),
  ];
}

async function ownKeyFindings(config: MasterConfig): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const { name, fault } of await surveyOwnKeys(config)) {
    const file = path.resolve(config.pkiDir, name);
    findings.push({
      outcome: fault?.isFatal ? 'refused' : 'honoured',
      kind: 'keys',
      name,
      file,
      line: 0,
      meaning:
        fault === undefined
          ? 'The master uses this key, so minions continue to trust it.'
          : `${fault.problem}.`,
      remedy: fault === undefined ? '' : `${fault.remedy}.`,
    });
  }
  return findings;
}

function faultyKey({ id, place, file, fault }: SurveyedKey): MigrationFinding[] {
  if (fault === undefined || place !== 'accepted') return [];
  return [
    {
      outcome: 'refused',
      kind: 'keys',
      name: `key of ${id}`,
      file,
      line: 0,
      meaning: `The key ${faults[fault]}, so the minion cannot sign in.`,
      remedy:
        'Delete the key here and the key pair on the minion. The minion then creates a new pair.',
    },
  ];
}

/** Returns findings about ids that saltbridge does not accept for new minions. */
function unusualIds(
  { pkiDir, minionIds }: MasterConfig,
  keys: readonly SurveyedKey[],
): MigrationFinding[] {
  if (minionIds === 'salt') return [];
  return keys
    .filter(({ id, place }) => place !== 'denied' && !isNewMinionId(id))
    .map(({ id, place }) => ({
      outcome: 'honoured',
      kind: 'keys',
      name: `id ${JSON.stringify(id)}`,
      file: path.join(pkiDir, placeDirectories[place], id),
      line: 0,
      meaning:
        place === 'accepted'
          ? 'The accepted minion continues to work, but new minions cannot have such an id.'
          : 'New minions cannot have such an id, so its key cannot be accepted.',
      remedy: 'Give the machine another id, or set saltbridge: minion_ids: salt.',
    }));
}

function deniedKeys({ pkiDir }: MasterConfig, count: number): MigrationFinding {
  return {
    outcome: 'honoured',
    kind: 'keys',
    name: 'denied keys',
    file: path.join(pkiDir, placeDirectories.denied),
    line: 0,
    meaning: `For ${count} ids, a machine tried to sign in with a key other than the accepted one.`,
    remedy: 'Find out which machines share an id. Then delete the denied keys.',
  };
}

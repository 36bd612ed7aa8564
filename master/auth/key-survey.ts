/** Minions' keys looked at for reports: nothing is made, moved or removed. */

import { createPublicKey } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { parsePublicKey } from '#minion-protocol';
import { isMissing } from '#runtime';
import type { KeyState } from '../api/index.ts';
import { keyPlaces, placeDirectories } from './pki-directory.ts';

/** Why a key cannot be used. */
type KeyFault =
  /** The file cannot be read, or is too large for a key. */
  | 'unreadable'
  /** It is not the text of a public RSA key. */
  | 'no-key'
  /** It has less than 2048 bits. */
  | 'small';

/** A key file. */
export interface SurveyedKey {
  readonly id: string;
  readonly place: KeyState;
  readonly file: string;
  /** Clean text; '' where it could not be read. */
  readonly pem: string;
  /** When the file was written, in milliseconds since 1970. */
  readonly since: number;
  /** `undefined`: the key is good. */
  readonly fault: KeyFault | undefined;
}

export interface KeySurvey {
  readonly keys: readonly SurveyedKey[];
  /** Directories that are there and could not be listed. */
  readonly unreadable: readonly string[];
}

const maxKeyBytes = 65_536;

/** Every key of every place; a directory that does not exist has none. */
export async function surveyKeys(pkiDir: string): Promise<KeySurvey> {
  const keys: SurveyedKey[] = [];
  const unreadable: string[] = [];
  for (const place of keyPlaces) {
    const directory = path.join(pkiDir, placeDirectories[place]);
    try {
      const names = await readdir(directory);
      for (const id of names.filter((name) => !name.startsWith('.')).sort()) {
        keys.push(surveyKey(path.join(directory, id), place));
      }
    } catch (error) {
      if (!isMissing(error)) unreadable.push(directory);
    }
  }
  return { keys, unreadable };
}

/** Blocking, and many times faster over thousands of files. */
function surveyKey(file: string, place: KeyState): SurveyedKey {
  const id = path.basename(file);
  try {
    const stats = statSync(file);
    const since = stats.mtimeMs;
    if (!stats.isFile() || stats.size > maxKeyBytes) {
      return { id, place, file, pem: '', since, fault: 'unreadable' };
    }
    const pem = readFileSync(file, 'utf8').trim();
    return { id, place, file, pem, since, fault: faultOf(pem) };
  } catch {
    return { id, place, file, pem: '', since: 0, fault: 'unreadable' };
  }
}

/** Why a public key is not taken; `undefined` if it is. */
function faultOf(pem: string): KeyFault | undefined {
  try {
    parsePublicKey(pem);
    return undefined;
  } catch {
    return isSmall(pem) ? 'small' : 'no-key';
  }
}

function isSmall(pem: string): boolean {
  try {
    const { modulusLength } = createPublicKey(pem).asymmetricKeyDetails ?? {};
    return modulusLength !== undefined && modulusLength < 2048;
  } catch {
    return false;
  }
}

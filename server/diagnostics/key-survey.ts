/** Reads all keys of minions for reports, without changing anything. */

import { createPublicKey } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { KeyState } from '#master';
import { keyPlaces, placeDirectories } from '#master';
import { parsePublicKey } from '#minion-protocol';
import { isMissing } from '#runtime';

/** Reason why a key cannot be used. */
type KeyFault =
  /** The file cannot be read, or is too large for a key. */
  | 'unreadable'
  /** The file does not contain an RSA public key. */
  | 'no-key'
  /** The key has fewer than 2048 bits. */
  | 'small';

/** A key file of a minion, with its state and faults. */
export interface SurveyedKey {
  readonly id: string;
  readonly place: KeyState;
  readonly file: string;
  /** Normalised key in PEM format, or '' if it could not be read. */
  readonly pem: string;
  /** Modification time of the file, in milliseconds since 1970. */
  readonly since: number;
  /** Fault of the key, or `undefined` if it is valid. */
  readonly fault: KeyFault | undefined;
}

export interface KeySurvey {
  readonly keys: readonly SurveyedKey[];
  /** Directories that exist but could not be listed. */
  readonly unreadable: readonly string[];
}

const maxKeyBytes = 65_536;

/** Reads the keys in all states. A missing directory is treated as empty. */
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

/** Reads one key synchronously, because that is many times faster for thousands of files. */
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

/** Returns the fault of a public key, or `undefined` if it is valid. */
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

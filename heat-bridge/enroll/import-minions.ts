/** Imports minions whose keys, or fingerprints, are known. */

import { randomBytes } from 'node:crypto';
import { parsePublicKey } from '#minion-protocol';
import { BridgeError } from '../errors.ts';
import type { SharedNames } from '../shared-names.ts';
import {
  type Enrolment,
  fingerprintOf,
  type KnownMinion,
  tryParseFingerprint,
} from './enrolment.ts';
import type { EnrollOptions } from './enrolment-options.ts';
import type { EnrolmentParts, EnrolmentTransitions } from './enrolment-transitions.ts';

export interface ImportParts extends EnrolmentParts {
  readonly moves: EnrolmentTransitions;
  /** Ids, of which two members of a cluster must not enrol one each. */
  readonly names: SharedNames;
  readonly options: Pick<EnrollOptions, 'protocol'>;
}

/**
 * Accepts the keys of minions; all of them or none. Those that have this key already stay as they
 * are.
 * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the place in the list
 */
export async function importMinions(
  minions: readonly KnownMinion[],
  parts: ImportParts,
): Promise<readonly Enrolment[]> {
  const { book, moves, admission, names, tell } = parts;
  const ids = new Set(minions.map(({ id }) => id));
  if (ids.size < minions.length)
    throw new BridgeError('ERR_ENROLL_ARGS', 'an id stands there twice');
  const enrolments = await names.decide([...ids], async (steps) => {
    const made = minions.map((minion, index) => toEnrolment(minion, index, parts));
    if (made.length > 0) await book.putWith(made, steps);
    return made;
  });
  for (const [index, { publicKey }] of minions.entries()) {
    const enrolment = enrolments[index];
    if (enrolment === undefined) continue;
    const { id, protocol } = enrolment;
    await moves.exclusive(enrolment, async (current) => {
      // Ended before it came to it.
      if (current?.state !== 'accepted') return;
      if (publicKey === undefined) await admission.pin(id, protocol);
      else await admission.admit({ id, publicKey, protocol });
      tell({ what: 'accepted', enrolment });
      // It may have signed in before.
      await moves.signIn(current);
    });
  }
  return enrolments;
}

function toEnrolment(minion: KnownMinion, index: number, parts: ImportParts): Enrolment {
  const { id, project, instance, expires } = minion;
  const place = `entry ${index + 1}`;
  if (!parts.admission.takesId(id))
    throw importError(place, 'the id of a minion as id (minion_ids)');
  if (project.length === 0 || project.length > 255) throw importError(place, 'a project');
  const fingerprint = fingerprintOfKnownMinion(minion, place);
  const held = parts.admission.keyOf(id);
  const hasOther = held?.state === 'accepted' && held.fingerprint !== fingerprint;
  if (hasOther || held?.state === 'rejected' || parts.book.liveOf(id) !== undefined) {
    throw new BridgeError('ERR_ENROLL_TAKEN', `${place}: the id has a key or an enrolment`);
  }
  return {
    number: randomBytes(16).toString('base64url'),
    id,
    project,
    ...(instance === undefined ? {} : { instance }),
    by: 'import',
    state: 'accepted',
    fingerprint,
    protocol: minion.protocol ?? parts.options.protocol,
    createdAt: parts.now(),
    ...(expires === undefined ? {} : { keyExpiresAt: expires }),
  };
}

function fingerprintOfKnownMinion({ publicKey, fingerprint }: KnownMinion, place: string): string {
  const stated = fingerprint === undefined ? undefined : tryParseFingerprint(fingerprint);
  if (publicKey === undefined) {
    if (stated === undefined) throw importError(place, 'a publicKey, or a fingerprint by SHA-256');
    return stated;
  }
  try {
    parsePublicKey(publicKey);
  } catch (cause) {
    throw importError(place, 'an RSA public key of 2048 to 8192 bits in PEM', cause);
  }
  const actual = fingerprintOf(publicKey);
  if (fingerprint !== undefined && stated !== actual) {
    throw importError(place, 'the fingerprint of its publicKey');
  }
  return actual;
}

function importError(place: string, expected: string, cause?: unknown): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `${place}: expected ${expected}`, { cause });
}

/** Imports minions with known keys or fingerprints. */

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
  readonly transitions: EnrolmentTransitions;
  /** Reserves ids across the cluster, so that two members cannot enrol the same id. */
  readonly names: SharedNames;
  readonly options: Pick<EnrollOptions, 'protocol'>;
}

/**
 * Accepts the keys of minions. If one entry of the list is invalid, accepts no key. A minion whose
 * key is already accepted keeps its key.
 * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the position in the list
 */
export async function importMinions(
  minions: readonly KnownMinion[],
  parts: ImportParts,
): Promise<readonly Enrolment[]> {
  const { repository, transitions, admission, names, tell } = parts;
  const ids = new Set(minions.map(({ id }) => id));
  if (ids.size < minions.length)
    throw new BridgeError('ERR_ENROLL_ARGS', 'duplicate id in the list');
  const enrolments = await names.decide([...ids], async (steps) => {
    const made = minions.map((minion, index) => toEnrolment(minion, index, parts));
    if (made.length > 0) await repository.putWith(made, steps);
    return made;
  });
  for (const [index, { publicKey }] of minions.entries()) {
    const enrolment = enrolments[index];
    if (enrolment === undefined) continue;
    const { id, protocol } = enrolment;
    await transitions.exclusive(enrolment, async (current) => {
      // The enrolment has ended in the meantime.
      if (current?.state !== 'accepted') return;
      if (publicKey === undefined) await admission.pin(id, protocol);
      else await admission.admit({ id, publicKey, protocol });
      tell({ what: 'accepted', enrolment });
      // The minion may have signed in with this key already.
      await transitions.signIn(current);
    });
  }
  return enrolments;
}

function toEnrolment(minion: KnownMinion, index: number, parts: ImportParts): Enrolment {
  const { id, project, instance, expires } = minion;
  const place = `entry ${index + 1}`;
  if (!parts.admission.takesId(id))
    throw importError(
      place,
      '`id` must be a valid minion id, and the option `minion_ids` must permit it',
    );
  if (project.length === 0 || project.length > 255)
    throw importError(place, '`project` must have 1 to 255 characters');
  const fingerprint = fingerprintOfKnownMinion(minion, place);
  const held = parts.admission.keyOf(id);
  const hasOther = held?.state === 'accepted' && held.fingerprint !== fingerprint;
  if (hasOther || held?.state === 'rejected' || parts.repository.liveOf(id) !== undefined) {
    throw new BridgeError(
      'ERR_ENROLL_TAKEN',
      `${place}: the minion id already has a different or rejected key, or an enrolment`,
    );
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
    if (stated === undefined)
      throw importError(
        place,
        'the entry must have a `publicKey`, or a `fingerprint` in the SHA-256 form',
      );
    return stated;
  }
  try {
    parsePublicKey(publicKey);
  } catch (cause) {
    throw importError(
      place,
      '`publicKey` must be an RSA public key of 2048 to 8192 bits, in PEM',
      cause,
    );
  }
  const actual = fingerprintOf(publicKey);
  if (fingerprint !== undefined && stated !== actual) {
    throw importError(place, '`fingerprint` does not match `publicKey`');
  }
  return actual;
}

function importError(place: string, problem: string, cause?: unknown): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `${place}: ${problem}`, { cause });
}

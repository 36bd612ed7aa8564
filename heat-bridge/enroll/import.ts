/** Many minions at once whose keys, or fingerprints of them, are known. */
import { randomBytes } from 'node:crypto';
import type { Admission } from '../../master/index.ts';
import { parsePublicKey } from '../../minion-protocol/index.ts';
import { BridgeError } from '../errors.ts';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentBook } from './enrolment-book.ts';
import { fingerprintOf, tryParseFingerprint } from './fingerprint.ts';
import type { EnrolmentMoves, EnrolmentNews } from './moves.ts';

/** A minion whose key is known. */
export interface KnownMinion {
  readonly id: string;
  readonly project: string;
  readonly instance?: string;
  /** PEM text of its key. Else `fingerprint`. */
  readonly publicKey?: string;
  /** SHA-256 of its key: it is accepted when it is shown. */
  readonly fingerprint?: string;
  /** See `EnrolRequest`. */
  readonly expires?: number;
  readonly protocol?: 0 | 1 | 2 | 3;
}

/** What {@link importMinions} needs. */
export interface ImportParts {
  readonly book: EnrolmentBook;
  readonly moves: EnrolmentMoves;
  readonly admission: Admission;
  readonly defaultProtocol: 0 | 1 | 2 | 3;
  readonly tell: (news: EnrolmentNews) => void;
  readonly now: () => number;
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
  const { book, moves, admission, tell } = parts;
  const ids = new Set(minions.map(({ id }) => id));
  if (ids.size < minions.length)
    throw new BridgeError('ERR_ENROLL_ARGS', 'an id stands there twice');
  const enrolments = minions.map((minion, index) => toEnrolment(minion, index, parts));
  if (enrolments.length === 0) return [];
  await book.put(...enrolments);
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
  if (!parts.admission.takesId(id)) throw wrong(place, 'the id of a minion as id (minion_ids)');
  if (project.length === 0 || project.length > 255) throw wrong(place, 'a project');
  const fingerprint = fingerprintIn(minion, place);
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
    protocol: minion.protocol ?? parts.defaultProtocol,
    createdAt: parts.now(),
    ...(expires === undefined ? {} : { keyExpiresAt: expires }),
  };
}

function fingerprintIn({ publicKey, fingerprint }: KnownMinion, place: string): string {
  const stated = fingerprint === undefined ? undefined : tryParseFingerprint(fingerprint);
  if (publicKey === undefined) {
    if (stated === undefined) throw wrong(place, 'a publicKey, or a fingerprint by SHA-256');
    return stated;
  }
  try {
    parsePublicKey(publicKey);
  } catch (cause) {
    throw wrong(place, 'an RSA public key of 2048 to 8192 bits in PEM', cause);
  }
  const actual = fingerprintOf(publicKey);
  if (fingerprint !== undefined && stated !== actual) {
    throw wrong(place, 'the fingerprint of its publicKey');
  }
  return actual;
}

function wrong(place: string, expected: string, cause?: unknown): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `${place}: expected ${expected}`, { cause });
}

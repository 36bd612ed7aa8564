/** Enrolments as orchestrators ask for them. */
import { type KeyObject, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { Admission } from '../../master/index.ts';
import type { KeyPairText } from '../../minion-protocol/index.ts';
import { BridgeError } from '../errors.ts';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentBook } from './enrolment-book.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { KeyPairs } from './key-pairs.ts';
import type { EnrolmentMoves, EnrolmentNews } from './moves.ts';
import type { EnrolRequest, NewEnrolment } from './request.ts';
import { signTicket } from './ticket.ts';
import type { UserDataWriter } from './user-data/writer.ts';

/** What {@link EnrolmentDesk} needs. */
export interface DeskParts {
  readonly book: EnrolmentBook;
  readonly moves: EnrolmentMoves;
  readonly admission: Admission;
  readonly keyPairs: KeyPairs;
  /** Signs tickets. */
  readonly privateKey: KeyObject;
  /** @throws BridgeError ERR_ENROLL_OFF where the options say too little to write user-data */
  readonly writer: () => Promise<UserDataWriter>;
  readonly defaults: {
    readonly ticketLifetimeMs: number;
    readonly protocol: 0 | 1 | 2 | 3;
    readonly isOn: boolean;
    readonly takesGrains: boolean;
    readonly maxOpen: number;
  };
  readonly tell: (news: EnrolmentNews) => void;
  readonly now: () => number;
}

const longestLifetimeMs = 86_400_000;

export class EnrolmentDesk {
  readonly #parts: DeskParts;

  constructor(parts: DeskParts) {
    this.#parts = parts;
  }

  /**
   * Begins an enrolment: makes a ticket and user-data; with `by: 'keys'` also a key pair, whose
   * public half is accepted and whose private half is in the user-data and nowhere else. A ticket
   * that the same project was given for the id, and that nobody used, is no longer good.
   * @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, ERR_ENROLL_FULL
   */
  async create(request: EnrolRequest): Promise<NewEnrolment> {
    const writer = await this.#writerFor(request);
    const { admission, keyPairs } = this.#parts;
    if (!admission.takesId(request.id)) throw wrong('id', 'the id of a minion (minion_ids)');
    checkRequest(request, this.#parts.now());
    const keys = request.by === 'keys' ? await keyPairs.take() : undefined;
    return admission.exclusive(request.id, () => this.#create(request, { writer, keys }));
  }

  async #create(
    request: EnrolRequest,
    {
      writer,
      keys,
    }: { readonly writer: UserDataWriter | undefined; readonly keys: KeyPairText | undefined },
  ): Promise<NewEnrolment> {
    const { admission, book, moves, privateKey, tell } = this.#parts;
    const enrolment = this.#begin(request, keys);
    const before = this.#giveWay(request);
    const { number, id, project, instance, address, ticketExpiresAt = 0 } = enrolment;
    const claims = {
      number,
      minion: id,
      project,
      ...(instance === undefined ? {} : { instance }),
      ...(address === undefined ? {} : { address }),
      expiresAt: ticketExpiresAt,
    };
    const ticket = signTicket(claims, privateKey);
    // Written first, because it is the step that may refuse what it was given.
    const userData = writer?.write(request, { ticket, keys }) ?? '';
    const isOpen = book.put(enrolment);
    if (before !== undefined) await moves.fail(before, 'a newer ticket was made for this id');
    await isOpen;
    if (keys !== undefined) {
      await admission.admit({ id, publicKey: keys.publicPem, protocol: enrolment.protocol });
    }
    tell({ what: 'created', enrolment });
    return { enrolment, ticket, userData };
  }

  /** Refuses what is not switched on, before anything is made. */
  async #writerFor({ by, format }: EnrolRequest): Promise<UserDataWriter | undefined> {
    const { writer, defaults } = this.#parts;
    if (!defaults.isOn) {
      throw new BridgeError('ERR_ENROLL_OFF', 'expected a section saltbridge: bridge: enroll');
    }
    if (by === 'grain' && !defaults.takesGrains) {
      throw new BridgeError('ERR_ENROLL_OFF', 'tickets as grains are off (enroll: grain)');
    }
    if (format !== 'none') return writer();
    if (by === 'keys') throw wrong('format', 'one that can hold the key pair');
    return undefined;
  }

  #begin(request: EnrolRequest, keys: KeyPairText | undefined): Enrolment {
    const { defaults, now } = this.#parts;
    const { id, project, instance, address, by = 'claim', expires } = request;
    const createdAt = now();
    const lifetimeMs = request.lifetime === undefined ? undefined : request.lifetime * 1000;
    const ticketExpiresAt = createdAt + (lifetimeMs ?? defaults.ticketLifetimeMs);
    return {
      number: randomBytes(16).toString('base64url'),
      id,
      project,
      ...(instance === undefined ? {} : { instance }),
      ...(address === undefined ? {} : { address }),
      by,
      state: keys === undefined ? 'open' : 'accepted',
      ...(keys === undefined ? {} : { fingerprint: fingerprintOf(keys.publicPem) }),
      protocol: request.protocol ?? defaults.protocol,
      createdAt,
      ticketExpiresAt,
      deadline: ticketExpiresAt,
      ...(expires === undefined ? {} : { keyExpiresAt: expires }),
    };
  }

  /** The unused ticket that the new one takes the place of. Nothing else gives way. */
  #giveWay({ id, project }: EnrolRequest): Enrolment | undefined {
    const { admission, book, defaults } = this.#parts;
    const held = admission.keyOf(id);
    if (held !== undefined && held.state !== 'pending') {
      throw new BridgeError('ERR_ENROLL_TAKEN', `the id has a key, which is ${held.state}`);
    }
    const live = book.liveOf(id);
    const isTaken = live !== undefined && (live.state !== 'open' || live.project !== project);
    if (isTaken) throw new BridgeError('ERR_ENROLL_TAKEN', 'the id is being enrolled already');
    // protection: enrol-any-number
    if (live === undefined && book.open >= defaults.maxOpen) {
      throw new BridgeError('ERR_ENROLL_FULL', `${book.open} enrolments are open`);
    }
    return live;
  }
}

function checkRequest(request: EnrolRequest, now: number): void {
  const { project, instance, address, lifetime, expires } = request;
  for (const [name, text] of Object.entries({ project, instance: instance ?? '-' })) {
    if (text.length === 0 || text.length > 255) throw wrong(name, '1 to 255 characters');
  }
  if (address !== undefined && isIP(address) === 0) throw wrong('address', 'an IP address');
  const isLifetime =
    lifetime === undefined || (lifetime > 0 && lifetime * 1000 <= longestLifetimeMs);
  if (!isLifetime) throw wrong('lifetime', 'seconds, at most a day');
  if (expires !== undefined && expires <= now) throw wrong('expires', 'a time to come');
}

function wrong(name: string, expected: string): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `${name}: expected ${expected}`);
}

/** The enrolment service: creates, imports and retires enrolments, and prepares key pairs. */

import { type KeyObject, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { KeyLifecycle, StateOperation } from '#master';
import { isRelayedAddress, type KeyPairText } from '#minion-protocol';
import { BridgeError } from '../errors.ts';
import type { SharedNames } from '../shared-names.ts';
import {
  type Enrolment,
  type EnrolRequest,
  fingerprintOf,
  type NewEnrolment,
} from './enrolment.ts';
import type { EnrolmentRepository } from './enrolment-repository.ts';
import type { EnrolmentEvent, EnrolmentTransitions } from './enrolment-transitions.ts';
import type { KeyPairs } from './key-pairs.ts';
import { signTicket } from './tickets.ts';
import type { UserDataWriter } from './user-data.ts';

export interface EnrolmentServiceDeps {
  readonly book: EnrolmentRepository;
  readonly moves: EnrolmentTransitions;
  readonly admission: KeyLifecycle;
  readonly keyPairs: KeyPairs;
  /** Ids, of which two members of a cluster must not enrol one each. */
  readonly names: SharedNames;
  /** Signs tickets. */
  readonly privateKey: KeyObject;
  /** @throws BridgeError ERR_ENROLL_OFF where the options say too little to write user-data */
  readonly writer: () => Promise<UserDataWriter>;
  /** Whether an HTTP server has the bridge's routes, which machines claim at. */
  readonly isServed: () => boolean;
  readonly defaults: {
    readonly ticketLifetimeMs: number;
    readonly protocol: 0 | 1 | 2 | 3;
    readonly isOn: boolean;
    readonly takesGrains: boolean;
    readonly maxOpen: number;
  };
  readonly tell: (news: EnrolmentEvent) => void;
  readonly now: () => number;
}

const maxTicketLifetimeMs = 86_400_000;

export class EnrolmentService {
  readonly #parts: EnrolmentServiceDeps;

  constructor(parts: EnrolmentServiceDeps) {
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
    if (!admission.takesId(request.id))
      throw argumentError('id', 'the id of a minion (minion_ids)');
    checkEnrolRequest(request, this.#parts.now());
    const keys = request.by === 'keys' ? await keyPairs.take() : undefined;
    return admission.exclusive(request.id, () =>
      this.#parts.names.decide([request.id], (steps) =>
        this.#create(request, { writer, keys, steps }),
      ),
    );
  }

  async #create(
    request: EnrolRequest,
    {
      writer,
      keys,
      steps,
    }: {
      readonly writer: UserDataWriter | undefined;
      readonly keys: KeyPairText | undefined;
      readonly steps: readonly StateOperation[];
    },
  ): Promise<NewEnrolment> {
    const { admission, book, moves, tell } = this.#parts;
    const enrolment = this.#begin(request, keys);
    const before = this.#giveWay(request);
    const { id } = enrolment;
    const ticket = this.#ticketOf(enrolment);
    // Written first, because it is the step that may refuse what it was given.
    const userData = writer?.write(request, { ticket, keys }) ?? '';
    await book.putWith([enrolment], steps);
    if (before !== undefined) await moves.fail(before, 'a newer ticket was made for this id');
    if (keys !== undefined) {
      await admission.admit({ id, publicKey: keys.publicPem, protocol: enrolment.protocol });
    }
    tell({ what: 'created', enrolment });
    return { enrolment, ticket, userData };
  }

  /**
   * An open enrolment again, with the same ticket and user-data: a ticket is kept nowhere, and made
   * anew from its enrolment.
   * @throws BridgeError ERR_ENROLL_OFF
   */
  async reissue(enrolment: Enrolment, request: EnrolRequest): Promise<NewEnrolment> {
    const writer = await this.#writerFor(request);
    const ticket = this.#ticketOf(enrolment);
    const asked = { ...request, id: enrolment.id };
    return { enrolment, ticket, userData: writer?.write(asked, { ticket, keys: undefined }) ?? '' };
  }

  #ticketOf({ number, id, project, instance, address, ticketExpiresAt = 0 }: Enrolment): string {
    const claims = {
      number,
      minion: id,
      project,
      ...(instance === undefined ? {} : { instance }),
      ...(address === undefined ? {} : { address }),
      expiresAt: ticketExpiresAt,
    };
    return signTicket(claims, this.#parts.privateKey);
  }

  /** Refuses what is not switched on, before anything is made. */
  async #writerFor({ by = 'claim', format }: EnrolRequest): Promise<UserDataWriter | undefined> {
    const { writer, defaults, isServed } = this.#parts;
    if (!defaults.isOn) {
      throw new BridgeError('ERR_ENROLL_OFF', 'expected a section saltbridge: bridge: enroll');
    }
    if (by === 'grain' && !defaults.takesGrains) {
      throw new BridgeError('ERR_ENROLL_OFF', 'tickets as grains are off (enroll: grain)');
    }
    if (by === 'claim' && !isServed()) {
      throw new BridgeError(
        'ERR_ENROLL_OFF',
        'no HTTP API serves the bridge, so no machine could claim: start the master with serve() ' +
          'and a port of its api, or give bridge.http to createSaltApi',
      );
    }
    if (format !== 'none') return writer();
    if (by === 'keys') throw argumentError('format', 'one that can hold the key pair');
    return undefined;
  }

  #begin(request: EnrolRequest, keys: KeyPairText | undefined): Enrolment {
    const { defaults, now } = this.#parts;
    const { id, project, instance, address, by = 'claim', expires } = request;
    const createdAt = now();
    const { lifetimeSeconds } = request;
    const lifetimeMs =
      lifetimeSeconds === undefined ? defaults.ticketLifetimeMs : lifetimeSeconds * 1000;
    const ticketExpiresAt = createdAt + lifetimeMs;
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
    if (live === undefined && book.open >= defaults.maxOpen) {
      throw new BridgeError('ERR_ENROLL_FULL', `${book.open} enrolments are open`);
    }
    return live;
  }
}

function checkEnrolRequest(request: EnrolRequest, now: number): void {
  const { project, instance, address, lifetimeSeconds, expires, agent = false, format } = request;
  if (agent && format === 'cloudbase-init') {
    throw argumentError('format', 'cloud-init or shell for a machine that has an agent');
  }
  for (const [name, text] of Object.entries({ project, instance: instance ?? '-' })) {
    if (text.length === 0 || text.length > 255) throw argumentError(name, '1 to 255 characters');
  }
  if (address !== undefined && isIP(address) === 0 && !isRelayedAddress(address)) {
    throw argumentError('address', 'an IP address, or one behind a relay (NETWORK/ADDRESS)');
  }
  const isLifetime =
    lifetimeSeconds === undefined ||
    (lifetimeSeconds > 0 && lifetimeSeconds * 1000 <= maxTicketLifetimeMs);
  if (!isLifetime) throw argumentError('lifetimeSeconds', 'more than 0, at most a day');
  if (expires !== undefined && expires <= now) throw argumentError('expires', 'a time to come');
}

function argumentError(name: string, expected: string): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `${name}: expected ${expected}`);
}

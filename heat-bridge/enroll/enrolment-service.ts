/** The enrolment service: creates, imports and retires enrolments, and prepares key pairs. */

import { type KeyObject, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { StateOperation } from '#master';
import { isRelayedAddress, type KeyPairText } from '#minion-protocol';
import { linkSignals } from '#runtime';
import { BridgeError } from '../errors.ts';
import { isLive } from '../live-enrolment.ts';
import {
  type Enrolment,
  type EnrolRequest,
  fingerprintOf,
  type KnownMinion,
  type NewEnrolment,
} from './enrolment.ts';
import type { EnrollOptions } from './enrolment-options.ts';
import { type ImportParts, importMinions } from './import-minions.ts';
import type { KeyPairs } from './key-pairs.ts';
import { signTicket } from './tickets.ts';
import type { UserDataWriter } from './user-data.ts';

/** Ends what depends on an id elsewhere. */
export type RetireListener = (id: string) => Promise<void> | void;

export interface EnrolmentServiceParts extends ImportParts {
  readonly keyPairs: KeyPairs;
  /** Signs tickets. */
  readonly privateKey: KeyObject;
  /** @throws BridgeError ERR_ENROLL_OFF where the options say too little to write user-data */
  readonly writer: () => Promise<UserDataWriter>;
  /** Whether an HTTP server has the bridge's routes, which machines claim at. */
  readonly isServed: () => boolean;
  readonly options: EnrollOptions;
  /** Called with each id that is to be retired. */
  readonly listeners: Set<RetireListener>;
  /** Ends those who follow. */
  readonly closing: AbortSignal;
}

/** A machine by its minion's id, by its name in the cloud, or by the number of its enrolment. */
type Machine =
  | { readonly id: string }
  | { readonly instance: string }
  | { readonly number: string };

const maxTicketLifetimeMs = 86_400_000;

/** Machines on their way to being minions, and on their way out. */
export class EnrolmentService {
  readonly #parts: EnrolmentServiceParts;

  constructor(parts: EnrolmentServiceParts) {
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

  /**
   * Accepts the keys of minions that are known; all of them or none.
   * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the place in the list
   */
  import(minions: readonly KnownMinion[]): Promise<readonly Enrolment[]> {
    return importMinions(minions, this.#parts);
  }

  /** Resolves when as many key pairs lie ready as `prepared_keys` says. */
  prepared(): Promise<void> {
    return this.#parts.keyPairs.prepare();
  }

  /** Those that are under way or have a key, and what was over within a week. */
  async list(): Promise<readonly Enrolment[]> {
    return [...this.#parts.book.all()];
  }

  /** @throws BridgeError ERR_ENROLL_UNKNOWN */
  async show(number: string): Promise<Enrolment> {
    const enrolment = this.#parts.book.get(number);
    if (enrolment !== undefined) return enrolment;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'there is no enrolment of this number');
  }

  /**
   * The enrolment as it is, and each time that it changes, until its minion has signed in or it has
   * failed.
   * @throws BridgeError ERR_ENROLL_UNKNOWN, from the iteration
   */
  async *follow(number: string, signal?: AbortSignal): AsyncGenerator<Enrolment, void, void> {
    await this.show(number);
    const end = linkSignals(this.#parts.closing, signal);
    try {
      for await (const enrolment of this.#parts.book.follow(number, end.signal)) {
        yield enrolment;
        if (enrolment.state !== 'open' && enrolment.state !== 'accepted') return;
      }
    } finally {
      end.unlink();
    }
  }

  /**
   * Resolves when the minion has signed in: it was heard with a proof of its key.
   * @throws BridgeError ERR_ENROLL_FAILED with the reason, ERR_ENROLL_UNKNOWN
   */
  async signedIn(number: string, signal?: AbortSignal): Promise<Enrolment> {
    let last = await this.show(number);
    for await (const enrolment of this.follow(number, signal)) last = enrolment;
    if (last.state === 'signed-in') return last;
    const { reason = `the enrolment is ${last.state}` } = last;
    throw new BridgeError('ERR_ENROLL_FAILED', reason);
  }

  /**
   * Ends all that a machine has at this master, also one that was enrolled otherwise: its key,
   * session and connections, grains, pillar, mine and pushed files, the jobs that were published to
   * it, its ticket. A later owner of the id has none of it. Nothing is there any more when it resolves.
   * By the number of an enrolment that is over, nothing is done: another machine may have the id.
   * @throws BridgeError ERR_ENROLL_UNKNOWN for an instance that no enrolment names, and for a number
   * that none has
   */
  async retire(machine: Machine): Promise<void> {
    const { moves } = this.#parts;
    if ('id' in machine) return moves.retireInTurn(machine.id);
    for (const enrolment of await this.#enrolmentsOf(machine)) {
      await moves.exclusive(enrolment, async (current) => {
        if (current !== undefined && isLive(current)) await moves.retire(current.id);
      });
    }
  }

  /**
   * Calls the listener with the id of each that is to be retired, until the function given is
   * called. What it does is waited for, so it must not wait for another call about the same id;
   * where it fails, nothing is retired.
   */
  onRetire(listener: RetireListener): () => void {
    const { listeners } = this.#parts;
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  async #enrolmentsOf(
    machine: Exclude<Machine, { readonly id: string }>,
  ): Promise<readonly Enrolment[]> {
    if ('number' in machine) return [await this.show(machine.number)];
    const own = [...this.#parts.book.liveOfInstance(machine.instance)];
    if (own.length > 0) return own;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'no enrolment names this instance');
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
    const { writer, options, isServed } = this.#parts;
    if (!options.isOn) {
      throw new BridgeError('ERR_ENROLL_OFF', 'expected a section saltbridge: bridge: enroll');
    }
    if (by === 'grain' && !options.takesGrains) {
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
    const { options, now } = this.#parts;
    const { id, project, instance, address, by = 'claim', expires } = request;
    const createdAt = now();
    const { lifetimeSeconds } = request;
    const lifetimeMs =
      lifetimeSeconds === undefined ? options.ticketLifetimeMs : lifetimeSeconds * 1000;
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
      protocol: request.protocol ?? options.protocol,
      createdAt,
      ticketExpiresAt,
      deadline: ticketExpiresAt,
      ...(expires === undefined ? {} : { keyExpiresAt: expires }),
    };
  }

  /** The unused ticket that the new one takes the place of. Nothing else gives way. */
  #giveWay({ id, project }: EnrolRequest): Enrolment | undefined {
    const { admission, book, options } = this.#parts;
    const held = admission.keyOf(id);
    if (held !== undefined && held.state !== 'pending') {
      throw new BridgeError('ERR_ENROLL_TAKEN', `the id has a key, which is ${held.state}`);
    }
    const live = book.liveOf(id);
    const isTaken = live !== undefined && (live.state !== 'open' || live.project !== project);
    if (isTaken) throw new BridgeError('ERR_ENROLL_TAKEN', 'the id is being enrolled already');
    if (live === undefined && book.open >= options.maxOpen) {
      throw new BridgeError('ERR_ENROLL_FULL', `${book.open} enrolments are open`);
    }
    return live;
  }
}

/** Machines on their way to being minions, and on their way out. */
export type EnrollApi = Omit<EnrolmentService, 'reissue'>;

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

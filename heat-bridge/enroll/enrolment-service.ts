/** The enrolment service: creates, imports and retires enrolments, and prepares key pairs. */

import { type KeyObject, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { KeyLifecycle, StateOperation } from '#master';
import {
  generateKeyPair,
  isRelayedAddress,
  type KeyPairText,
  parsePublicKey,
} from '#minion-protocol';
import { type LinkedSignal, linkSignals } from '#runtime';
import { BridgeError } from '../errors.ts';
import { isLive } from '../live-enrolment.ts';
import type { SharedNames } from '../shared-names.ts';
import {
  type Enrolment,
  type EnrolRequest,
  fingerprintOf,
  type NewEnrolment,
  tryParseFingerprint,
} from './enrolment.ts';
import type { EnrolmentRepository } from './enrolment-repository.ts';
import type { EnrolmentEvent, EnrolmentTransitions } from './enrolment-transitions.ts';
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
    // protection: enrol-any-number
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

// Import of minions whose keys, or fingerprints, are known.

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

interface ImportDeps {
  readonly book: EnrolmentRepository;
  readonly moves: EnrolmentTransitions;
  readonly admission: KeyLifecycle;
  readonly names: SharedNames;
  readonly defaultProtocol: 0 | 1 | 2 | 3;
  readonly tell: (news: EnrolmentEvent) => void;
  readonly now: () => number;
}

/**
 * Accepts the keys of minions; all of them or none. Those that have this key already stay as they
 * are.
 * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the place in the list
 */
async function importMinions(
  minions: readonly KnownMinion[],
  parts: ImportDeps,
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

function toEnrolment(minion: KnownMinion, index: number, parts: ImportDeps): Enrolment {
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
    protocol: minion.protocol ?? parts.defaultProtocol,
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

export interface EnrollApiDeps extends ImportDeps {
  readonly desk: EnrolmentService;
  readonly book: EnrolmentRepository;
  readonly moves: EnrolmentTransitions;
  readonly keyPairs: KeyPairs;
  readonly listeners: Set<RetireListener>;
  /** Ends those who follow. */
  readonly closing: AbortSignal;
}

export function createEnrollApi(parts: EnrollApiDeps): EnrollApi {
  const { desk, book, moves, listeners } = parts;
  const find = (number: string): Enrolment => {
    const enrolment = book.get(number);
    if (enrolment !== undefined) return enrolment;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'there is no enrolment of this number');
  };
  const ofMachine = (machine: Exclude<Machine, { readonly id: string }>): readonly Enrolment[] => {
    if ('number' in machine) return [find(machine.number)];
    const own = [...book.liveOfInstance(machine.instance)];
    if (own.length > 0) return own;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'no enrolment names this instance');
  };
  const follow = (number: string, signal?: AbortSignal): AsyncIterable<Enrolment> =>
    followUntilDone(find(number), book, linkSignals(parts.closing, signal));
  return {
    create: (request) => desk.create(request),
    import: (minions) => importMinions(minions, parts),
    prepared: () => parts.keyPairs.prepare(),
    list: async () => [...book.all()],
    show: async (number) => find(number),
    follow,
    signedIn: async (number, signal) => {
      let last = find(number);
      for await (const enrolment of follow(number, signal)) last = enrolment;
      if (last.state === 'signed-in') return last;
      const { reason = `the enrolment is ${last.state}` } = last;
      throw new BridgeError('ERR_ENROLL_FAILED', reason);
    },
    retire: async (machine) => {
      if ('id' in machine) {
        await moves.retireInTurn(machine.id);
        return;
      }
      for (const enrolment of ofMachine(machine)) {
        await moves.exclusive(enrolment, async (current) => {
          if (current !== undefined && isLive(current)) await moves.retire(current.id);
        });
      }
    },
    onRetire: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

async function* followUntilDone(
  first: Enrolment,
  book: EnrolmentRepository,
  end: LinkedSignal,
): AsyncGenerator<Enrolment, void, void> {
  try {
    for await (const enrolment of book.follow(first.number, end.signal)) {
      yield enrolment;
      if (enrolment.state !== 'open' && enrolment.state !== 'accepted') return;
    }
  } finally {
    end.unlink();
  }
}

// The interface `enroll`.

/** A machine by its minion's id, by what the cloud calls it, or by the number of its enrolment. */
type Machine =
  | { readonly id: string }
  | { readonly instance: string }
  | { readonly number: string };

/** Ends what hangs on an id elsewhere. */
export type RetireListener = (id: string) => Promise<void> | void;

/** Machines on their way to being minions, and on their way out. */
export interface EnrollApi {
  /**
   * Begins an enrolment: makes a ticket and user-data; with `by: 'keys'` also a key pair, whose
   * public half is accepted and whose private half is in the user-data and nowhere else. A ticket
   * that the same project was given for the id, and that nobody used, is no longer good.
   * @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, ERR_ENROLL_FULL
   */
  create(request: EnrolRequest): Promise<NewEnrolment>;
  /**
   * Accepts the keys of minions that are known; all of them or none.
   * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the place in the list
   */
  import(minions: readonly KnownMinion[]): Promise<readonly Enrolment[]>;
  /** Resolves when as many key pairs lie ready as `prepared_keys` says. */
  prepared(): Promise<void>;
  /** Those that are under way or have a key, and what was over within a week. */
  list(): Promise<readonly Enrolment[]>;
  /** @throws BridgeError ERR_ENROLL_UNKNOWN */
  show(number: string): Promise<Enrolment>;
  /**
   * The enrolment as it is, and each time that it changes, until its minion has signed in or it has
   * failed.
   * @throws BridgeError ERR_ENROLL_UNKNOWN, from the iteration
   */
  follow(number: string, signal?: AbortSignal): AsyncIterable<Enrolment>;
  /**
   * Resolves when the minion has signed in: it was heard with a proof of its key.
   * @throws BridgeError ERR_ENROLL_FAILED with the reason, ERR_ENROLL_UNKNOWN
   */
  signedIn(number: string, signal?: AbortSignal): Promise<Enrolment>;
  /**
   * Ends all that a machine has at this master, also one that was enrolled otherwise: its key,
   * session and connections, grains, pillar, mine and pushed files, the jobs that were published to
   * it, its ticket. A later owner of the id has none of it. Nothing is there any more when it resolves.
   * By the number of an enrolment that is over, nothing is done: another machine may have the id.
   * @throws BridgeError ERR_ENROLL_UNKNOWN for an instance that no enrolment names, and for a number
   * that none has
   */
  retire(machine: Machine): Promise<void>;
  /**
   * Calls the listener with the id of each that is to be retired, until the function given is
   * called. What it does is waited for, so it must not wait for another call about the same id;
   * where it fails, nothing is retired.
   */
  onRetire(listener: RetireListener): () => void;
}

// Key pairs, some prepared in advance.

/** Key pairs, each given out once and then forgotten. */
export class KeyPairs {
  readonly #bits: number;
  readonly #prepared: number;
  readonly #make: (bits: number) => Promise<KeyPairText>;
  readonly #ready: KeyPairText[] = [];
  #making: Promise<void> | undefined;
  #isClosed = false;

  /** @param prepared how many lie ready; 0: each is made when it is asked for */
  constructor(
    { bits, prepared }: { readonly bits: number; readonly prepared: number },
    make: (bits: number) => Promise<KeyPairText> = generateKeyPair,
  ) {
    this.#bits = bits;
    this.#prepared = prepared;
    this.#make = make;
  }

  async take(): Promise<KeyPairText> {
    const ready = this.#ready.pop();
    this.prepare().catch(() => {
      // The next one who finds none lying ready is told.
    });
    return ready ?? this.#make(this.#bits);
  }

  /** Makes what is missing, one after the other; resolves when as many lie ready as shall. */
  prepare(): Promise<void> {
    this.#making ??= this.#fill().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Waits for a pair that is being made, and forgets those that lie ready. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#making?.catch(() => {
      // Whoever asks for a pair has it made, and is told.
    });
    this.#ready.length = 0;
  }

  async #fill(): Promise<void> {
    while (!this.#isClosed && this.#ready.length < this.#prepared) {
      this.#ready.push(await this.#make(this.#bits));
    }
  }
}

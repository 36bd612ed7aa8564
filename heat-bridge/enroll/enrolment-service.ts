/** Service that creates, imports and retires enrolments, and generates key pairs in advance. */

import { type KeyObject, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { StateOperation } from '#master';
import { isRelayedAddress, type KeyPairText } from '#minion-protocol';
import { LimitExceeded, linkSignals, TokenBuckets } from '#runtime';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import { isLive } from '../live-enrolment.ts';
import type { RegistrationChecks } from '../registrations.ts';
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
import { requireWritable, type UserDataWriter } from './user-data.ts';

/**
 * Listener that is called before a minion id is retired. It removes the data that a part of the
 * bridge stores about this id.
 */
export type RetireListener = (id: string) => Promise<void> | void;

export interface EnrolmentServiceParts extends ImportParts {
  readonly keyPairs: KeyPairs;
  /** Key that signs tickets. */
  readonly privateKey: KeyObject;
  /**
   * Returns the writer of user-data.
   * @throws BridgeError ERR_ENROLL_OFF if an option that the writer needs is missing
   */
  readonly writer: () => Promise<UserDataWriter>;
  /** Whether an HTTP server serves the routes through which machines claim their tickets. */
  readonly isServed: () => boolean;
  readonly options: EnrollOptions;
  /** Listeners that receive each minion id before it is retired. */
  readonly listeners: Set<RetireListener>;
  /** Aborted when the bridge closes. All iterations of {@link EnrolmentService.follow} then end. */
  readonly closing: AbortSignal;
}

/**
 * Reference to a machine: the id of its minion, its name in the cloud, or the number of its
 * enrolment.
 */
type Machine =
  | { readonly id: string }
  | { readonly instance: string }
  | { readonly number: string };

const maxTicketLifetimeMs = 86_400_000;
/**
 * Denominator of the reserved fraction: one tenth of `max_open` is available only to projects that
 * have no open enrolment.
 */
const reservedPart = 10;

/** Creates, follows and retires the enrolments of machines. */
export class EnrolmentService {
  readonly #parts: EnrolmentServiceParts;
  readonly #rates = new TokenBuckets(bridgeLimits.enrolmentRate);

  constructor(parts: EnrolmentServiceParts) {
    this.#parts = parts;
  }

  /**
   * Creates an enrolment with a ticket and user-data. With `by: 'keys'`, also generates a key pair:
   * the master accepts the public key, and only the user-data contains the private key. If the
   * project has an earlier unused ticket for the id, that ticket becomes invalid.
   * @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, ERR_ENROLL_FULL, and the
   * error of the check
   */
  async create(
    request: EnrolRequest,
    { requirePermission }: RegistrationChecks = {},
  ): Promise<NewEnrolment> {
    const writer = await this.#writerFor(request);
    const { admission, keyPairs } = this.#parts;
    if (!admission.takesId(request.id))
      throw argumentError('id', 'a minion id that the option `minion_ids` permits');
    checkEnrolRequest(request, this.#parts.now());
    if (!this.#rates.tryTake(request.project)) {
      throw new BridgeError(
        'ERR_ENROLL_FULL',
        'too many new enrolments of this project within a short time; retry later',
      );
    }
    if (writer !== undefined) requireWritable(request);
    const keys = request.by === 'keys' ? await keyPairs.take(request.project) : undefined;
    return admission.exclusive(request.id, () =>
      this.#parts.names.decide([request.id], (steps) => {
        // The caller may have lost its right while the key pair was generated.
        requirePermission?.();
        return this.#create(request, { writer, keys, steps });
      }),
    );
  }

  /**
   * Accepts the keys of minions that are known in advance. If one entry is invalid, no key is
   * accepted.
   * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the position in the list
   */
  import(minions: readonly KnownMinion[]): Promise<readonly Enrolment[]> {
    return importMinions(minions, this.#parts);
  }

  /** Resolves when as many key pairs have been generated as the option `prepared_keys` requires. */
  prepared(): Promise<void> {
    return this.#parts.keyPairs.prepare();
  }

  /**
   * Returns open enrolments, enrolments with an accepted key, and enrolments that ended within a
   * week.
   */
  async list(): Promise<readonly Enrolment[]> {
    return [...this.#parts.repository.all()];
  }

  /**
   * Returns the enrolment with this number.
   * @throws BridgeError ERR_ENROLL_UNKNOWN
   */
  async show(number: string): Promise<Enrolment> {
    const enrolment = this.#parts.repository.get(number);
    if (enrolment !== undefined) return enrolment;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'unknown enrolment number');
  }

  /**
   * Yields the current enrolment, and the enrolment after each change. Ends when the minion has
   * signed in, when the enrolment has failed or was retired, or when `signal` is aborted.
   * @throws BridgeError ERR_ENROLL_UNKNOWN, from the iteration
   */
  async *follow(number: string, signal?: AbortSignal): AsyncGenerator<Enrolment, void, void> {
    await this.show(number);
    const end = linkSignals(this.#parts.closing, signal);
    try {
      for await (const enrolment of this.#parts.repository.follow(number, end.signal)) {
        yield enrolment;
        if (enrolment.state !== 'open' && enrolment.state !== 'accepted') return;
      }
    } finally {
      end.unlink();
    }
  }

  /**
   * Resolves when the minion has signed in: it has sent a message that proves possession of its
   * key.
   * @throws BridgeError ERR_ENROLL_FAILED with the reason, ERR_ENROLL_UNKNOWN
   */
  async signedIn(number: string, signal?: AbortSignal): Promise<Enrolment> {
    let last = await this.show(number);
    for await (const enrolment of this.follow(number, signal)) last = enrolment;
    if (last.state === 'signed-in') return last;
    const {
      reason = `the enrolment ended without a sign-in of the minion: its state is ${last.state}`,
    } = last;
    throw new BridgeError('ERR_ENROLL_FAILED', reason);
  }

  /**
   * Removes all data that this master has about a machine, even if the bridge did not enrol it: its
   * key, sessions, connections, grains, pillar, mine, pushed files, jobs and ticket. A later
   * machine with the same id receives none of this data. Resolves when everything is removed. If
   * `machine` is the number of an ended enrolment, nothing is removed, because another machine may
   * use the id now.
   * @throws BridgeError ERR_ENROLL_UNKNOWN for an instance without an enrolment, or an unknown
   * number
   */
  async retire(machine: Machine): Promise<void> {
    const { transitions } = this.#parts;
    if ('id' in machine) return transitions.retireInTurn(machine.id);
    for (const enrolment of await this.#enrolmentsOf(machine)) {
      await transitions.exclusive(enrolment, async (current) => {
        if (current !== undefined && isLive(current)) await transitions.retire(current.id);
      });
    }
  }

  /**
   * Registers a listener that is called with each id before it is retired. The master waits for the
   * listener. To avoid a deadlock, the listener must not wait for another operation on the same id.
   * If the listener fails, nothing is retired.
   * @returns a function that removes the listener
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
    const own = [...this.#parts.repository.liveOfInstance(machine.instance)];
    if (own.length > 0) return own;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'no current enrolment belongs to this instance id');
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
    const { admission, repository, transitions, tell } = this.#parts;
    const enrolment = this.#begin(request, keys);
    const before = this.#giveWay(request);
    const { id } = enrolment;
    const ticket = this.#ticketOf(enrolment);
    // Write the user-data first, because this step can fail.
    const userData = writer?.write(request, { ticket, keys }) ?? '';
    await repository.putWith([enrolment], steps);
    if (before !== undefined)
      await transitions.fail(before, 'replaced by a newer ticket for this id');
    if (keys !== undefined) {
      await admission.admit({ id, publicKey: keys.publicPem, protocol: enrolment.protocol });
    }
    tell({ what: 'created', enrolment });
    return { enrolment, ticket, userData };
  }

  /**
   * Creates new user-data for an open enrolment. Its ticket stays the same: it is not stored, but
   * computed from the enrolment.
   * @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS
   */
  async reissue(enrolment: Enrolment, request: EnrolRequest): Promise<NewEnrolment> {
    const writer = await this.#writerFor(request);
    if (writer !== undefined) requireWritable(request);
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

  /**
   * Returns the writer of user-data, or `undefined` if none is requested. Rejects requests that the
   * options do not permit, before anything is created.
   * @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS
   */
  async #writerFor({ by = 'claim', format }: EnrolRequest): Promise<UserDataWriter | undefined> {
    const { writer, options, isServed } = this.#parts;
    if (!options.isOn) {
      throw new BridgeError(
        'ERR_ENROLL_OFF',
        'enrolment is not enabled; add the section `saltbridge: bridge: enroll` to the configuration',
      );
    }
    if (by === 'grain' && !options.takesGrains) {
      throw new BridgeError(
        'ERR_ENROLL_OFF',
        'tickets in grains are not enabled; set `enroll: grain: true`, or use another method',
      );
    }
    if (by === 'claim' && !isServed()) {
      throw new BridgeError(
        'ERR_ENROLL_OFF',
        'machines cannot claim, because no HTTP API serves the bridge: start the master with serve() ' +
          'and an api port, or pass bridge.http to createSaltApi',
      );
    }
    if (format !== 'none') return writer();
    if (by === 'keys') throw argumentError('format', 'a format that can contain the key pair');
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

  /**
   * Returns the unused enrolment of this id, which the new enrolment will replace. Returns
   * `undefined` if the id has no unused enrolment.
   * @throws BridgeError ERR_ENROLL_TAKEN, ERR_ENROLL_FULL
   */
  #giveWay({ id, project }: EnrolRequest): Enrolment | undefined {
    const { admission, repository } = this.#parts;
    const held = admission.keyOf(id);
    if (held !== undefined && held.state !== 'pending') {
      throw new BridgeError(
        'ERR_ENROLL_TAKEN',
        `the minion id already has a key, which is ${held.state}; delete the key or use another id`,
      );
    }
    const live = repository.liveOf(id);
    const isTaken = live !== undefined && (live.state !== 'open' || live.project !== project);
    if (isTaken)
      throw new BridgeError(
        'ERR_ENROLL_TAKEN',
        'the minion id already has an enrolment; retire it or use another id',
      );
    if (live === undefined) this.#requireOpenPlace(project);
    return live;
  }

  /**
   * Checks that a project may open one more enrolment. A tenth of `max_open` is reserved for
   * projects without an open enrolment.
   * @throws BridgeError ERR_ENROLL_FULL
   */
  #requireOpenPlace(project: string): void {
    const { repository, options } = this.#parts;
    const own = repository.openOf(project);
    const reserved = own === 0 ? 0 : Math.floor(options.maxOpen / reservedPart);
    if (own < options.maxOpenPerProject && repository.open < options.maxOpen - reserved) return;
    const text = `too many open enrolments: ${own} of this project (limit \`max_open_per_project\`), ${repository.open} in total (limit \`max_open\`); wait, or raise the limit under \`enroll\``;
    const cause = new LimitExceeded(bridgeLimits.openEnrolments, options.maxOpen);
    throw new BridgeError('ERR_ENROLL_FULL', text, { cause });
  }
}

/** API of enrolments. */
export type EnrollApi = Omit<EnrolmentService, 'reissue'>;

const nameForm = 'text of 1 to 255 characters';

function checkEnrolRequest(request: EnrolRequest, now: number): void {
  const { project, instance, address, lifetimeSeconds, expires, agent = false, format } = request;
  if (agent && format === 'cloudbase-init') {
    throw argumentError(
      'format',
      'cloud-init or shell, because cloudbase-init cannot use a metadata agent',
    );
  }
  for (const [name, text] of Object.entries({ project, instance: instance ?? '-' })) {
    if (text.length === 0 || text.length > 255) throw argumentError(name, nameForm);
  }
  if (address !== undefined && isIP(address) === 0 && !isRelayedAddress(address)) {
    throw argumentError(
      'address',
      'an IP address, or NETWORK/ADDRESS for a machine behind a relay',
    );
  }
  const isLifetime =
    lifetimeSeconds === undefined ||
    (lifetimeSeconds > 0 && lifetimeSeconds * 1000 <= maxTicketLifetimeMs);
  if (!isLifetime)
    throw argumentError('lifetimeSeconds', 'more than 0, and at most 86400 (one day)');
  if (expires !== undefined && expires <= now)
    throw argumentError('expires', 'a time in the future');
}

function argumentError(name: string, expected: string): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `${name}: must be ${expected}`);
}

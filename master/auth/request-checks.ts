import { hash, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import {
  type EncryptionAlgorithm,
  type FactMap,
  type ProtocolVersion,
  type SigningAlgorithm,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import { defineRow, type Entry, type Key, type RowOf, type Store, writeInParts } from '#store';
import { MasterError } from '../api/index.ts';
import type { Cluster } from '../context/index.ts';
import type { RequestCounters } from '../metrics/index.ts';

/** An encrypted request after every check of the request channel: handlers never see ciphertext. */
export interface VerifiedRequest {
  /**
   * Who sent it. In protocol 3 the key that opened it says so; in 0 to 2 the token does, and
   * where those minions send none the id is only claimed by a holder of the shared key.
   * `undefined`: protocols 0 to 2, and the load has no id.
   */
  readonly minionId: string | undefined;
  /** Whether the minion's own key proves `minionId`. */
  readonly isProven: boolean;
  readonly version: ProtocolVersion;
  readonly nonce: string | undefined;
  /** Seconds since 1970 by the minion's clock; protocol 3 only. */
  readonly ts: number | undefined;
  /** Address of whoever sent it. */
  readonly address: string;
  /** Size of the load as it was sent, encrypted. */
  readonly bytes: number;
  /** The HMAC of what was sent: only the very same bytes have it again. A view into them. */
  readonly mac: Buffer;
  /** The load without `tok` and `nonce`. */
  readonly load: WireMap;
  /** The load as it came, with everything in it; a view into the plaintext. */
  readonly packed: Uint8Array;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
}

/** What a handler answers; the request channel encrypts it as the request's version asks [WIRE 8]. */
export type Reply =
  | {
      readonly kind: 'send';
      readonly value: WireValue;
      /** What the asker has to wait for; default: nothing. */
      readonly after?: Promise<true>;
    }
  /** The same of a value that was packed already, in pieces. */
  | { readonly kind: 'packed'; readonly pieces: readonly Uint8Array[] }
  /** Under a key of its own, signed, for the asker alone. */
  | { readonly kind: 'private'; readonly pillar: FactMap };

/**
 * Thrown where there must be no answer, because any would be an acknowledgement, or because so much
 * waits for the minion's rate that answering would be work for whoever floods. The connection is
 * closed a little later, and the minion sends again by itself.
 */
export class DropConnectionError extends Error {
  /** What is counted. */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`not answered: ${reason}`, options);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/** Answers one `cmd`: at once, where nothing is waited for. @throws DropConnectionError */
export type Handler = (request: VerifiedRequest) => Reply | Promise<Reply>;

/** A reply of the usual kind. */
export function send(value: WireValue): Reply {
  return { kind: 'send', value };
}

/** The same when it is the asker's turn. */
export function sendLater(value: WireValue, isNext: true | Promise<true>): Reply {
  return isNext === true ? send(value) : { kind: 'send', value, after: isNext };
}

const maxTokens = 50_000;
/** For one of them as bytes: a token is as long as its key, which has at most 8,192 bits. */
const tokenRoom = Buffer.allocUnsafeSlow(1024);

/**
 * Whether a token is the minion's own [WIRE 3.3]. It never changes for a key, so one that was
 * right is remembered, and the RSA operation is done once a key.
 */
export class TokenCheck {
  readonly #verify: (pem: string, token: Uint8Array) => Promise<boolean>;
  /** Tokens as text of a character a byte: as bytes they would take three times the room. */
  readonly #verified = createBoundedMap<string, string>(maxTokens);
  /** By key and token: many requests of a minion may arrive before its first was checked. */
  readonly #underWay = new Map<string, Promise<boolean>>();

  /** @param verify the RSA check, off the main thread */
  constructor(verify: (pem: string, token: Uint8Array) => Promise<boolean>) {
    this.#verify = verify;
  }

  /** Whether it is the token that was right before; costs no RSA. */
  isRemembered(pem: string, token: Uint8Array): boolean {
    const known = this.#verified.get(pem);
    if (known?.length !== token.length) return false;
    tokenRoom.write(known, 'latin1');
    return timingSafeEqual(tokenRoom.subarray(0, known.length), token);
  }

  /** @param pem text of the minion's accepted key */
  async isGenuine(pem: string, token: Uint8Array): Promise<boolean> {
    if (this.isRemembered(pem, token)) return true;
    if (!(await this.#verifyOnce(pem, token))) return false;
    this.#verified.set(pem, Buffer.from(token).toString('latin1'));
    return true;
  }

  #verifyOnce(pem: string, token: Uint8Array): Promise<boolean> {
    const mark = `${pem} ${hash('sha256', token, 'base64')}`;
    const same = this.#underWay.get(mark);
    if (same !== undefined) return same;
    const verifying = this.#verify(pem, token).finally(() => this.#underWay.delete(mark));
    this.#underWay.set(mark, verifying);
    return verifying;
  }
}

// Signatures of returns, which minions make with `minion_sign_messages` [WIRE 9.4, 23.2].

export interface SignatureCheckOptions {
  /** `require_minion_sign_messages`: what has no signature is refused. */
  readonly isRequired: boolean;
  /** `drop_messages_signature_fail`: what has a wrong one is refused. */
  readonly mustVerify: boolean;
  /** PEM text of an id's accepted key. */
  readonly acceptedKey: (id: string) => string | undefined;
  /** The RSA check, off the main thread. @throws MasterError when it cannot be made now */
  readonly verify: (pem: string, packed: Uint8Array, signature: Uint8Array) => Promise<boolean>;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/** Decides by their signatures whether returns are taken, as Salt's options say. */
export class SignatureCheck {
  readonly #options: SignatureCheckOptions;

  constructor(options: SignatureCheckOptions) {
    this.#options = options;
  }

  /** Whether a return may be taken; nothing is waited for where it has no signature. @throws DropConnectionError */
  permits(request: VerifiedRequest): boolean | Promise<boolean> {
    const { isRequired, counters, log } = this.#options;
    const { minionId, load } = request;
    const signature = wireBytes(load.sig);
    if (signature !== undefined) return this.#permitsSigned(request, signature);
    // protection: unsigned-returns
    if (!isRequired) return true;
    counters.count('return-unsigned');
    log.debug({ minion: minionId }, 'return without a signature refused');
    return false;
  }

  async #permitsSigned(
    { minionId = '', packed }: VerifiedRequest,
    signature: Uint8Array,
  ): Promise<boolean> {
    const { acceptedKey, mustVerify, counters, log } = this.#options;
    const pem = acceptedKey(minionId);
    if (pem !== undefined && (await this.#verify(pem, packed, signature))) return true;
    counters.count('return-signature');
    log.debug({ minion: minionId, refused: mustVerify }, 'signature of a return does not verify');
    // protection: wrong-signatures
    return !mustVerify;
  }

  /** Without an answer the minion sends again. @throws DropConnectionError */
  async #verify(pem: string, packed: Uint8Array, signature: Uint8Array): Promise<boolean> {
    try {
      return await this.#options.verify(pem, packed, signature);
    } catch (cause) {
      if (cause instanceof MasterError)
        throw new DropConnectionError('return-not-verified', { cause });
      throw cause;
    }
  }
}

const pinsPrefix: Key = ['pins'];

/** Rows `pins/<id>`. */
const pinRow = defineRow({
  name: 'pin',
  schema: Type.Object({
    version: Type.Number(),
    /** When the id first proved the version, milliseconds since 1970; `null`: not known. */
    provenAt: Type.Union([Type.Number(), Type.Null()]),
  }),
  unversioned: ([version]) => ({ version }),
  // Version 2 added `provenAt`.
  upgrades: [(old) => ({ ...old, provenAt: null })],
});

type Pin = RowOf<typeof pinRow>;

/** Where the pin of an id is. */
export function pinKey(id: string): Key {
  return [...pinsPrefix, id];
}

/** The version that each id has proved, by id. */
export async function readPins(store: Pick<Store, 'list'>): Promise<Map<string, number>> {
  const pins = await readPinRows(store);
  return new Map(Array.from(pins, ([id, { version }]) => [id, version]));
}

async function readPinRows(store: Pick<Store, 'list'>): Promise<Map<string, Pin>> {
  const pins = new Map<string, Pin>();
  for await (const entry of store.list(pinsPrefix)) {
    pins.set(entry.key.at(-1) ?? '', pinRow.decode(entry));
  }
  return pins;
}

/**
 * The highest protocol version that each id has proved with its key; a lower one is refused from
 * then on, because it would leave out checks that the minion is known to be able to pass
 * [THREATS C-53]. Deleting the key forgets the pin.
 */
export class VersionPins {
  readonly #store: Store;
  readonly #minimum: ProtocolVersion;
  readonly #pins: Map<string, Pin>;

  private constructor(store: Store, minimum: ProtocolVersion, pins: Map<string, Pin>) {
    this.#store = store;
    this.#minimum = minimum;
    this.#pins = pins;
  }

  /** @param minimumAuthVersion `minimum_auth_version`: `auto` pins, a number holds for all ids */
  static async open(
    store: Store,
    minimumAuthVersion: ProtocolVersion | 'auto',
    cluster?: Pick<Cluster, 'follow'>,
  ): Promise<VersionPins> {
    const pins = new Map<string, Pin>();
    cluster?.follow(pinsPrefix, (change) => {
      if (change.type === 'delete') pins.delete(change.key.at(-1) ?? '');
      else pins.set(change.entry.key.at(-1) ?? '', pinRow.decode(change.entry));
    });
    for (const [id, pin] of await readPinRows(store)) pins.set(id, pin);
    return new VersionPins(store, minimumAuthVersion === 'auto' ? 0 : minimumAuthVersion, pins);
  }

  /** Whether a request of this version may come from this id. */
  permits(id: string, version: ProtocolVersion): boolean {
    return version >= this.required(id);
  }

  /** The lowest version that a request of this id may have. */
  required(id: string): number {
    // protection: no-pins
    return Math.max(this.#minimum, this.of(id));
  }

  /** The version that the id has proved; 0 if it has proved none. */
  of(id: string): number {
    return this.#pins.get(id)?.version ?? 0;
  }

  /** When the id first proved that version, milliseconds since 1970; `null`: not known. */
  provenAt(id: string): number | null {
    return this.#pins.get(id)?.provenAt ?? null;
  }

  /**
   * Remembers that an encrypted request of this version was verified; durable when it resolves.
   * @param provenAt - milliseconds since 1970
   */
  async prove(id: string, version: ProtocolVersion, provenAt: number = Date.now()): Promise<void> {
    if (version <= this.of(id)) return;
    const pin = { version, provenAt };
    this.#pins.set(id, pin);
    await this.#store.write([{ op: 'put', key: pinKey(id), value: pinRow.encode(pin) }]);
  }

  async forget(ids: readonly string[]): Promise<void> {
    const pinned = ids.filter((id) => this.#pins.delete(id));
    const gone = pinned.map((id) => ({ op: 'delete', key: [...pinsPrefix, id] }) as const);
    await writeInParts(this.#store, gone);
  }
}

/** Milliseconds between two lines of the log about one id: anybody may name it. */
const quietMs = 60_000;

export interface VersionCheckOptions {
  readonly pins: VersionPins;
  readonly isAccepted: (id: string) => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** Whether requests have a version that may be; the log names the accepted ids whose have not. */
export class VersionCheck {
  readonly #options: VersionCheckOptions;
  /** Bounded by the accepted ids. */
  readonly #loggedAt = new Map<string, number>();

  constructor(options: VersionCheckOptions) {
    this.#options = options;
  }

  /** @param address - where the request came from */
  permits(id: string, version: ProtocolVersion, address: string): boolean {
    const { pins } = this.#options;
    if (pins.permits(id, version)) return true;
    this.#log(id, version, address);
    return false;
  }

  #log(id: string, version: ProtocolVersion, address: string): void {
    const { pins, isAccepted, now, log } = this.#options;
    const loggedAt = this.#loggedAt.get(id) ?? Number.NEGATIVE_INFINITY;
    if (!isAccepted(id)) this.#loggedAt.delete(id);
    else if (now() - loggedAt >= quietMs) {
      this.#loggedAt.set(id, now());
      const [required, provenAt] = [pins.required(id), pins.provenAt(id)];
      const fields = { minion: id, remote: address, version, required, provenAt };
      log.warn(fields, 'request refused: its protocol version is too low');
    }
  }
}

// Ids whose machine is gone.

const prefix: Key = ['former-owners'];

/** Rows `former-owners/<id>`: the job id that was next when the last owner of the id went. */
const formerOwnerRow = defineRow({
  name: 'former owner',
  schema: Type.Object({ jid: Type.String() }),
  unversioned: (bytes) => ({ jid: Buffer.from(bytes).toString() }),
});

/** Of an id's last owner. */
interface End {
  /** The one that was next when it went. */
  readonly jid: string;
  readonly expiresAt: number;
}

/** Milliseconds since 1970. */
interface Span {
  readonly now: number;
  readonly expiresAt: number;
}

/**
 * Ids that a machine had which is gone: what was published to it is none of the next owner's
 * business [THREATS B-14].
 */
export class RetiredIds {
  readonly #store: Store;
  readonly #ends: Map<string, End>;

  private constructor(store: Store, ends: Map<string, End>) {
    this.#store = store;
    this.#ends = ends;
  }

  static async open(store: Store, cluster?: Pick<Cluster, 'follow'>): Promise<RetiredIds> {
    const ends = new Map<string, End>();
    const note = (entry: Entry): void => {
      const { key, expiresAt = 0 } = entry;
      ends.set(key.at(-1) ?? '', { jid: formerOwnerRow.decode(entry).jid, expiresAt });
    };
    cluster?.follow(prefix, (change) => {
      if (change.type === 'put') note(change.entry);
    });
    for await (const entry of store.list(prefix)) note(entry);
    return new RetiredIds(store, ends);
  }

  /** Whether a job was published before the last owner of the id went. */
  has(id: string, jid: string): boolean {
    const end = this.#ends.get(id);
    return end !== undefined && jid.length === end.jid.length && jid <= end.jid;
  }

  /**
   * Ends the jobs of an id; durable when it resolves.
   * @param jid one that no job has
   * @param span until when the jobs before it are kept
   */
  async note(id: string, jid: string, { now, expiresAt }: Span): Promise<void> {
    for (const [known, end] of this.#ends) if (end.expiresAt <= now) this.#ends.delete(known);
    this.#ends.set(id, { jid, expiresAt });
    const value = formerOwnerRow.encode({ jid });
    await this.#store.write([{ op: 'put', key: [...prefix, id], value, expiresAt }]);
  }
}

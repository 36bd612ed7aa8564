/**
 * Opens the encrypted loads of requests. Before the master decrypts a load, it counts the bytes
 * towards a rate limit of the sender. Before it unpacks the load, it also counts the list elements
 * and map entries. Large loads are processed in slices, so that other requests are answered
 * meanwhile. Very large loads are decrypted, and large returns also unpacked and stored, only in a
 * limited number of slots. So only a few of them are in memory in decrypted form.
 */

import {
  type CheckedRequest,
  type CrypticleKey,
  decryptPacked,
  decryptPackedInSlices,
  type PayloadLimits,
  type Peer,
  ProtocolError,
  type RequestSlot,
  type SealedEnvelope,
  unpackAndCount,
  unpackWire,
  unpackWireInSlices,
  verifyCrypticle,
  verifyCrypticleInSlices,
  type WireValue,
} from '#minion-protocol';
import {
  Budget,
  type FairSlot,
  FairSlots,
  LimitExceeded,
  unlimitedSteps,
  WorkBudget,
} from '#runtime';
import { DropConnectionError } from '../auth/index.ts';
import { requestLimits } from './limits.ts';
import { type LoadHead, readLoadHead } from './load-head.ts';
import { type LoadCost, type LoadMeter, type LoadSender, turnOwner } from './load-meter.ts';
import { mapMaybePromise } from './map-maybe-promise.ts';
import { Refusal } from './refusal.ts';
import type { RequestType } from './request-type.ts';

/** Size above which an encrypted load is verified and decrypted in slices, in bytes. */
const maxBytesAtOnce = 256 * 1024;
/** Size above which an encrypted load needs a slot, in bytes. */
const maxBytesWithoutSlot = 1024 * 1024;
/**
 * Maximum time that a load may wait for a slot, in milliseconds. Minions wait for a reply for a
 * minute, and then send the request again. After five minutes, the load would look like a
 * repetition of a recorded request (`request_server_ttl`).
 */
const maxSlotWaitMs = 60_000;
/** Maximum size of a load that is unpacked without reading its head first, in bytes. */
const maxSmallBytes = 4096;
/** Number of elements above which a load is unpacked in slices. */
const maxElementsAtOnce = 5_000;

export interface LoadOpenerOptions {
  readonly meter: LoadMeter;
  readonly table: ReadonlyMap<string, RequestType>;
  readonly limits: PayloadLimits;
  /**
   * Checks the fields that identify a request and its sender.
   * @throws Refusal
   */
  readonly check: (envelope: SealedEnvelope, load: WireValue) => CheckedRequest;
  /** Whether a token of protocols 0 to 2 is known to be the token of this minion. */
  readonly isRemembered: (minionId: string, tok: Uint8Array) => boolean;
  /** Called for a request with too many elements, before it is rejected. */
  readonly onTooMany: (request: CheckedRequest, elements: number, most: number) => void;
  /** Slots for large loads. Default: as many as `largeLoads` in `limits.ts` states. */
  readonly slots?: FairSlots;
  /** Clock for the waiting times, in milliseconds. Default: the clock of the process. */
  readonly now?: () => number;
}

/** Load that has passed the checks of its fields. */
export interface OpenedLoad {
  /**
   * Request with its checked fields. If the master does not serve the request, its load contains
   * only the fields that identify the request and its sender.
   */
  readonly checked: CheckedRequest;
  /** Complete load in MessagePack. */
  readonly packed: Uint8Array;
}

/** Encrypted request whose load is being opened. */
interface SealedRequest<T> {
  readonly envelope: SealedEnvelope;
  readonly key: CrypticleKey;
  readonly peer: Peer;
  readonly turn: RequestSlot;
  /** Handles the opened load. A slot that the load needs is released afterwards. */
  readonly serve: (load: OpenedLoad) => Maybe<T>;
}

/** Large load that is decrypted, and not unpacked yet. */
interface LargeLoad<T> {
  readonly request: SealedRequest<T>;
  /** Fields that identify the request and its sender. */
  readonly checked: CheckedRequest;
  readonly packed: Buffer;
  readonly head: LoadHead;
}

type Maybe<T> = T | Promise<T>;

/**
 * Decrypts and unpacks the encrypted loads of requests, and counts them towards the rate limits of
 * their senders.
 */
export class LoadOpener {
  readonly #options: LoadOpenerOptions;
  readonly #slots: FairSlots;
  readonly #waitingBytes = new Budget(requestLimits.waitingLargeLoads);

  constructor(options: LoadOpenerOptions) {
    this.#options = options;
    this.#slots = options.slots ?? new FairSlots(requestLimits.largeLoads);
  }

  /**
   * Opens the load of a request, and returns the result of `serve`.
   * @throws Refusal, or DropConnectionError if too many loads of the sender are waiting; errors of
   * `serve` unchanged
   */
  open<T>(request: SealedRequest<T>): Maybe<T> {
    const { envelope, key, peer } = request;
    const sender = provenSender(envelope, peer);
    if (
      sender.minionId !== undefined &&
      !this.#options.meter.permits(sender.minionId, peer.address)
    )
      throw new Refusal('ERR_EXPIRED');
    if (envelope.load.length > maxBytesAtOnce) return this.#openLong(request, sender);
    refusing(() => verifyCrypticle(key, envelope.load));
    return mapMaybePromise(this.#payBytes(request, sender), () =>
      this.#read(
        request,
        refusing(() => decryptPacked(key, envelope.load)),
      ),
    );
  }

  async #openLong<T>(request: SealedRequest<T>, sender: LoadSender): Promise<T> {
    const { envelope, key, peer, turn } = request;
    const { load } = envelope;
    turn.release();
    const unproven = turnOwner({ minionId: undefined, address: peer.address });
    await refusingLater(
      verifyCrypticleInSlices(key, load, new WorkBudget(unlimitedSteps, unproven)),
    );
    await this.#payBytes(request, sender);
    const owner = turnOwner(sender);
    const decrypt = (): Promise<Buffer> =>
      refusingLater(decryptPackedInSlices(key, load, new WorkBudget(unlimitedSteps, owner)));
    if (load.length <= maxBytesWithoutSlot) return this.#readLarge(request, await decrypt());
    return this.#inSlot(owner, load.length, async (slot) =>
      this.#readLarge(request, await decrypt(), slot),
    );
  }

  /**
   * Waits for a slot, runs `work`, and releases the slot. `work` may release it earlier.
   * @param bytes - size of the load, which counts as waiting until `work` starts
   * @throws DropConnectionError if too many large loads, or too many of their bytes, are waiting, or
   * if the wait was too long; errors of `work` unchanged
   */
  async #inSlot<T>(owner: string, bytes: number, work: (slot: FairSlot) => Promise<T>): Promise<T> {
    const waiting = this.#waitingBytes;
    if (!waiting.tryTake(owner, bytes)) throw new DropConnectionError('too-many-waiting');
    const { now = () => performance.now() } = this.#options;
    const since = now();
    const start = async (slot: FairSlot): Promise<T> => {
      waiting.release(owner, bytes);
      if (now() - since > maxSlotWaitMs) throw new DropConnectionError('too-many-waiting');
      return await work(slot);
    };
    return this.#slots.run(owner, start).catch((cause: unknown) => {
      if (!isFull(cause)) throw cause;
      waiting.release(owner, bytes);
      throw new DropConnectionError('too-many-waiting', { cause });
    });
  }

  /**
   * Counts the bytes of a load towards the minion's limit. In protocols 0 to 2, the minion is known
   * only after its load is decrypted. The bytes are then counted at that time.
   */
  #payBytes(request: SealedRequest<unknown>, sender: LoadSender): Maybe<true> {
    if (sender.minionId === undefined) return true;
    return this.#pay(request, sender, { bytes: request.envelope.load.length, elements: 0 });
  }

  #pay({ turn }: SealedRequest<unknown>, sender: LoadSender, cost: LoadCost): Maybe<true> {
    const isNext = this.#options.meter.pass(sender, cost);
    if (isNext === false) throw new DropConnectionError('too-many-waiting');
    if (isNext !== true) turn.release();
    return isNext;
  }

  #read<T>(request: SealedRequest<T>, packed: Buffer): Maybe<T> {
    return packed.length <= maxSmallBytes
      ? this.#readSmall(request, packed)
      : this.#readLarge(request, packed);
  }

  #readSmall<T>(request: SealedRequest<T>, packed: Buffer): Maybe<T> {
    const { envelope, serve } = request;
    const { value, elements } = refusing(() => unpackAndCount(packed, this.#options.limits));
    const checked = this.#checkPaid(request, value);
    const isPaid = this.#payElements(request, checked, elements);
    if (isPaid === true) return serve({ checked, packed });
    // The time stamp may have expired meanwhile.
    return isPaid.then(() => serve({ checked: this.#options.check(envelope, value), packed }));
  }

  /**
   * Checks a large load, and counts its elements towards the rate limit of its sender.
   * @param slot - slot in which the load was decrypted, if it needs one. The load does not keep it
   * while it waits because of the rate limit
   */
  #readLarge<T>(request: SealedRequest<T>, packed: Buffer, slot?: FairSlot): Maybe<T> {
    const { limits } = this.#options;
    const head = refusing(() => readLoadHead(packed, limits.maxElements));
    const checked = this.#checkPaid(request, head.fields);
    const isPaid = this.#payElements(request, checked, head.elements);
    const load = { request, checked, packed, head };
    if (isPaid === true) return this.#readPaid(load, slot);
    slot?.leave();
    return isPaid.then(() => this.#readPaid(load, undefined));
  }

  /**
   * Unpacks and serves a large load whose elements have been counted.
   * @param slot - slot that the load holds
   */
  #readPaid<T>(load: LargeLoad<T>, slot: FairSlot | undefined): Maybe<T> {
    const { check, onTooMany, table } = this.#options;
    const { request, checked, packed, head } = load;
    const { envelope, turn, serve } = request;
    const isLarge = envelope.load.length > maxBytesWithoutSlot;
    const needsSlot = isLarge && table.get(checked.cmd ?? '')?.needsSlot === true;
    if (!needsSlot) slot?.leave();
    const most = this.#maxElements(checked);
    if (most === undefined) return serve({ checked: check(envelope, head.fields), packed });
    if (head.elements > most) {
      onTooMany(checked, head.elements, most);
      throw new Refusal('ERR_PAYLOAD_LIMIT');
    }
    if (!needsSlot && head.elements <= maxElementsAtOnce) {
      const value = refusing(() => unpackWire(packed, this.#limitsOf(head)));
      return serve({ checked: check(envelope, value), packed });
    }
    turn.release();
    const owner = turnOwner(this.#senderOf(request, checked));
    const work = (): Promise<T> => this.#serveInSlices(load, owner);
    return needsSlot && slot === undefined
      ? this.#inSlot(owner, envelope.load.length, work)
      : work();
  }

  /**
   * Unpacks a load in slices, and serves it. The load may have waited until its time stamp expired.
   * It is therefore checked again.
   */
  async #serveInSlices<T>({ request, packed, head }: LargeLoad<T>, owner: string): Promise<T> {
    const { envelope, serve } = request;
    const budget = new WorkBudget(unlimitedSteps, owner);
    const value = await refusingLater(unpackWireInSlices(packed, this.#limitsOf(head), budget));
    return serve({ checked: this.#options.check(envelope, value), packed });
  }

  #limitsOf({ elements }: LoadHead): PayloadLimits {
    return { ...this.#options.limits, maxElements: elements };
  }

  /**
   * Returns the maximum number of elements of a request. `undefined` if its load is not read,
   * because the master does not serve the request.
   */
  #maxElements({ cmd, tok }: CheckedRequest): number | undefined {
    const type = this.#options.table.get(cmd ?? '');
    return type === undefined || (type.needsToken && tok === undefined)
      ? undefined
      : type.maxElements;
  }

  #payElements(
    request: SealedRequest<unknown>,
    checked: CheckedRequest,
    elements: number,
  ): Maybe<true> {
    const { version, load } = request.envelope;
    const bytes = version === 3 ? 0 : load.length;
    return this.#pay(request, this.#senderOf(request, checked), { bytes, elements });
  }

  /**
   * Returns the sender of a decrypted load. In protocols 0 to 2, any minion can claim an id. So the
   * minion with this id counts as the sender only if the load contains its token.
   */
  #senderOf({ envelope, peer }: SealedRequest<unknown>, { id, tok }: CheckedRequest): LoadSender {
    if (envelope.version === 3) return provenSender(envelope, peer);
    const isProven = id !== undefined && tok !== undefined && this.#options.isRemembered(id, tok);
    return { minionId: isProven ? id : undefined, address: peer.address };
  }

  /**
   * Checks a load whose size already counts towards the rate of its sender. If the request has
   * expired, its size counts towards the sender's address instead of the minion, because anyone can
   * repeat a recorded request.
   */
  #checkPaid({ envelope, peer }: SealedRequest<unknown>, load: WireValue): CheckedRequest {
    try {
      return this.#options.check(envelope, load);
    } catch (error) {
      const { version, id } = envelope;
      const isExpired = error instanceof Refusal && error.reason === 'ERR_EXPIRED';
      if (isExpired && version === 3 && id !== undefined) {
        const cost = { bytes: envelope.load.length, elements: 0 };
        this.#options.meter.chargeExpired(id, peer.address, cost);
      }
      throw error;
    }
  }
}

/**
 * Returns the sender of a request with a valid HMAC. In protocol version 3, the HMAC proves the
 * minion id. In earlier versions, only the address is known.
 */
function provenSender({ version, id }: SealedEnvelope, { address }: Peer): LoadSender {
  return { minionId: version === 3 ? id : undefined, address };
}

/**
 * Runs `work`, which reads a load.
 * @throws Refusal instead of a ProtocolError; other errors of `work` unchanged
 */
function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw refusalOf(error);
  }
}

async function refusingLater<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    throw refusalOf(error);
  });
}

/** Whether the error means that too many large loads wait for a slot. */
function isFull(error: unknown): boolean {
  return error instanceof LimitExceeded && error.limit === requestLimits.largeLoads;
}

function refusalOf(error: unknown): unknown {
  return error instanceof ProtocolError ? new Refusal(error.code) : error;
}

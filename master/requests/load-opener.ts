/**
 * Opens the encrypted loads of requests. Before the master decrypts a load, it counts the bytes
 * towards a rate limit of the sender. Before it unpacks the load, it also counts the list elements
 * and map entries. Large loads are processed in slices, so that other requests are answered
 * meanwhile.
 */

import {
  type CheckedRequest,
  type CrypticleKey,
  decryptPacked,
  decryptPackedInSlices,
  type LoadHead,
  type PayloadLimits,
  type Peer,
  ProtocolError,
  type RequestSlot,
  readLoadHead,
  type SealedEnvelope,
  unpackAndCount,
  unpackWire,
  unpackWireInSlices,
  verifyCrypticle,
  verifyCrypticleInSlices,
  type WireValue,
} from '#minion-protocol';
import { mapMaybePromise, unlimitedSteps, WorkBudget } from '#runtime';
import { DropConnectionError } from '../auth/index.ts';
import { type LoadCost, type LoadMeter, type LoadSender, turnOwner } from './load-meter.ts';
import { Refusal } from './refusal.ts';
import type { RequestType } from './request-type.ts';

/** Size above which an encrypted load is verified and decrypted in slices, in bytes. */
const maxBytesAtOnce = 256 * 1024;
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
interface SealedRequest {
  readonly envelope: SealedEnvelope;
  readonly key: CrypticleKey;
  readonly peer: Peer;
  readonly turn: RequestSlot;
}

type Maybe<T> = T | Promise<T>;

/**
 * Decrypts and unpacks the encrypted loads of requests, and counts them towards the rate limits of
 * their senders.
 */
export class LoadOpener {
  readonly #options: LoadOpenerOptions;

  constructor(options: LoadOpenerOptions) {
    this.#options = options;
  }

  /**
   * Opens the load of a request.
   * @throws Refusal, or DropConnectionError if too many loads of the sender are waiting
   */
  open(request: SealedRequest): Maybe<OpenedLoad> {
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

  async #openLong(request: SealedRequest, sender: LoadSender): Promise<OpenedLoad> {
    const { envelope, key, peer, turn } = request;
    const { load } = envelope;
    turn.release();
    const unproven = turnOwner({ minionId: undefined, address: peer.address });
    await refusingLater(
      verifyCrypticleInSlices(key, load, new WorkBudget(unlimitedSteps, unproven)),
    );
    await this.#payBytes(request, sender);
    const budget = new WorkBudget(unlimitedSteps, turnOwner(sender));
    return this.#read(request, await refusingLater(decryptPackedInSlices(key, load, budget)));
  }

  /**
   * Counts the bytes of a load towards the minion's limit. In protocols 0 to 2, the minion is known
   * only after its load is decrypted. The bytes are then counted at that time.
   */
  #payBytes(request: SealedRequest, sender: LoadSender): Maybe<true> {
    if (sender.minionId === undefined) return true;
    return this.#pay(request, sender, { bytes: request.envelope.load.length, elements: 0 });
  }

  #pay({ turn }: SealedRequest, sender: LoadSender, cost: LoadCost): Maybe<true> {
    const isNext = this.#options.meter.pass(sender, cost);
    if (isNext === false) throw new DropConnectionError('too-many-waiting');
    if (isNext !== true) turn.release();
    return isNext;
  }

  #read(request: SealedRequest, packed: Buffer): Maybe<OpenedLoad> {
    return packed.length <= maxSmallBytes
      ? this.#readSmall(request, packed)
      : this.#readLarge(request, packed);
  }

  #readSmall(request: SealedRequest, packed: Buffer): Maybe<OpenedLoad> {
    const { envelope } = request;
    const { value, elements } = refusing(() => unpackAndCount(packed, this.#options.limits));
    const checked = this.#checkPaid(request, value);
    const isPaid = this.#payElements(request, checked, elements);
    if (isPaid === true) return { checked, packed };
    // The time stamp may have expired meanwhile.
    return isPaid.then(() => ({ checked: this.#options.check(envelope, value), packed }));
  }

  #readLarge(request: SealedRequest, packed: Buffer): Maybe<OpenedLoad> {
    const { limits } = this.#options;
    const head = refusing(() => readLoadHead(packed, limits.maxElements));
    const checked = this.#checkPaid(request, head.fields);
    return mapMaybePromise(this.#payElements(request, checked, head.elements), () =>
      this.#readPaid(request, checked, packed, head),
    );
  }

  /**
   * Unpacks a large load, after its elements were counted towards the rate limit of its sender. The
   * count may have delayed the load until its time stamp expired. The load is therefore checked
   * again.
   */
  #readPaid(
    request: SealedRequest,
    checked: CheckedRequest,
    packed: Buffer,
    head: LoadHead,
  ): Maybe<OpenedLoad> {
    const { check, onTooMany } = this.#options;
    const most = this.#maxElements(checked);
    if (most === undefined) return { checked: check(request.envelope, head.fields), packed };
    if (head.elements > most) {
      onTooMany(checked, head.elements, most);
      throw new Refusal('ERR_PAYLOAD_LIMIT');
    }
    const sender = this.#senderOf(request, checked);
    return mapMaybePromise(this.#unpack(request, packed, head, sender), (value) => ({
      checked: check(request.envelope, value),
      packed,
    }));
  }

  #unpack(
    { turn }: SealedRequest,
    packed: Buffer,
    { elements }: LoadHead,
    sender: LoadSender,
  ): Maybe<WireValue> {
    const limits = { ...this.#options.limits, maxElements: elements };
    if (elements <= maxElementsAtOnce) return refusing(() => unpackWire(packed, limits));
    turn.release();
    return refusingLater(
      unpackWireInSlices(packed, limits, new WorkBudget(unlimitedSteps, turnOwner(sender))),
    );
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

  #payElements(request: SealedRequest, checked: CheckedRequest, elements: number): Maybe<true> {
    const { version, load } = request.envelope;
    const bytes = version === 3 ? 0 : load.length;
    return this.#pay(request, this.#senderOf(request, checked), { bytes, elements });
  }

  /**
   * Returns the sender of a decrypted load. In protocols 0 to 2, any minion can claim an id. So the
   * minion with this id counts as the sender only if the load contains its token.
   */
  #senderOf({ envelope, peer }: SealedRequest, { id, tok }: CheckedRequest): LoadSender {
    if (envelope.version === 3) return provenSender(envelope, peer);
    const isProven = id !== undefined && tok !== undefined && this.#options.isRemembered(id, tok);
    return { minionId: isProven ? id : undefined, address: peer.address };
  }

  /**
   * Checks a load whose size already counts towards the rate of its sender. If the request has
   * expired, its size counts towards the sender's address instead of the minion, because anyone can
   * repeat a recorded request.
   */
  #checkPaid({ envelope, peer }: SealedRequest, load: WireValue): CheckedRequest {
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

function refusalOf(error: unknown): unknown {
  return error instanceof ProtocolError ? new Refusal(error.code) : error;
}

import { addressOwner, Throttle, TokenBuckets } from '#runtime';
import { minionOwner } from '../api/index.ts';
import { requestLimits } from './limits.ts';

/**
 * Number of bytes that are counted for each list element and map entry of a load. Unpacking an
 * element or entry takes about as long as decrypting this number of bytes.
 */
const bytesPerElement = 32;

/** Sender of a load (request content), as far as the master knows it. */
export interface LoadSender {
  /** Proven id of the sender, or `undefined` if only the address is known. */
  readonly minionId: string | undefined;
  readonly address: string;
}

/** Size of a load (request content). It counts towards the rate limit of the sender. */
export interface LoadCost {
  readonly bytes: number;
  readonly elements: number;
}

/**
 * Limits how fast each sender may send loads (request contents), by their size. A request above the
 * limit waits before its load is read.
 */
export class LoadMeter {
  readonly #minions: TokenBuckets;
  readonly #ofMinions: Throttle;
  readonly #ofAddresses: Throttle;
  readonly #expired: TokenBuckets;

  /** @param now - returns the milliseconds of a monotonic clock. Default: the clock of the system */
  constructor(now?: () => number) {
    const { loadRate, unprovenLoadRate, waitingLoads, waitingUnprovenLoads } = requestLimits;
    this.#minions = new TokenBuckets(loadRate, now);
    this.#ofMinions = new Throttle(waitingLoads, this.#minions, tokens);
    const addresses = new TokenBuckets(unprovenLoadRate, now);
    this.#ofAddresses = new Throttle(waitingUnprovenLoads, addresses, tokens);
    this.#expired = new TokenBuckets(requestLimits.expiredLoads, now);
  }

  /**
   * Counts a request towards the rate limit of its sender.
   * @returns `true` if the request may proceed now; a promise that resolves when the request may
   * proceed; `false` if too many requests of the sender already wait
   */
  pass({ minionId, address }: LoadSender, cost: LoadCost): boolean | Promise<true> {
    return minionId === undefined
      ? this.#ofAddresses.pass(addressOwner(address), weightOf(cost))
      : this.#ofMinions.pass(minionId, weightOf(cost));
  }

  /**
   * Counts an expired request towards the rate limit of its address instead of the limit of its
   * minion. Otherwise anyone who has recorded a request of the minion could repeat it and use up
   * the minion's limit.
   */
  chargeExpired(minionId: string, address: string, cost: LoadCost): void {
    this.#minions.give(minionId, weightOf(cost));
    this.#expired.take(expiredOwner(minionId, address), weightOf(cost));
  }

  /**
   * Whether requests of a minion from this address are read. False if the address has sent too many
   * expired requests of this minion recently.
   */
  permits(minionId: string, address: string): boolean {
    return this.#expired.isUnused || this.#expired.has(expiredOwner(minionId, address));
  }
}

function expiredOwner(minionId: string, address: string): string {
  return `${addressOwner(address)} ${minionId}`;
}

function weightOf({ bytes, elements }: LoadCost): number {
  return bytes + bytesPerElement * elements;
}

function tokens(count: number): number {
  return count;
}

/**
 * Returns the owner whose turns a sender uses: its minion id, or its address if
 * the id is unknown.
 */
export function turnOwner({ minionId, address }: LoadSender): string {
  return minionId === undefined ? `address ${addressOwner(address)}` : minionOwner(minionId);
}

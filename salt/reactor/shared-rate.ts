import { type Limit, type Rate, TokenBuckets } from '#runtime';

/**
 * Part of all places or tokens that is reserved for owners that do not exceed their share
 * ({@link ownerPart}): a quarter.
 */
const reservedPart = 1 / 4;
/**
 * Share of each owner in all places or tokens: an eighth. Owners that exceed their share may not
 * use the reserved part.
 */
const ownerPart = 1 / 8;

/**
 * A limited number of places that owners share, for example in a queue. One owner may use at most
 * three quarters of all places. The last quarter is reserved for owners that use less than an
 * eighth of all places. The caller counts how many places are in use.
 */
export class SharedPlaces {
  readonly #total: number;

  /**
   * @param total - number of places that the owners share, for example in a queue. Default: the
   * total of the limit. If the limit has none, the number is unlimited
   */
  constructor({ total: ownTotal }: Limit, total: number = ownTotal ?? Infinity) {
    this.#total = total;
  }

  /**
   * Whether an owner may occupy one more of the shared places.
   * @param used - number of places that all owners use
   * @param own - number of places that this owner uses
   */
  has(used: number, own: number): boolean {
    const isWithinShare = own < Math.max(1, this.#total * ownerPart);
    return used < this.#total - (isWithinShare ? 0 : Math.floor(this.#total * reservedPart));
  }
}

/**
 * A rate limit that several owners share, with one token bucket. Each owner has a share of an
 * eighth of the rate. When only a quarter of the tokens is left, owners that exceed their share get
 * none. One owner can therefore use almost the whole rate, and the others still get tokens.
 */
export class SharedRate {
  readonly #tokens: TokenBuckets;
  readonly #shares: TokenBuckets;
  readonly #reserved: number;

  constructor(limit: Limit, rate: Rate) {
    const { perSecond, burst } = rate;
    this.#tokens = new TokenBuckets(limit, undefined, rate);
    this.#shares = new TokenBuckets(limit, undefined, {
      perSecond: perSecond * ownerPart,
      burst: Math.max(1, burst * ownerPart),
    });
    this.#reserved = Math.floor(burst * reservedPart);
  }

  /**
   * Takes one token. Returns `false` if there is none for this owner.
   * @param now - milliseconds of a monotonic clock
   */
  tryTake(owner: string, now: number): boolean {
    const isShare = this.#shares.tryTake(owner, now);
    return this.#tokens.tryTake('', now, isShare ? 0 : this.#reserved);
  }
}

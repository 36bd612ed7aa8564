/**
 * The registry of limits. Each top-level directory, or a module in it, defines its limits in a
 * table in its `limits.ts`. Code that enforces a limit is constructed with a row of a table. The
 * script `scripts/docs.js` generates `docs/limits.md` from the rows.
 */

import { type ErrorEntry, SaltbridgeError } from './errors.ts';

export const limitErrors = {
  ERR_LIMIT: {
    meaning: 'The caller, or all callers together, have reached a limit.',
    action: 'Retry later. The message names the limit; docs/limits.md describes it.',
    retry: true,
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

/**
 * Kind of owner for which a limit counts uses. `address` is an IPv4 address or an IPv6 network of
 * 64 bits. `none`: the limit counts all uses together.
 */
export type LimitOwner =
  | 'address'
  | 'agent'
  | 'caller'
  | 'connection'
  | 'endpoint'
  | 'instance'
  | 'minion'
  | 'network'
  | 'none'
  | 'project'
  | 'rule'
  | 'site'
  | 'stack'
  | 'token'
  | 'user';

/** Rate limit: `perSecond` on average, `burst` at once. */
export interface Rate {
  /** Average number per second. 0 means unlimited. */
  readonly perSecond: number;
  readonly burst: number;
}

/** Bounds of a limit. A bound that is left out does not apply. */
export interface LimitValues {
  /** Maximum for one owner, in the unit of the limit. */
  readonly perOwner?: number | undefined;
  /** Maximum number of units that all owners together may use. */
  readonly total?: number | undefined;
  /** Part of `total` that is reserved for owners that use nothing yet. Default: 0. */
  readonly reserved?: number | undefined;
  /**
   * Maximum that one owner may use, as a multiple of the number of units that are free now. With 1,
   * one owner can use at most half of `total`, so that units remain for new owners. Default: no
   * such maximum.
   */
  readonly timesFree?: number | undefined;
  /**
   * Maximum number of calls that may wait until the limit permits them. Default: 0, so that a call
   * above the limit fails at once.
   */
  readonly waiting?: { readonly perOwner: number; readonly total: number } | undefined;
  /** Average rate and burst of one owner. */
  readonly rate?: Rate | undefined;
}

/** Row of a table of limits. */
export interface LimitRow extends LimitValues {
  /** Counted things, in the plural: `log-ins in progress`. */
  readonly unit: string;
  readonly owner: LimitOwner;
  /**
   * Configuration option that changes the numbers of this limit. `undefined` if they are constant.
   */
  readonly option?: string;
  /**
   * Text for the documentation that describes the maximums. Present only if they depend on the
   * machine or on another limit.
   */
  readonly amounts?: string;
  /** Effect of exceeding the limit, as a sentence. */
  readonly effect: string;
  /** Code of the error that the caller gets, if any. */
  readonly code?: string;
}

/** Registered limit. Only {@link defineLimits} creates one. */
export class Limit implements LimitRow {
  /**
   * Name of the limit, for example `master.activeLogins`. It consists of the name of the table, a
   * dot, and the key of the row in the table.
   */
  readonly name: string;
  readonly unit: string;
  readonly owner: LimitOwner;
  readonly perOwner: number | undefined;
  readonly total: number | undefined;
  readonly reserved: number | undefined;
  readonly timesFree: number | undefined;
  readonly waiting: LimitValues['waiting'];
  readonly rate: Rate | undefined;
  readonly effect: string;
  /** Row of the table of limits that defines this limit. */
  readonly row: LimitRow;
  // Makes the type nominal: an object literal is not a registered limit.
  readonly #isRegistered = true;

  constructor(name: string, row: LimitRow) {
    this.name = name;
    this.row = row;
    this.unit = row.unit;
    this.owner = row.owner;
    this.perOwner = row.perOwner;
    this.total = row.total;
    this.reserved = row.reserved;
    this.timesFree = row.timesFree;
    this.waiting = row.waiting;
    this.rate = row.rate;
    this.effect = row.effect;
  }

  /** Whether `value` is a registered limit. */
  static is(value: unknown): value is Limit {
    return typeof value === 'object' && value !== null && #isRegistered in value;
  }
}

/** Table of the limits of one top-level directory, by key. */
export type LimitTable<Name extends string = string> = Readonly<Record<Name, Limit>>;

/**
 * Creates a table of limits.
 * @param room - name of the top-level directory that defines the limits, for example `master`
 */
export function defineLimits<const Name extends string>(
  room: string,
  rows: Readonly<Record<Name, LimitRow>>,
): LimitTable<Name> {
  const limits = Object.entries<LimitRow>(rows).map(
    ([key, row]) => [key, new Limit(`${room}.${key}`, row)] as const,
  );
  // TypeScript does not derive the names of the keys from `Object.fromEntries`.
  return Object.fromEntries(limits) as LimitTable<Name>;
}

/**
 * Value of `waiting` that sets no maximum. Used for resources for which another limit bounds the
 * number of waiting requests.
 */
export const unlimitedWaiting = { perOwner: Infinity, total: Infinity } as const;

/**
 * Checks that an owner may wait for one more use of a limited resource, such as a slot. Half of
 * `total` is reserved for owners that are not waiting yet.
 * @param own - number of uses that the owner waits for
 * @param all - number of uses that all owners wait for
 * @throws LimitExceeded if the owner may not wait
 */
export function assertMayWait(
  limit: Limit,
  { perOwner, total }: NonNullable<LimitValues['waiting']>,
  own: number,
  all: number,
): void {
  if (own >= perOwner) throw new LimitExceeded(limit, perOwner);
  if (all >= (own === 0 ? total : total / 2)) throw new LimitExceeded(limit, total);
}

/** Error for a call that would exceed a limit. The message names the limit. */
export class LimitExceeded extends SaltbridgeError<'ERR_LIMIT'> {
  readonly limit: Limit;

  /**
   * @param amount - maximum that the error message states. Default: the maximum of one owner, or
   * the burst of the rate
   */
  constructor(limit: Limit, amount: number = limit.perOwner ?? limit.rate?.burst ?? 0) {
    super('ERR_LIMIT', `${limit.name}: too many ${limit.unit} (maximum ${amount}); retry later`);
    this.limit = limit;
  }
}

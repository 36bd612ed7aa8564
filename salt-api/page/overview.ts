/** Collects the data of the status page that the user may read. */

import type { Explanation } from '#acl';
import type {
  Denial,
  JoinedSite,
  KeyInfo,
  MasterApi,
  MasterStatus,
  SiteDirectory,
  UserApi,
} from '#master';
import type { ServedMaster } from '../context.ts';
import type { MinionSince, RateSeries, StatusHistory } from './status-history.ts';

type JobProgress = Awaited<ReturnType<MasterApi['jobs']['active']>>[number];

/** Data for the status page. Parts that the user may not read are absent. */
export interface Overview {
  readonly user: string;
  readonly status: MasterStatus;
  readonly rates: readonly RateSeries[];
  /** Minions of the master. Present only if the user may call the runner `manage.status`. */
  readonly minions?: readonly MinionSince[];
  /** Running jobs of the master. Present only if the user may call the runner `jobs.active`. */
  readonly jobs?: readonly JobProgress[];
  /**
   * Values of the bridge's metrics, by name. Present only if there is a bridge, and the user may
   * call the runner `jobs.active`.
   */
  readonly bridge?: Readonly<Record<string, number>>;
  /** Pending keys. Present only if the user may call the wheel function `key.list_all`. */
  readonly pending?: PendingKeys;
  /**
   * Sites that have joined this master, if this master is a centre: a master that manages sites.
   * Requires full rights.
   */
  readonly sites?: readonly JoinedSite[];
  /** Denied signals whose tags the user may read. */
  readonly denials: readonly Denial[];
}

/** Pending keys, and which decisions about them the user may make. */
interface PendingKeys {
  readonly keys: readonly KeyInfo[];
  readonly mayAccept: boolean;
  readonly mayReject: boolean;
}

/** Maximum number of denied signals to show. */
const maxDenials = 20;

export async function overviewOf(
  master: ServedMaster,
  views: SharedViews,
  { name, user }: { readonly name: string; readonly user: UserApi },
): Promise<Overview> {
  const [seesMinions, seesJobs, seesKeys] = await Promise.all([
    user.permits('runner', 'manage.status'),
    user.permits('runner', 'jobs.active'),
    user.permits('wheel', 'key.list_all'),
  ]);
  const { sites } = views;
  const seesSites = sites !== undefined && (await user.describeMaster()).hasFullRights;
  const status = await views.status.get();
  const bridge = status.extensions?.bridge;
  return {
    user: name,
    status,
    rates: views.history.rates(),
    ...(seesMinions ? { minions: await views.minions.get() } : {}),
    ...(seesJobs ? { jobs: await master.jobs.active() } : {}),
    ...(seesJobs && bridge !== undefined ? { bridge } : {}),
    ...(seesKeys ? { pending: await pendingKeys(views, user) } : {}),
    ...(seesSites ? { sites: await sites.get() } : {}),
    denials: await readableDenials(master, user),
  };
}

async function pendingKeys(views: SharedViews, user: UserApi): Promise<PendingKeys> {
  const [keys, mayAccept, mayReject] = await Promise.all([
    views.pending.get(),
    user.permits('wheel', 'key.accept'),
    user.permits('wheel', 'key.reject'),
  ]);
  return { keys, mayAccept, mayReject };
}

/** Returns the denied signals that the user may read, the latest first. */
async function readableDenials(master: ServedMaster, user: UserApi): Promise<Denial[]> {
  const latest = (await master.events.denials()).slice(-maxDenials).reverse();
  const readable = await Promise.all(latest.map(({ tag }) => user.permits('subscribe', tag)));
  return latest.filter((_, index) => readable[index]);
}

/**
 * Explains why a signal was denied, according to the current policy. Returns `undefined` if the
 * denied signal does not exist or the user may not read it.
 */
export async function explainDenial(
  master: ServedMaster,
  user: UserApi,
  minion: string,
  tag: string,
): Promise<{ readonly denial: Denial; readonly explanation: Explanation } | undefined> {
  const denials = await readableDenials(master, user);
  const denial = denials.find((it) => it.minion === minion && it.tag === tag);
  if (denial === undefined) return undefined;
  const subject = { kind: 'minion', id: denial.minion } as const;
  const request = { subject, action: 'signal', resource: denial.tag } as const;
  return { denial, explanation: await master.acl.explain(request) };
}

/** A value that is looked up at most once per `freshMs`. All readers share the result. */
export class CachedValue<T> {
  readonly #look: () => Promise<T>;
  readonly #freshMs: number;
  readonly #now: () => number;
  #found: { readonly value: Promise<T>; readonly at: number } | undefined;

  /**
   * Creates a cache for one value.
   * @param look - fetches the value
   * @param freshMs - time for which a fetched value is reused, in milliseconds
   * @param now - returns the time of a monotonic clock, in milliseconds
   */
  constructor(
    look: () => Promise<T>,
    freshMs: number,
    now: () => number = () => performance.now(),
  ) {
    this.#look = look;
    this.#freshMs = freshMs;
    this.#now = now;
  }

  /**
   * Returns the cached result. If it is too old, looks the value up again. A failed look-up is not
   * cached.
   */
  get(): Promise<T> {
    const at = this.#now();
    if (this.#found !== undefined && at - this.#found.at < this.#freshMs) return this.#found.value;
    const value = this.#look();
    this.#found = { value, at };
    value.catch(() => this.forget());
    return value;
  }

  /** Discards the cached result, because the value has changed. */
  forget(): void {
    this.#found = undefined;
  }
}

/** Wraps a function so that it runs only once for each object. */
export function memoizeByObject<T extends object, R>(make: (value: T) => R): (value: T) => R {
  const made = new WeakMap<T, { readonly result: R }>();
  return (value) => {
    const known = made.get(value) ?? { result: make(value) };
    made.set(value, known);
    return known.result;
  };
}

/**
 * Lifetime of shared results, in milliseconds. It is slightly shorter than the two seconds after
 * which pages update.
 */
const freshMs = 1900;

/**
 * Data that is the same for all readers of the status page. It is looked up once for all of them.
 */
export interface SharedViews {
  readonly history: StatusHistory;
  readonly status: CachedValue<MasterStatus>;
  readonly minions: CachedValue<readonly MinionSince[]>;
  /** Pending keys. */
  readonly pending: CachedValue<readonly KeyInfo[]>;
  /** Sites that have joined this master. `undefined` if this master is not a centre. */
  readonly sites: CachedValue<readonly JoinedSite[]> | undefined;
}

export function createSharedViews(
  master: ServedMaster,
  history: StatusHistory,
  sites?: SiteDirectory,
): SharedViews {
  return {
    sites: sites && new CachedValue(async () => sites.joinedSites(), freshMs),
    history,
    status: new CachedValue(() => master.status(), freshMs),
    minions: new CachedValue(() => history.minions(), freshMs),
    pending: new CachedValue(() => master.keys.list({ state: 'pending' }), freshMs),
  };
}

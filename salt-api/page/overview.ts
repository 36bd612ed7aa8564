/** What a user may see of a master on the status page. */

import type { Explanation } from '#acl';
import type { Denial, KeyInfo, MasterApi, MasterStatus, UserApi } from '#master';
import type { ServedMaster } from '../context.ts';
import type { MinionSince, RateSeries, StatusHistory } from './status-history.ts';

type JobProgress = Awaited<ReturnType<MasterApi['jobs']['active']>>[number];

/** What is absent is what they may not see. */
export interface Overview {
  readonly user: string;
  readonly status: MasterStatus;
  readonly rates: readonly RateSeries[];
  /** For whom `manage.status` is permitted. */
  readonly minions?: readonly MinionSince[];
  /** For whom `jobs.active` is permitted. */
  readonly jobs?: readonly JobProgress[];
  /** What the bridge has under way: for whom `jobs.active` is permitted. */
  readonly bridge?: Readonly<Record<string, number>>;
  /** For whom `key.list_all` is permitted. */
  readonly pending?: PendingKeys;
  /** Of tags that they may read. */
  readonly denials: readonly Denial[];
}

/** Keys that wait, and what may be done with them. */
interface PendingKeys {
  readonly keys: readonly KeyInfo[];
  readonly mayAccept: boolean;
  readonly mayReject: boolean;
}

/** Denied signals that are shown. */
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

/** The latest first. */
async function readableDenials(master: ServedMaster, user: UserApi): Promise<Denial[]> {
  const latest = (await master.events.denials()).slice(-maxDenials).reverse();
  const readable = await Promise.all(latest.map(({ tag }) => user.permits('subscribe', tag)));
  return latest.filter((_, index) => readable[index]);
}

/** What the policy in force says of a signal that was denied; `undefined`: it is none, or not theirs. */
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

/** Something that is looked up at most so often, however many ask: all of them get the same. */
export class CachedValue<T> {
  readonly #look: () => Promise<T>;
  readonly #freshMs: number;
  readonly #now: () => number;
  #found: { readonly value: Promise<T>; readonly at: number } | undefined;

  /**
   * @param freshMs milliseconds for which what was found is given again
   * @param now milliseconds of a clock that only goes forward
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

  /** What was found a moment ago, or is found now; a look that fails is not kept. */
  get(): Promise<T> {
    const at = this.#now();
    if (this.#found !== undefined && at - this.#found.at < this.#freshMs) return this.#found.value;
    const value = this.#look();
    this.#found = { value, at };
    value.catch(() => this.forget());
    return value;
  }

  /** Who asks next looks again: something was changed. */
  forget(): void {
    this.#found = undefined;
  }
}

/** The same result for the same object, made once. */
export function memoizeByObject<T extends object, R>(make: (value: T) => R): (value: T) => R {
  const made = new WeakMap<T, { readonly result: R }>();
  return (value) => {
    const known = made.get(value) ?? { result: make(value) };
    made.set(value, known);
    return known.result;
  };
}

/** Milliseconds for which it is shown; readers look every two seconds. */
const freshMs = 1900;

/** What everybody who looks at the status page is shown alike, looked up once for all of them. */
export interface SharedViews {
  readonly history: StatusHistory;
  readonly status: CachedValue<MasterStatus>;
  readonly minions: CachedValue<readonly MinionSince[]>;
  /** Keys that wait. */
  readonly pending: CachedValue<readonly KeyInfo[]>;
}

export function createSharedViews(master: ServedMaster, history: StatusHistory): SharedViews {
  return {
    history,
    status: new CachedValue(() => master.status(), freshMs),
    minions: new CachedValue(() => history.minions(), freshMs),
    pending: new CachedValue(() => master.keys.list({ state: 'pending' }), freshMs),
  };
}

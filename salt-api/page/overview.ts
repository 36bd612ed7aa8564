/** What a user may see of a master on the status page. */

import type { Explanation } from '#acl';
import type {
  Denial,
  JobProgress,
  KeyInfo,
  MasterApi,
  MasterStatus,
  MetricFamily,
  MinionInfo,
  UserApi,
} from '#master';
import type { ServedMaster } from '../context.ts';

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

// Recent history: rates, and since when minions are present or absent.

/** Something that happens so often. */
export interface RateSeries {
  readonly title: string;
  /** A second, in each interval; the latest last. */
  readonly values: readonly number[];
}

/** A minion, as long as it has been there, or not. */
export interface MinionSince extends MinionInfo {
  /** Milliseconds since 1970. Absent: before anybody began to look. */
  readonly since?: number;
}

/** What is shown as a rate: counters, by their names. */
const rateMetrics: readonly (readonly [title: string, name: string])[] = [
  ['Requests', 'saltbridge_requests_total'],
  ['Returns', 'saltbridge_returns_total'],
  ['Events', 'saltbridge_events_total'],
  ['Sign-ins', 'saltbridge_authentications_total'],
  ['Denied signals', 'saltbridge_signals_denied_total'],
];

/** Milliseconds between two looks. */
const samplingIntervalMs = 10_000;
/** Ten minutes. */
const keptSamples = 60;

type Source = Pick<MasterApi, 'metrics' | 'minions'>;

/** Whether a minion was there, and since when that is known. */
interface MinionPresence {
  isPresent: boolean;
  /** Absent: since before anybody began to look. */
  since: number | undefined;
}

/**
 * Counts rates all the time (5 ms every ten seconds with 10,000 minions), and looks at minions for
 * ten minutes after somebody asked for them: nobody pays for a page that nobody sees. What happened
 * to minions while nobody looked is not known.
 */
export class StatusHistory {
  readonly #master: Source;
  readonly #now: () => number;
  readonly #rates = new Map<string, number[]>();
  readonly #seen = new Map<string, MinionPresence>();
  #totals: ReadonlyMap<string, number> | undefined;
  #countedAt = 0;
  /** When minions were looked at last, and asked for last. Absent: never. */
  #lookedAt: number | undefined;
  #askedAt: number | undefined;

  /** @param now milliseconds since 1970 */
  constructor(master: Source, now: () => number = Date.now) {
    this.#master = master;
    this.#now = now;
  }

  /** Looks every ten seconds until the signal. */
  start(signal: AbortSignal): void {
    const timer = setInterval(() => {
      // A master that does not run now has nothing to tell.
      this.sample().catch(() => {});
    }, samplingIntervalMs);
    timer.unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /** Looks once. @throws MasterError ERR_MASTER_STOPPED */
  async sample(): Promise<void> {
    this.#count(await this.#master.metrics());
    if (this.#isAskedFor()) this.#note(await this.#master.minions());
  }

  rates(): readonly RateSeries[] {
    return rateMetrics.map(([title]) => ({ title, values: this.#rates.get(title) ?? [] }));
  }

  /** As they are at this moment, in the order of their keys. */
  async minions(): Promise<readonly MinionSince[]> {
    const minions = await this.#master.minions();
    this.#askedAt = this.#now();
    this.#note(minions);
    return minions.map((minion) => {
      const since = this.#seen.get(minion.id)?.since;
      return since === undefined ? minion : { ...minion, since };
    });
  }

  #isAskedFor(): boolean {
    return (
      this.#askedAt !== undefined && this.#now() - this.#askedAt < keptSamples * samplingIntervalMs
    );
  }

  #note(minions: readonly MinionInfo[]): void {
    const now = this.#now();
    // Who was not looked at for a while may have gone and come.
    const isFirst = this.#lookedAt === undefined || now - this.#lookedAt >= 2 * samplingIntervalMs;
    if (isFirst) this.#seen.clear();
    this.#lookedAt = now;
    for (const { id, isPresent } of minions) {
      const seen = this.#seen.get(id);
      if (seen === undefined) this.#seen.set(id, { isPresent, since: isFirst ? undefined : now });
      else if (seen.isPresent !== isPresent) Object.assign(seen, { isPresent, since: now });
    }
    if (this.#seen.size > minions.length) this.#forgetOthers(minions);
  }

  #forgetOthers(minions: readonly MinionInfo[]): void {
    const ids = new Set(minions.map(({ id }) => id));
    for (const id of this.#seen.keys()) if (!ids.has(id)) this.#seen.delete(id);
  }

  #count(families: readonly MetricFamily[]): void {
    const now = this.#now();
    const totals = new Map(rateMetrics.map(([title, name]) => [title, totalOf(families, name)]));
    const before = this.#totals;
    const seconds = (now - this.#countedAt) / 1000;
    this.#totals = totals;
    this.#countedAt = now;
    if (before === undefined || seconds <= 0) return;
    for (const [title, total] of totals) {
      const values = this.#rates.get(title) ?? [];
      values.push(Math.max(0, total - (before.get(title) ?? 0)) / seconds);
      this.#rates.set(title, values.slice(-keptSamples));
    }
  }
}

function totalOf(families: readonly MetricFamily[], name: string): number {
  const family = families.find((it) => it.name === name);
  if (family === undefined || family.type === 'histogram') return 0;
  return family.samples.reduce((sum, { value }) => sum + value, 0);
}

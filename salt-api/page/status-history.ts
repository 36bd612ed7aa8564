/**
 * Recent history of a master: rates, and the times at which minions have connected or disconnected.
 */

import type { MasterApi, MetricFamily, MinionInfo } from '#master';

/** Values of a rate over time. */
export interface RateSeries {
  readonly title: string;
  /** One rate for each interval, in events per second. The latest rate is the last. */
  readonly values: readonly number[];
}

/** A minion, with the time at which it last connected or disconnected. */
export interface MinionSince extends MinionInfo {
  /**
   * Time of the last change of presence, in milliseconds since 1970. Absent if the change was
   * before the first observation.
   */
  readonly since?: number;
}

/** Counters whose rates are shown, with a title for each. */
const rateMetrics: readonly (readonly [title: string, name: string])[] = [
  ['Requests', 'saltbridge_requests_total'],
  ['Returns', 'saltbridge_returns_total'],
  ['Events', 'saltbridge_events_total'],
  ['Sign-ins', 'saltbridge_authentications_total'],
  ['Denied signals', 'saltbridge_signals_denied_total'],
];

/** Interval between samples, in milliseconds. */
const samplingIntervalMs = 10_000;
/** Number of samples that are kept, which cover ten minutes. */
const keptSamples = 60;

type Source = Pick<MasterApi, 'metrics' | 'minions'>;

/** Whether a minion is present, and since when. */
interface MinionPresence {
  isPresent: boolean;
  /**
   * Time at which the minion was last observed to connect or disconnect. Absent if it has done
   * neither since the first observation.
   */
  since: number | undefined;
}

/**
 * Recent rates of a master, and connection times of its minions. The rates are sampled
 * continuously. The minions are observed only while readers use the page: the observation ends if
 * no reader has requested the connection times for ten minutes. With 10,000 minions, one sample
 * takes 5 ms. Changes between two observations are not noticed.
 */
export class StatusHistory {
  readonly #master: Source;
  readonly #now: () => number;
  readonly #rates = new Map<string, number[]>();
  readonly #seen = new Map<string, MinionPresence>();
  #totals: ReadonlyMap<string, number> | undefined;
  #countedAt = 0;
  /**
   * Time of the last observation of minions, in milliseconds since 1970. Absent before the first
   * observation.
   */
  #lookedAt: number | undefined;
  /**
   * Time of the last call of {@link minions}, in milliseconds since 1970. Absent before the first
   * call.
   */
  #askedAt: number | undefined;

  /** @param now - returns milliseconds since 1970 */
  constructor(master: Source, now: () => number = Date.now) {
    this.#master = master;
    this.#now = now;
  }

  /** Samples the rates of the master every ten seconds, until the signal is aborted. */
  start(signal: AbortSignal): void {
    const timer = setInterval(() => {
      // A master that is not running provides no data.
      this.sample().catch(() => {});
    }, samplingIntervalMs);
    timer.unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /**
   * Takes one sample.
   * @throws MasterError ERR_MASTER_STOPPED
   */
  async sample(): Promise<void> {
    this.#count(await this.#master.metrics());
    if (this.#isAskedFor()) this.#note(await this.#master.minions());
  }

  rates(): readonly RateSeries[] {
    return rateMetrics.map(([title]) => ({ title, values: this.#rates.get(title) ?? [] }));
  }

  /**
   * Returns all minions, in the order of their keys. For each minion, states whether it is present,
   * and since when if that is known.
   */
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
    // If the minion was not observed for a while, it may have disconnected and reconnected
    // meanwhile.
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

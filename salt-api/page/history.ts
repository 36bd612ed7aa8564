/** What the status page knows of the last minutes: rates, and since when minions are there or not. */
import type { MasterApi, MetricFamily } from '../../master/index.ts';

/** Something that happens so often. */
export interface RateSeries {
  readonly title: string;
  /** A second, in each interval; the latest last. */
  readonly values: readonly number[];
}

/** A minion, as long as it has been there, or not. */
export interface MinionSince {
  readonly id: string;
  readonly isPresent: boolean;
  /** Milliseconds since 1970. Absent: before the page began to look. */
  readonly since?: number;
  /** Its last request, milliseconds since 1970. Absent: none since the start. */
  readonly heardAt?: number;
}

/** What is shown as a rate: counters, by their names. */
const rates: readonly (readonly [title: string, name: string])[] = [
  ['Requests', 'saltbridge_requests_total'],
  ['Returns', 'saltbridge_returns_total'],
  ['Events', 'saltbridge_events_total'],
  ['Sign-ins', 'saltbridge_authentications_total'],
  ['Denied signals', 'saltbridge_signals_denied_total'],
];

/** Milliseconds between two looks. */
const intervalMs = 10_000;
/** Ten minutes. */
const kept = 60;

type Source = Pick<MasterApi, 'metrics' | 'minions'>;

/** Looks now and then; bounded by the number of accepted minions. */
export class History {
  readonly #master: Source;
  readonly #now: () => number;
  readonly #rates = new Map<string, number[]>();
  #minions: ReadonlyMap<string, MinionSince> = new Map();
  #totals: ReadonlyMap<string, number> | undefined;
  #lookedAt = 0;

  /** @param now milliseconds since 1970 */
  constructor(master: Source, now: () => number = Date.now) {
    this.#master = master;
    this.#now = now;
  }

  /** Looks every ten seconds until the signal. */
  start(signal: AbortSignal): void {
    const timer = setInterval(() => {
      // A master that does not run now has nothing to tell.
      this.look().catch(() => {});
    }, intervalMs);
    timer.unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /** Looks once. @throws MasterError ERR_MASTER_STOPPED */
  async look(): Promise<void> {
    const [families, minions] = await Promise.all([this.#master.metrics(), this.#master.minions()]);
    const now = this.#now();
    this.#noteRates(families, now);
    const isFirst = this.#lookedAt === 0;
    this.#minions = new Map(
      minions.map((minion) => [minion.id, this.#noted(minion, isFirst ? undefined : now)]),
    );
    this.#lookedAt = now;
  }

  rates(): readonly RateSeries[] {
    return rates.map(([title]) => ({ title, values: this.#rates.get(title) ?? [] }));
  }

  /** As they are at this moment, in the order of their keys. */
  async minions(): Promise<readonly MinionSince[]> {
    const now = this.#now();
    return (await this.#master.minions()).map((minion) => this.#noted(minion, now));
  }

  #noted(minion: Omit<MinionSince, 'since'>, now: number | undefined): MinionSince {
    const before = this.#minions.get(minion.id);
    const since = before?.isPresent === minion.isPresent ? before.since : now;
    return { ...minion, ...(since === undefined ? {} : { since }) };
  }

  #noteRates(families: readonly MetricFamily[], now: number): void {
    const totals = new Map(rates.map(([title, name]) => [title, totalOf(families, name)]));
    const before = this.#totals;
    const seconds = (now - this.#lookedAt) / 1000;
    this.#totals = totals;
    if (before === undefined || seconds <= 0) return;
    for (const [title, total] of totals) {
      const values = this.#rates.get(title) ?? [];
      values.push(Math.max(0, total - (before.get(title) ?? 0)) / seconds);
      this.#rates.set(title, values.slice(-kept));
    }
  }
}

function totalOf(families: readonly MetricFamily[], name: string): number {
  const family = families.find((it) => it.name === name);
  if (family === undefined || family.type === 'histogram') return 0;
  return family.samples.reduce((sum, { value }) => sum + value, 0);
}

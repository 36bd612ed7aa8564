/**
 * Stores facts about the minions of sites at the centre. Newer facts replace older ones. The times
 * of the site's hybrid clock decide which facts are newer.
 */

import Type from 'typebox';
import type { SitesOptions } from '#config';
import type { ExtensionHost, SiteDetails, StateOperation } from '#master';
import { isWireMap, packLocal, type WireMap } from '#minion-protocol';
import { estimateSize, isLargerThan, unlimitedSteps, WorkBudget } from '#runtime';
import { Bytes, defineRow } from '#store';
import { EdgeError } from '../errors.ts';
import { edgeLimits } from '../limits.ts';
import type { LogEntry, LogIngest } from '../log/log.ts';
import { decodeValue, stepsOfByte } from '../log/log-codec.ts';
import { maxBatchEntries } from '../log/log-messages.ts';
import { compareTimes, type HybridTime } from './hlc.ts';
import type { MinionClaims } from './minion-claims.ts';

const factRow = defineRow({
  name: 'facts of a minion of a site',
  schema: Type.Object({
    site: Type.String(),
    ms: Type.Integer({ minimum: 0 }),
    count: Type.Integer({ minimum: 0 }),
    receivedAt: Type.Integer({ minimum: 0 }),
    present: Type.Boolean(),
    grains: Bytes,
  }),
});

const factPrefix = ['centre', 'fact'] as const;

/**
 * Number of minions whose most recently received facts are kept in memory. It must not be less than
 * the number of entries of a batch.
 */
const recentFacts: number = maxBatchEntries;

/** Maximum size of the grains of a minion, in bytes. */
const maxGrainsBytes = 16_384;

/** Maximum number of values in the grains of a minion. */
const maxElements = edgeLimits.factElements.perOwner ?? 0;

/**
 * Number of bytes that are counted for each list and map, and for each of their members. Decoded
 * grains take about as much memory.
 */
const bytesPerElement = 32;

/** Facts of a minion, with the time at which the site recorded them. */
export interface SiteMinion {
  readonly minion: string;
  readonly site: string;
  readonly isPresent: boolean;
  readonly grains: WireMap;
  /** Time of the facts, by the hybrid clock of the site. */
  readonly at: HybridTime;
  readonly receivedAt: number;
}

type MinionSummary = SiteDetails['minions'];

/** Facts of a minion. `grains` decodes the grains at each call. */
export interface PackedSiteMinion extends Pick<SiteMinion, 'isPresent' | 'site'> {
  /** Time of the facts, in milliseconds since 1970. */
  readonly ms: number;
  /** Whether the site has sent grains of the minion. */
  readonly hasGrains: boolean;
  /** Size of the packed grains, in bytes. */
  readonly bytes: number;
  readonly grains: () => WireMap;
}

/** Empty map of grains in packed form. */
const emptyGrains: Uint8Array = Uint8Array.from(packLocal({}));

export interface CentreFactsOptions {
  readonly host: Pick<ExtensionHost, 'now' | 'shared'>;
  readonly options: Pick<SitesOptions, 'factAheadSeconds'>;
  readonly ingest: LogIngest;
  readonly claims: MinionClaims;
}

/** Facts of the minions of all sites. */
export class CentreFacts {
  readonly #options: CentreFactsOptions;
  /** Recently received facts, by minion id. Their writes may still be in progress. */
  readonly #recent = new Map<string, MergedFact>();

  private constructor(options: CentreFactsOptions) {
    this.#options = options;
  }

  static async open(options: CentreFactsOptions): Promise<CentreFacts> {
    const facts = new CentreFacts(options);
    options.ingest.on('minion', { operations: (entry) => facts.#merge(entry) });
    const { shared } = options.host;
    if (shared.cluster === undefined) return facts;
    // A stored row, also one of another member, replaces the copy in memory.
    await shared.follow([...factPrefix], (change) => {
      const key = change.type === 'put' ? change.entry.key : change.key;
      facts.#recent.delete(key.at(-1) ?? '');
    });
    return facts;
  }

  /** Returns the grains and the presence of a minion, or `undefined` if no site has reported it. */
  async of(minion: string): Promise<SiteMinion | undefined> {
    const entry = await this.#options.host.shared.get(keyOf(minion));
    return entry && readFact(minion, entry.value);
  }

  /**
   * Counts the connected and the absent minions of a site, and returns the times of their oldest
   * and latest facts.
   */
  async summaryOf(site: string): Promise<MinionSummary> {
    const counts = { present: 0, absent: 0 };
    const times: number[] = [];
    for (const minion of this.#options.claims.minionsOf(site)) {
      const entry = await this.#options.host.shared.get(keyOf(minion));
      if (entry === undefined) continue;
      const { present, ms } = factRow.decode(entry);
      counts[present ? 'present' : 'absent'] += 1;
      times.push(ms);
    }
    times.sort((a, b) => a - b);
    return { ...counts, oldestAt: times[0], latestAt: times.at(-1) };
  }

  /**
   * Yields the grains and the presence of the minions of a site, or of all sites. Decodes the
   * grains of one minion at a time.
   */
  async *list(site?: string): AsyncGenerator<SiteMinion> {
    const sites = site === undefined ? this.#options.claims.sites : [site];
    const budget = new WorkBudget(unlimitedSteps);
    for await (const { key, value } of this.#rowsOf(sites)) {
      await budget.giveWayAfter(value.length * stepsOfByte);
      const fact = readFact(key.at(-1) ?? '', value);
      if (site === undefined || fact.site === site) yield fact;
    }
  }

  /** Returns the facts of the minions of these sites, by id. Their grains are not decoded yet. */
  async ofSites(sites: readonly string[]): Promise<ReadonlyMap<string, PackedSiteMinion>> {
    const wanted = new Set(sites);
    const found = new Map<string, PackedSiteMinion>();
    for await (const entry of this.#rowsOf(sites)) {
      const { site, ms, present, grains } = factRow.decode(entry);
      if (!wanted.has(site)) continue;
      const copy = Uint8Array.from(grains);
      found.set(entry.key.at(-1) ?? '', {
        site,
        ms,
        isPresent: present,
        hasGrains: copy.length > emptyGrains.length,
        bytes: copy.length,
        grains: () => decodeValue(copy),
      });
    }
    return found;
  }

  /**
   * Reads the stored facts of the minions of these sites. If these minions are more than half of
   * all minions, reads the facts of all minions, because this is faster.
   */
  async *#rowsOf(sites: readonly string[]): AsyncGenerator<FactEntry> {
    const { host, claims } = this.#options;
    const minions = sites.flatMap((site) => claims.minionsOf(site));
    if (minions.length > claims.size / 2) {
      yield* host.shared.list([...factPrefix]);
      return;
    }
    for (const minion of minions) {
      const entry = await host.shared.get(keyOf(minion));
      if (entry !== undefined) yield entry;
    }
  }

  /** Deletes the facts of these minions from memory, because another site may claim the minions. */
  forget(minions: readonly string[]): void {
    for (const minion of minions) this.#recent.delete(minion);
  }

  async #merge({ site, value, at }: LogEntry): Promise<readonly StateOperation[]> {
    const { host, options, claims } = this.#options;
    const { minion, present, grains } = value;
    if (typeof minion !== 'string' || typeof present !== 'boolean') {
      throw new EdgeError('ERR_SITE_MESSAGE', 'the fields of the facts are malformed');
    }
    const aheadMs = at.ms - host.now();
    if (aheadMs > options.factAheadSeconds * 1000) {
      const seconds = Math.round(aheadMs / 1000);
      throw new EdgeError(
        'ERR_SITE_CLOCK',
        `the clock of the site is ${seconds} s ahead of the clock of the centre`,
      );
    }
    claims.require(site, minion);
    const known = this.#recent.get(minion) ?? (await this.#stored(minion));
    // Write facts with an equal time again, because their first write may have failed.
    if (known !== undefined && compareTimes(at, known.at) < 0) return claims.claim(site, minion);
    const given = isWireMap(grains) ? grains : undefined;
    const packed = given === undefined ? (known?.grains ?? emptyGrains) : packGrains(minion, given);
    const sized = await claims.claim(site, minion, given && sizeOf(given));
    this.#remember(minion, { at, grains: packed });
    const { ms, count } = at;
    const row = { site, ms, count, receivedAt: host.now(), present, grains: packed };
    return [...sized, { op: 'put', key: keyOf(minion), value: factRow.encode(row) }];
  }

  /** Returns the stored facts of a minion. */
  async #stored(minion: string): Promise<MergedFact | undefined> {
    const entry = await this.#options.host.shared.get(keyOf(minion));
    if (entry === undefined) return undefined;
    const { ms, count, grains } = factRow.decode(entry);
    return { at: { ms, count }, grains: Uint8Array.from(grains) };
  }

  #remember(minion: string, fact: MergedFact): void {
    this.#recent.delete(minion);
    this.#recent.set(minion, fact);
    if (this.#recent.size <= recentFacts) return;
    const [oldest] = this.#recent.keys();
    if (oldest !== undefined) this.#recent.delete(oldest);
  }
}

type FactEntry = NonNullable<Awaited<ReturnType<ExtensionHost['shared']['get']>>>;

/** Packed grains of a minion, and the time at which the site reported them. */
interface MergedFact extends Pick<SiteMinion, 'at'> {
  readonly grains: Uint8Array;
}

/**
 * Packs the grains of a minion.
 * @throws EdgeError ERR_SITE_MESSAGE if they are too large
 */
function packGrains(minion: string, grains: WireMap): Uint8Array {
  const problem = (size: string): EdgeError =>
    new EdgeError('ERR_SITE_MESSAGE', `the grains of ${minion} are too large: more than ${size}`);
  if (isLargerThan(grains, { values: maxElements })) throw problem(`${maxElements} values`);
  const packed = packLocal(grains);
  if (packed.length > maxGrainsBytes) throw problem(`${maxGrainsBytes} bytes`);
  // A packed value is a part of a larger block of memory.
  return Uint8Array.from(packed);
}

/** Returns the size of grains that counts towards the limit of the site, in bytes. */
function sizeOf(grains: WireMap): number {
  return estimateSize(grains, { list: bytesPerElement, other: bytesPerElement });
}

function keyOf(minion: string): readonly string[] {
  return [...factPrefix, minion];
}

function readFact(minion: string, value: Uint8Array): SiteMinion {
  const row = factRow.decode({ key: keyOf(minion), value });
  const { site, ms, count, receivedAt, present } = row;
  const grains = decodeValue(row.grains);
  return { minion, site, isPresent: present, grains, at: { ms, count }, receivedAt };
}

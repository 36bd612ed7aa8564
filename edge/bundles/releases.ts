/**
 * Releases of a centre, their progress from one ring (group of sites) to the next, and the release
 * that each site must install.
 */

import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import Type from 'typebox';
import type { SitesOptions } from '#config';
import type { SharedArea, StateOperation } from '#master';
import { Mutex, TokenBuckets } from '#runtime';
import { defineRow, isConflict, type RowOf, retryConflicts } from '#store';
import { EdgeError } from '../errors.ts';
import { edgeLimits } from '../limits.ts';
import type { BundleReport, WantedRelease } from './bundle-messages.ts';
import { markObjects } from './shared-objects.ts';

/** Number of releases whose contents are stored. */
const keptReleases = 10;

/**
 * Time after which the centre stores a report that does not differ from the last report of its site,
 * in milliseconds.
 */
const recentMs = 300_000;

/** Maximum number of attempts to change a release that other members of a cluster change too. */
const maxAttempts = 16;

const ReleaseSchema = Type.Object({
  version: Type.Integer({ minimum: 1 }),
  /** SHA-256 digest of the manifest. `length` is the size of the manifest in bytes. */
  sha256: Type.String(),
  length: Type.Integer({ minimum: 0 }),
  createdAt: Type.Integer({ minimum: 0 }),
  /**
   * State of the release. `packed`: not published yet. `releasing`: sites install it, ring by ring.
   * `held`: an operator paused it. `stopped`: too many sites refused it. `done`: all rings have
   * installed it. `replaced`: a later release was published.
   */
  state: Type.Unsafe<'packed' | 'releasing' | 'held' | 'stopped' | 'done' | 'replaced'>(
    Type.String(),
  ),
  /** Names of the rings (groups of sites), in the order in which they install the release. */
  rings: Type.Array(Type.String()),
  /**
   * Index in `rings` of the last ring whose sites may install the release now. The sites of all
   * earlier rings may install it too.
   */
  ring: Type.Integer({ minimum: 0 }),
  /** Whether all rings (groups of sites) have installed the release. */
  isProven: Type.Boolean(),
  /** Sites that refused the release. */
  failed: Type.Array(Type.String()),
  /**
   * Version of the earlier release whose files this release contains. Absent unless this release is
   * a rollback.
   */
  contentOf: Type.Optional(Type.Integer({ minimum: 1 })),
});
const releaseRow = defineRow({ name: 'release', schema: ReleaseSchema });
export type Release = RowOf<typeof releaseRow>;

const SiteReleaseSchema = Type.Object({
  version: Type.Integer({ minimum: 0 }),
  saltbridge: Type.String(),
  at: Type.Integer({ minimum: 0 }),
  failed: Type.Optional(
    Type.Object({ version: Type.Integer(), code: Type.String(), message: Type.String() }),
  ),
});
const siteReleaseRow = defineRow({ name: 'release of a site', schema: SiteReleaseSchema });

/** Last report of a site about its bundle. */
export type SiteRelease = RowOf<typeof siteReleaseRow>;

const releasePrefix = ['bundle', 'release'];
const sitePrefix = ['bundle', 'site'];

function releaseKey(version: number): string[] {
  return [...releasePrefix, String(version).padStart(16, '0')];
}

/**
 * Progress of a site with the release that was published last. `current`: the site uses it.
 * `refused`: the site has refused it. `behind`: the site must install this or an earlier release.
 * `waiting`: the ring of the site may not install it yet, or the release is held or has stopped.
 */
export type SiteProgress = 'current' | 'refused' | 'behind' | 'waiting';

/**
 * Rings (groups of sites) by name, in order. The value is a percentage of all sites, or a list of
 * names of sites.
 */
export type Rings = SitesOptions['rings'];

export interface ReleasesOptions {
  readonly rows: Pick<SharedArea, 'cluster' | 'follow' | 'list' | 'write'>;
  readonly rings: Rings;
  readonly stopAtFailures: number;
  /** Returns the names of all joined sites. Returns the same array until the sites change. */
  readonly sites: () => readonly string[];
  /** Whether a site is connected to any member of the cluster. */
  readonly isConnected: (site: string) => boolean;
  readonly now: () => number;
}

/** Releases and the reports of sites about them. */
export class Releases {
  readonly #options: ReleasesOptions;
  readonly #releases = new Map<number, Release>();
  /** Revision of the stored row of each release, by the version of the release. */
  readonly #revisions = new Map<number, number>();
  readonly #reports = new Map<string, SiteRelease>();
  readonly #stored = new TokenBuckets(edgeLimits.siteReports);
  readonly #mutex = new Mutex();
  /**
   * Last result of `#ringsOf`, cached together with the arguments of that call. `rings` contains,
   * for each site, the index of its ring.
   */
  #assigned:
    | {
        readonly version: number;
        readonly sites: readonly string[];
        readonly rings: ReadonlyMap<string, number>;
      }
    | undefined;

  private constructor(options: ReleasesOptions) {
    this.#options = options;
  }

  /**
   * Reads the stored releases and reports, and follows their changes.
   * @param onChange - called after this or another member of the cluster has changed a release.
   * `isDeleted`: whether the release was deleted
   */
  static async open(
    options: ReleasesOptions,
    onChange: (isDeleted: boolean) => void,
  ): Promise<Releases> {
    const releases = new Releases(options);
    await options.rows.follow(releasePrefix, (change) => {
      if (change.type === 'put') {
        const { entry } = change;
        releases.#set(releaseRow.decode(entry), entry.revision);
      } else {
        releases.#forget(Number(change.key.at(-1)));
      }
      onChange(change.type === 'delete');
    });
    await options.rows.follow(sitePrefix, (change) => {
      if (change.type !== 'put') return;
      const site = change.entry.key.at(-1) ?? '';
      releases.#reports.set(site, siteReleaseRow.decode(change.entry));
    });
    return releases;
  }

  /** Returns all releases, latest first. */
  list(): readonly Release[] {
    return [...this.#releases.values()].sort((a, b) => b.version - a.version);
  }

  /** Release that was published last, or `undefined` if none was published. */
  get published(): Release | undefined {
    return this.list().find(({ state }) => state !== 'packed' && state !== 'replaced');
  }

  /** Latest release that all rings have installed, or `undefined`. */
  get proven(): Release | undefined {
    return this.list().find(({ isProven }) => isProven);
  }

  /** Returns the last report of a site about its bundle, or `undefined` if it has sent none. */
  reportOf(site: string): SiteRelease | undefined {
    return this.#reports.get(site);
  }

  /** Returns the number of sites that use this version, according to their last reports. */
  countUsing(version: number): number {
    return [...this.#reports.values()].filter((it) => it.version === version).length;
  }

  /**
   * Returns the release with this version.
   * @throws EdgeError ERR_RELEASE if it does not exist
   */
  require(version: number): Release {
    const found = this.#releases.get(version);
    if (found !== undefined) return found;
    throw new EdgeError(
      'ERR_RELEASE',
      `unknown release ${version}: \`saltbridge site list\` prints the releases`,
    );
  }

  /** Version that the next release gets, if no other version is requested. */
  get nextVersion(): number {
    return Math.max(0, ...this.#releases.keys()) + 1;
  }

  /**
   * Stores an unpublished release, and removes the other unpublished releases.
   * @throws EdgeError ERR_RELEASE if another member of the cluster has added or published a release
   * meanwhile
   */
  async add(release: Pick<Release, 'version' | 'sha256' | 'length' | 'contentOf'>): Promise<void> {
    const rings = Object.keys(this.#options.rings);
    const unpublished = this.list().filter(({ state }) => state === 'packed');
    const isRollback = release.contentOf !== undefined;
    const added: Release = {
      ...release,
      createdAt: this.#options.now(),
      state: 'packed',
      rings,
      // A rollback is released to all rings at once, because all sites must stop using the replaced
      // release.
      ring: isRollback ? Math.max(0, rings.length - 1) : 0,
      isProven: false,
      failed: [],
    };
    const others = unpublished.filter(({ version }) => version !== added.version);
    const removed = others.map(({ version }): StateOperation => {
      const ifRevision = this.#revisions.get(version);
      const key = releaseKey(version);
      return { op: 'delete', key, ...(ifRevision === undefined ? {} : { ifRevision }) };
    });
    try {
      await this.#writeAll([added], [...removed, markObjects]);
    } catch (error) {
      if (!isConflict(error)) throw error;
      const problem = 'another release was added or published meanwhile; repeat the command';
      throw new EdgeError('ERR_RELEASE', problem, { cause: error });
    }
    for (const { version } of others) this.#forget(version);
  }

  /**
   * Publishes a release: writes its TUF metadata and its new state in one transaction. The first
   * ring may then install the release. A rollback may be installed by all rings at once.
   */
  publish(version: number, metadata: readonly StateOperation[]): Promise<void> {
    return this.#mutex.run(() => this.#publish(version, metadata));
  }

  async #publish(version: number, metadata: readonly StateOperation[]): Promise<void> {
    const release = this.require(version);
    const replaced = this.list().filter(
      ({ state, version: other }) => state !== 'packed' && other !== version,
    );
    const changed: Release[] = [
      ...replaced.map((it): Release => ({ ...it, state: 'replaced' })),
      { ...release, state: 'releasing' },
    ];
    await this.#writeAll(changed, metadata);
    await this.#advance();
  }

  /**
   * Pauses the published release. Sites that have not installed it keep their former release.
   * @throws EdgeError ERR_RELEASE if no release is in the state `releasing`
   */
  hold(): Promise<Release> {
    return this.#mutex.run(() =>
      this.#repeat(() => this.#change(['releasing'], (release) => ({ ...release, state: 'held' }))),
    );
  }

  /**
   * Continues a release that was held or has stopped, and clears its list of failed sites. If the
   * release is in the state `releasing`, the next ring may install it without waiting for the
   * present ring.
   * @throws EdgeError ERR_RELEASE if the published release is not in the state `held`, `stopped` or
   * `releasing`, or no release has been published
   */
  resume(): Promise<Release> {
    return this.#mutex.run(() => this.#resume());
  }

  async #resume(): Promise<Release> {
    const release = await this.#repeat(() =>
      this.#change(['held', 'stopped', 'releasing'], (it) => ({
        ...it,
        state: 'releasing',
        failed: [],
        ring: it.state === 'releasing' ? Math.min(it.ring + 1, it.rings.length - 1) : it.ring,
      })),
    );
    await this.#advance();
    return this.require(release.version);
  }

  /**
   * Stores the report of a site about its bundle, unless the stored report is recent and equal.
   * Advances or stops the release if necessary.
   * @throws EdgeError ERR_SITE_LINK if the site sends too many different reports
   */
  report(site: string, report: BundleReport): Promise<void> {
    return this.#mutex.run(() => this.#report(site, report));
  }

  async #report(site: string, { version, saltbridge, failed }: BundleReport): Promise<void> {
    const row: SiteRelease = {
      version,
      saltbridge,
      at: this.#options.now(),
      ...(failed === undefined ? {} : { failed }),
    };
    const known = this.#reports.get(site);
    const isKnown = known !== undefined && isDeepStrictEqual({ ...known, at: row.at }, row);
    if (!isKnown || row.at - known.at >= recentMs) await this.#store(site, row);
    await this.#repeat(() => this.#noteFailure(site, failed?.version));
    await this.#advance();
  }

  async #store(site: string, row: SiteRelease): Promise<void> {
    if (!this.#stored.tryTake(site)) {
      const problem = 'report refused: the site sends different reports too often; retry later';
      throw new EdgeError('ERR_SITE_LINK', problem);
    }
    const value = siteReleaseRow.encode(row);
    await this.#options.rows.write([{ op: 'put', key: [...sitePrefix, site], value }]);
    // In a cluster, `follow` reports this change, and later changes in their order.
    if (this.#options.rows.cluster === undefined) this.#reports.set(site, row);
  }

  /**
   * Adds a site to the list of sites that refused the published release. Stops the release when the
   * list has `stopAtFailures` sites. Does nothing unless the release is in the state `releasing`.
   * @param version - version of the release that the site refused
   */
  async #noteFailure(site: string, version: number | undefined): Promise<void> {
    const { published } = this;
    if (published?.state !== 'releasing' || version !== published.version) return;
    if (published.failed.includes(site)) return;
    const failures = [...published.failed, site];
    const isStopped = failures.length >= this.#options.stopAtFailures;
    const state = isStopped ? 'stopped' : 'releasing';
    await this.#write({ ...published, failed: failures, state });
  }

  /**
   * Lets the next ring (group of sites) install the published release if the present ring is
   * complete, and repeats this for later rings. Call this method after the connection of a site has
   * ended. Also call it at intervals, because the cluster member that received the last report may
   * have failed before it called this method.
   */
  advance(): Promise<void> {
    return this.#mutex.run(() => this.#advance());
  }

  async #advance(): Promise<void> {
    while (await this.#repeat(() => this.#advanceOnce()));
  }

  /**
   * Advances the release to the next ring if the present ring is complete. Marks the release as
   * `done` after the last ring. Returns whether another ring may install it now.
   */
  async #advanceOnce(): Promise<boolean> {
    const sites = this.#options.sites();
    const { published: release } = this;
    if (release === undefined || release.state !== 'releasing') return false;
    const rings = this.#ringsOf(release, sites);
    const members = sites.filter((site) => (rings.get(site) ?? Infinity) <= release.ring);
    if (!this.#isComplete(release, members)) return false;
    const isLast = release.ring >= release.rings.length - 1;
    if (isLast) await this.#write({ ...release, state: 'done', isProven: true });
    else await this.#write({ ...release, ring: release.ring + 1 });
    return !isLast;
  }

  /**
   * Returns the release that a site must install, or `undefined` if it must not change its release.
   */
  wantedBy(site: string): WantedRelease | undefined {
    const { published, proven } = this;
    const used = this.#reports.get(site)?.version ?? 0;
    if (published === undefined || used >= published.version) return undefined;
    const index = this.#ringsOf(published, this.#options.sites()).get(site);
    const isItsTurn = index !== undefined && index <= published.ring;
    const isActive = published.state === 'releasing' || published.state === 'done';
    if (isItsTurn && isActive) {
      return { ring: published.rings[index] ?? '', version: published.version };
    }
    // Other sites install the latest release that all rings have installed.
    if (proven === undefined || used >= proven.version) return undefined;
    return { ring: proven.rings.at(-1) ?? '', version: proven.version };
  }

  /**
   * Returns the joined sites of a ring, or `undefined` if the ring does not exist. If the ring is a
   * percentage of all sites, each release selects different sites. In this case, returns the sites
   * for the release that was published last.
   */
  sitesOfRing(name: string): readonly string[] | undefined {
    const { rings } = this.#options;
    const members = Object.hasOwn(rings, name) ? rings[name] : undefined;
    if (members === undefined) return undefined;
    const sites = this.#options.sites();
    const found = assignRings(this.published?.version ?? 0, [members], sites);
    return sites.filter((site) => found.has(site));
  }

  /**
   * Returns how far a site has come in installing the published release, or `undefined` if no
   * release has been published.
   */
  progressOf(site: string): SiteProgress | undefined {
    const { published } = this;
    if (published === undefined) return undefined;
    const report = this.#reports.get(site);
    if ((report?.version ?? 0) >= published.version) return 'current';
    if (report?.failed?.version === published.version) return 'refused';
    return this.wantedBy(site) === undefined ? 'waiting' : 'behind';
  }

  /**
   * Deletes all but the latest {@link keptReleases} releases, and returns the remaining releases.
   */
  async prune(): Promise<readonly Release[]> {
    const all = this.list();
    const old = all.slice(keptReleases);
    await this.#options.rows.write(
      old.map(({ version }) => ({ op: 'delete', key: releaseKey(version) })),
    );
    for (const { version } of old) this.#forget(version);
    return all.slice(0, keptReleases);
  }

  /** Returns the releases in the store. They may be more recent than those in memory. */
  async stored(): Promise<readonly Release[]> {
    const found: Release[] = [];
    for await (const entry of this.#options.rows.list(releasePrefix)) {
      found.push(releaseRow.decode(entry));
    }
    return found;
  }

  /**
   * Returns whether a ring is complete. At least one of its sites must have installed the release,
   * and each connected site must have installed or refused it. A ring without sites is complete.
   */
  #isComplete(release: Release, members: readonly string[]): boolean {
    if (members.length === 0) return true;
    const isDone = (site: string): boolean =>
      (this.#reports.get(site)?.version ?? 0) >= release.version;
    const isMissing = (site: string): boolean =>
      !isDone(site) && !release.failed.includes(site) && this.#options.isConnected(site);
    return members.some(isDone) && !members.some(isMissing);
  }

  /** Returns, for each site, the index of the first ring that contains the site. */
  #ringsOf({ version, rings }: Release, sites: readonly string[]): ReadonlyMap<string, number> {
    const known = this.#assigned;
    if (known?.version === version && known.sites === sites) return known.rings;
    const places = rings.map((name) => this.#options.rings[name] ?? 100);
    const found = assignRings(version, places, sites);
    this.#assigned = { version, sites, rings: found };
    return found;
  }

  async #change(
    states: readonly Release['state'][],
    change: (release: Release) => Release,
  ): Promise<Release> {
    const { published } = this;
    if (published !== undefined && states.includes(published.state)) {
      const changed = change(published);
      await this.#write(changed);
      return changed;
    }
    const found = published === undefined ? 'no release has been published' : describe(published);
    throw new EdgeError(
      'ERR_RELEASE',
      `${found}; the operation requires the state ${states.join(' or ')}`,
    );
  }

  async #write(release: Release): Promise<void> {
    await this.#writeAll([release], []);
  }

  async #writeAll(releases: readonly Release[], more: readonly StateOperation[]): Promise<void> {
    const operations = releases.map((release): StateOperation => {
      const { version } = release;
      const ifRevision = this.#revisions.get(version) ?? 0;
      return { op: 'put', key: releaseKey(version), value: releaseRow.encode(release), ifRevision };
    });
    const revision = await this.#options.rows.write([...operations, ...more]);
    // In a cluster, `follow` reports this change, and later changes in their order.
    if (this.#options.rows.cluster !== undefined) return;
    for (const release of releases) this.#set(release, revision);
  }

  /** Repeats `change` if another member of the cluster has changed the release first. */
  #repeat<T>(change: () => Promise<T>): Promise<T> {
    return retryConflicts(change, maxAttempts);
  }

  #set(release: Release, revision: number): void {
    this.#releases.set(release.version, release);
    this.#revisions.set(release.version, revision);
  }

  #forget(version: number): void {
    this.#releases.delete(version);
    this.#revisions.delete(version);
  }
}

function describe({ version, state }: Release): string {
  return `release ${version} is ${state}`;
}

/**
 * Assigns sites to rings. A ring lists its sites, or states a percentage of all sites. A percentage
 * selects at least one site, in an order that is different for each release.
 * @returns the index of the first ring that contains each site. A site in no ring is omitted
 */
export function assignRings(
  version: number,
  rings: readonly Rings[string][],
  sites: readonly string[],
): ReadonlyMap<string, number> {
  const digestOf = (site: string): string => hash('sha256', `${version} ${site}`);
  const ranked = sites
    .map((site) => ({ site, digest: digestOf(site) }))
    .sort((a, b) => (a.digest < b.digest ? -1 : 1));
  const found = new Map<string, number>();
  for (const [index, members] of rings.entries()) {
    const names =
      typeof members === 'number'
        ? ranked.slice(0, Math.ceil((ranked.length * members) / 100)).map(({ site }) => site)
        : members;
    for (const site of names) if (!found.has(site)) found.set(site, index);
  }
  return found;
}

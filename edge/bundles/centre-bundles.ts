/**
 * Bundles of a centre. Creates releases from the source, publishes them, and sends them to sites.
 */

import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { ExtensionHost } from '#master';
import { Mutex, sleepUntilAborted, TokenBuckets } from '#runtime';
import { isConflict } from '#store';
import { EdgeError } from '../errors.ts';
import { contactAgeOf, countKinds } from '../identity/contact-age.ts';
import { sharedSecret } from '../identity/shared-secret.ts';
import { edgeLimits } from '../limits.ts';
import type { LinkCaller } from '../link/link.ts';
import { progressFamily, type ReleaseProgress, releaseProgress } from '../metrics.ts';
import type { CentreContext, CentrePart, CentrePartContribution } from '../parts.ts';
import {
  type Have,
  maxEarlyUpdateBytes,
  metadataMessage,
  type PackReply,
  reportMessage,
  updateMessage,
  type WantedRelease,
  wantedMessage,
} from './bundle-messages.ts';
import { listKeyClaims, storeKeyClaims } from './key-claims.ts';
import { decodeManifest, encodeManifest, type Manifest } from './manifest.ts';
import { ObjectStore } from './object-store.ts';
import { PackCache, type Packs, type StoredManifest } from './pack-cache.ts';
import { totalBytes } from './pack-content.ts';
import { addPackRoutes } from './pack-routes.ts';
import { packSource } from './pack-source.ts';
import {
  type ProposedRelease,
  type ReleaseRequest,
  type ReleaseState,
  releaseMethods,
} from './release-methods.ts';
import { type Release, Releases } from './releases.ts';
import { SharedObjects } from './shared-objects.ts';
import type { ReleaseTarget } from './tuf-metadata.ts';
import { TufRepository } from './tuf-repository.ts';

/** Maximum time for which a site may read a release while other sites wait, in milliseconds. */
const turnMs = 600_000;

/** Interval at which the centre checks the age of the timestamp metadata, in milliseconds. */
const renewalCheckMs = 3_600_000;

/**
 * Interval at which a member of a cluster checks whether the next ring (group of sites) may install
 * the release, in milliseconds. These checks are necessary because the member that received the
 * last report of a site may have failed before its own check.
 */
const advanceMs = 5000;

/**
 * Maximum size of an update in the message that names the release to install, in bytes. A site
 * requests a larger update separately.
 */
const maxUpdateBytes = 49_152;

/**
 * Delay after which a site may ask again for a release, if too many other sites read releases now,
 * in seconds.
 */
const waitSeconds = 15;

/** Part of a centre that publishes releases. */
export const centreBundles: CentrePart = async (context) => {
  const bundles = await CentreBundles.open(context);
  return bundles.contribution();
};

class CentreBundles {
  readonly #context: CentreContext;
  readonly #host: ExtensionHost;
  readonly #objects: ObjectStore;
  /**
   * Store of file contents that all members of the cluster can read. `undefined` outside a cluster.
   */
  readonly #shared: SharedObjects | undefined;
  readonly #packs: PackCache;
  readonly #tuf: TufRepository;
  readonly #releases: Releases;
  /**
   * Time at which a site's permission to read a release ends, in milliseconds since 1970. The keys
   * are the names of the sites.
   */
  readonly #turns = new Map<string, number>();
  /** Updates that sites request, because each takes a millisecond of the main thread. */
  readonly #updates: TokenBuckets;
  /** Version of the release that the centre last named on each connection. */
  readonly #notified = new WeakMap<LinkCaller, number>();
  readonly #offers = new Mutex();
  /** For each connection, the metadata and the bundle that its site reported last. */
  readonly #haves = new WeakMap<LinkCaller, Have>();
  readonly #manifests = new Map<string, Promise<StoredManifest>>();
  /**
   * Serializes the tasks that add or delete file contents. Otherwise, one task could delete
   * contents that a new release uses.
   */
  readonly #contents = new Mutex();
  #renewal: NodeJS.Timeout | undefined;
  #advancing: NodeJS.Timeout | undefined;

  private constructor(context: CentreContext, releases: Releases, secret: Uint8Array) {
    const { host, directory } = context;
    this.#context = context;
    this.#host = host;
    this.#updates = new TokenBuckets(edgeLimits.releaseUpdates, host.now);
    this.#releases = releases;
    this.#shared = host.shared.cluster && new SharedObjects(host.shared);
    this.#objects = new ObjectStore(path.join(directory, 'objects'), this.#shared);
    this.#packs = new PackCache({
      directory: path.join(directory, 'packs'),
      objects: this.#objects,
      secret,
      manifests: () => this.#publishedManifests(),
    });
    this.#tuf = new TufRepository({ rows: host.shared, now: host.now });
  }

  static async open(context: CentreContext): Promise<CentreBundles> {
    const { host, options, links, sites } = context;
    let onChange = (_isDeleted: boolean): void => {};
    const releases = await Releases.open(
      {
        rows: host.shared,
        rings: options.rings,
        stopAtFailures: options.stopAtFailures,
        sites: () => sites.joined,
        isConnected: (site) => links.isConnected(site),
        now: host.now,
      },
      (isDeleted) => onChange(isDeleted),
    );
    sites.complete({
      sitesOfRing: (ring) => releases.sitesOfRing(ring),
      releaseOf: (site) => {
        const report = releases.reportOf(site);
        if (report === undefined) return undefined;
        const { version, at, failed } = report;
        return { version, at, failed, progress: releases.progressOf(site) };
      },
    });
    const bundles = new CentreBundles(context, releases, await packSecret(host));
    onChange = (isDeleted) => {
      bundles.#notifySites();
      if (isDeleted) void bundles.#forgetContents();
    };
    bundles.#handleMessages();
    links.onEnded(() => bundles.#advance());
    storeKeyClaims(context.ingest, context.claims);
    return bundles;
  }

  contribution(): CentrePartContribution {
    return {
      rpc: releaseMethods({
        onlineKeys: (areNew) => this.#tuf.onlineKeys(areNew),
        root: async () => {
          const root = await this.#tuf.root();
          return root === undefined ? null : Buffer.from(root).toString('base64');
        },
        setRoot: (root) => this.#tuf.setRoot(Buffer.from(root, 'base64')),
        propose: (request) => this.#propose(request),
        publish: (version, targets) => this.#publish(version, Buffer.from(targets, 'base64')),
        hold: async () => this.#describe(await this.#releases.hold()),
        resume: async () => {
          const release = await this.#releases.resume();
          this.#notifySites();
          return this.#describe(release);
        },
        claims: (query) => listKeyClaims(this.#host.shared, query),
        list: async () => this.#releases.list().map((it) => this.#describe(it)),
      }),
      addRoutes: (app) => addPackRoutes(app, this.#packs),
      trustRoot: () => this.#tuf.root(),
      metrics: () => [
        {
          name: 'saltbridge_sites_release_version',
          type: 'gauge',
          help: 'Version of the release that was published last. 0: none.',
          labels: [],
          samples: [{ labels: {}, value: this.#releases.published?.version ?? 0 }],
        },
        {
          name: 'saltbridge_sites_release_failures',
          type: 'gauge',
          help: 'Sites that refused the release that was published last.',
          labels: [],
          samples: [{ labels: {}, value: this.#releases.published?.failed.length ?? 0 }],
        },
        progressFamily(this.#progressCounts()),
      ],
      start: async () => {
        await this.#shareContents();
        await this.#renew();
        this.#renewal = setInterval(() => void this.#renew(), renewalCheckMs).unref();
        this.#advance();
        if (this.#shared === undefined) return;
        this.#advancing = setInterval(() => this.#advance(), advanceMs).unref();
      },
      close: async () => {
        clearInterval(this.#renewal);
        clearInterval(this.#advancing);
      },
    };
  }

  #handleMessages(): void {
    const { links } = this.#context;
    links.handle(metadataMessage, async ({ name }) => {
      const bytes = await this.#tuf.file(name);
      return bytes === undefined ? {} : { bytes };
    });
    links.handle(updateMessage, async ({ version, from, known }, { site }) => {
      const waitMs = this.#updates.take(site);
      if (waitMs > 0) await sleepUntilAborted(waitMs, this.#host.closing);
      const packs = await this.#packs.inlined(await this.#packsFor(from, version, site));
      if (!isWhole(packs) && !this.#takeTurn(site)) return { waitSeconds };
      const { body: metadata, known: used } = await this.#tuf.update(known);
      return { metadata, known: used, ...packs };
    });
    links.handle(reportMessage, async (report, { site, isEarly }) => {
      this.#turns.delete(site);
      const before = this.#releases.published;
      await this.#releases.report(site, report);
      const wanted = this.#releases.wantedBy(site);
      const caller = links.callerOf(site);
      const { have, offered } = report;
      // The connection of an early report is not the one that the centre has now.
      if (caller !== undefined && !isEarly) {
        if (have !== undefined) this.#haves.set(caller, have);
        if (wanted !== undefined) this.#notified.set(caller, wanted.version);
      }
      if (this.#releases.published !== before) this.#notifySites();
      if (wanted === undefined) return {};
      if (wanted.version === offered || !this.#updates.tryTake(site)) return { wanted };
      const maxBytes = isEarly ? maxEarlyUpdateBytes : maxUpdateBytes;
      return { wanted: await this.#offer(site, wanted, have, maxBytes) };
    });
  }

  /**
   * Adds the metadata and the packs of a release to `wanted`, the release that the site must
   * install. Returns `wanted` unchanged if the site has no bundle yet, or if the update is too
   * large, cannot be created, or must wait for the packs of other sites.
   * @param maxBytes - maximum size of the metadata and the packs together
   */
  async #offer(
    site: string,
    wanted: WantedRelease,
    have: Have | undefined,
    maxBytes: number,
  ): Promise<WantedRelease> {
    if (have?.from === undefined) return wanted;
    try {
      const found = await this.#packsFor(have.from, wanted.version, site, false);
      const packs = await this.#packs.inlined(found);
      if (!isWhole(packs) || !packs.isDelta) return wanted;
      const { body: metadata, known } = await this.#tuf.update(have.known);
      if (metadata.length + inlineBytes(packs) > maxBytes) return wanted;
      return { ...wanted, update: { metadata, known, ...packs } };
    } catch (err) {
      this.#host.logger.debug(
        { err },
        'cannot include the update in the message about a release; the site will request the update',
      );
      return wanted;
    }
  }

  /**
   * Permits a site to read a release for {@link turnMs}. Returns `false` if `parallelSites` other
   * sites have this permission now.
   */
  #takeTurn(site: string): boolean {
    const now = this.#host.now();
    for (const [other, endsAt] of this.#turns) {
      if (endsAt <= now || this.#context.links.callerOf(other) === undefined) {
        this.#turns.delete(other);
      }
    }
    const isTaken =
      !this.#turns.has(site) && this.#turns.size >= this.#context.options.parallelSites;
    if (!isTaken) this.#turns.set(site, now + turnMs);
    return !isTaken;
  }

  async #packsFor(
    from: Uint8Array | undefined,
    version: number,
    site: string,
    mayWait = true,
  ): Promise<Packs> {
    const releases = this.#releases.list();
    const target = releases.find((it) => it.version === version && it.state !== 'packed');
    if (target === undefined) {
      throw new EdgeError('ERR_RELEASE', `the centre has no release ${version}`);
    }
    const digest = from && Buffer.from(from).toString('hex');
    const former = releases.find(({ sha256 }) => sha256 === digest);
    return this.#packs.packsFor(
      former && (await this.#manifestOf(former)),
      await this.#manifestOf(target),
      site,
      mayWait,
    );
  }

  #manifestOf({ sha256 }: Pick<Release, 'sha256'>): Promise<StoredManifest> {
    const known = this.#manifests.get(sha256);
    if (known !== undefined) return known;
    const read = this.#readManifest(sha256);
    read.catch(() => this.#manifests.delete(sha256));
    this.#manifests.set(sha256, read);
    return read;
  }

  async #readManifest(sha256: string): Promise<StoredManifest> {
    const bytes = await readFile(await this.#objects.fileOf(sha256));
    return { sha256, bytes, manifest: decodeManifest(bytes) };
  }

  async #publishedManifests(): Promise<readonly StoredManifest[]> {
    const published = this.#releases.list().filter(({ state }) => state !== 'packed');
    return Promise.all(published.map((it) => this.#manifestOf(it)));
  }

  #propose(request: ReleaseRequest): Promise<ProposedRelease> {
    return this.#contents.run(() => this.#proposeNow(request));
  }

  async #proposeNow({ contentOf, above = 0 }: ReleaseRequest): Promise<ProposedRelease> {
    const { centre, keys } = await this.#tuf.requireRoot();
    const { requireVersion: requires, validOfflineSeconds } = this.#context.options;
    const { files, warnings } =
      contentOf === undefined ? await this.#packSource() : await this.#formerContent(contentOf);
    const version = Math.max(this.#releases.nextVersion, above + 1);
    const manifest: Manifest = {
      format: 1,
      centre,
      version,
      createdAt: this.#host.now(),
      validOfflineSeconds,
      ...(requires === undefined ? {} : { requires }),
      files,
    };
    const stored = await this.#objects.put(encodeManifest(manifest));
    const release = { version, ...stored, ...(contentOf === undefined ? {} : { contentOf }) };
    await this.#releases.add(release);
    await this.#share(this.#releases.require(version));
    const targets = await this.#tuf.proposeTargets(
      this.#targetsOf(this.#releases.require(version)),
    );
    return {
      version,
      files: files.length,
      bytes: totalBytes(files),
      warnings: [...warnings, ...this.#warnOfLaterVersions(version)],
      targets: Buffer.from(targets).toString('base64'),
      keys: keys.targets,
    };
  }

  /**
   * Returns a warning if sites use a version that this centre has not released, because the centre
   * was restored from a backup. Such sites refuse the current release, because its version is not
   * higher than theirs.
   */
  #warnOfLaterVersions(version: number): readonly string[] {
    const used = this.#context.sites.joined.map((site) => {
      return { site, version: this.#releases.reportOf(site)?.version ?? 0 };
    });
    const [latest] = used.toSorted((a, b) => b.version - a.version);
    if (latest === undefined || latest.version < version) return [];
    const problem = `the site ${latest.site} uses version ${latest.version}, which is not lower than version ${version}`;
    return [`${problem}, and ignores this release; repeat with --above ${latest.version}`];
  }

  async #packSource(): Promise<Pick<Manifest, 'files'> & { warnings: readonly string[] }> {
    const { source } = this.#context.options;
    if (source !== undefined) return packSource(source, this.#objects);
    const problem = 'this master has no source of releases; set saltbridge: sites: source';
    throw new EdgeError('ERR_RELEASE', problem);
  }

  async #formerContent(
    version: number,
  ): Promise<Pick<Manifest, 'files'> & { warnings: readonly string[] }> {
    const { manifest } = await this.#manifestOf(this.#releases.require(version));
    return { files: manifest.files, warnings: [] };
  }

  /**
   * Returns the TUF targets that the centre publishes with a release: one for each ring (group of
   * sites) of this release. The list also contains the targets of the latest release that all rings
   * have installed, because sites of later rings still install that release.
   */
  #targetsOf(release: Release): readonly ReleaseTarget[] {
    const { proven } = this.#releases;
    const named = [release, ...(proven === undefined ? [] : [proven])];
    return named.flatMap(({ rings, version, length, sha256 }) =>
      rings.map((ring) => ({ ring, version, length, sha256 })),
    );
  }

  async #publish(version: number, signed: Uint8Array): Promise<ReleaseState> {
    const release = this.#releases.require(version);
    if (release.state !== 'packed') {
      throw new EdgeError('ERR_RELEASE', `release ${version} was already published`);
    }
    const given = await this.#tuf.requireTargets(signed);
    const expected = this.#targetsOf(release);
    const isSame =
      given.length === expected.length &&
      expected.every((one) =>
        given.some(
          (it) =>
            it.ring === one.ring &&
            it.version === one.version &&
            it.sha256 === one.sha256 &&
            it.length === one.length,
        ),
      );
    if (!isSame) {
      throw new EdgeError(
        'ERR_RELEASE',
        'the targets in the signed metadata differ from the targets of the release',
      );
    }
    try {
      await this.#contents.run(() => this.#share(release));
      await this.#releases.publish(version, await this.#tuf.publish(signed));
    } catch (error) {
      // Other metadata were written meanwhile. If they were only signed again, the targets remain
      // valid. Otherwise the repeated checks refuse them.
      if (isConflict(error)) return this.#publish(version, signed);
      throw error;
    }
    this.#notifySites();
    await this.#collectGarbage();
    return this.#describe(this.#releases.require(version));
  }

  /**
   * Copies the files of a release to the store of the cluster, so that the release survives the
   * loss of this member. Does nothing outside a cluster.
   * @throws EdgeError ERR_RELEASE if the content of a file is missing both at this member and in
   * the store
   */
  async #share(release: Pick<Release, 'sha256'>): Promise<void> {
    if (this.#shared === undefined) return;
    const { manifest } = await this.#manifestOf(release);
    const digests = new Set([release.sha256, ...manifest.files.map(({ sha256 }) => sha256)]);
    await this.#shared.addAll(digests, (sha256) => this.#objects.fileOf(sha256));
  }

  /**
   * Copies the files of all releases to the store of the cluster. Releases from the time before
   * this master became a member are then available to all members.
   */
  async #shareContents(): Promise<void> {
    for (const release of this.#releases.list()) {
      const { version } = release;
      await this.#contents
        .run(() => this.#share(release))
        .catch((err: unknown) =>
          this.#host.logger.error(
            { err, version },
            'cannot copy the files of a release to the store of the cluster',
          ),
        );
    }
  }

  /** Deletes old releases, and the file contents that no remaining release uses. */
  async #collectGarbage(): Promise<void> {
    await this.#releases.prune();
    try {
      await this.#contents.run(() => this.#deleteContents());
    } catch (err) {
      // Another member has added a release meanwhile, or has not stored its contents yet. The next
      // publication deletes the contents.
      this.#host.logger.info(
        { err },
        'cannot delete the files of old releases; retrying after the next release',
      );
    }
  }

  async #deleteContents(): Promise<void> {
    const revision = (await this.#shared?.revision()) ?? 0;
    const digests = await this.#usedContents();
    await this.#objects.keepOnly(digests);
    await this.#shared?.keepOnly(digests, revision);
  }

  /**
   * Deletes from the disk of this member the file contents that no release uses. The member calls
   * this method when another member has deleted a release.
   */
  async #forgetContents(): Promise<void> {
    try {
      await this.#contents.run(async () => this.#objects.keepOnly(await this.#usedContents()));
    } catch (err) {
      this.#host.logger.info(
        { err },
        'cannot delete the files of old releases; retrying after the next release',
      );
    }
  }

  /** Returns the digests of the manifests and files of all releases in the store. */
  async #usedContents(): Promise<ReadonlySet<string>> {
    const digests = new Set<string>();
    for (const release of await this.#releases.stored()) {
      digests.add(release.sha256);
      const { manifest } = await this.#manifestOf(release);
      for (const { sha256 } of manifest.files) digests.add(sha256);
    }
    for (const sha256 of this.#manifests.keys()) {
      if (!digests.has(sha256)) this.#manifests.delete(sha256);
    }
    return digests;
  }

  /**
   * Lets the next ring (group of sites) install the release, if the sites of the present ring have
   * installed it.
   */
  #advance(): void {
    this.#releases.advance().catch((err: unknown) => {
      if (this.#host.closing.aborted) return;
      this.#host.logger.warn(
        { err },
        'cannot offer the release to the next ring (group of sites); retrying',
      );
    });
  }

  /**
   * Notifies each connected site of the release that it must install. Skips sites that were already
   * notified of this release.
   */
  #notifySites(): void {
    const { sites, links } = this.#context;
    for (const site of sites.joined) {
      const caller = links.callerOf(site);
      if (caller === undefined) continue;
      const wanted = this.#releases.wantedBy(site);
      if (wanted === undefined || this.#notified.get(caller) === wanted.version) continue;
      this.#notified.set(caller, wanted.version);
      void this.#notify(site, caller, wanted);
    }
  }

  async #notify(site: string, caller: LinkCaller, wanted: WantedRelease): Promise<void> {
    try {
      // One at a time, because each offer contains the packs.
      const offer = await this.#offers.run(() =>
        this.#offer(site, wanted, this.#haves.get(caller), maxUpdateBytes),
      );
      await caller.call(wantedMessage, offer, this.#host.closing);
    } catch (err) {
      this.#notified.delete(caller);
      this.#host.logger.debug({ site, err }, 'cannot notify a site of a release');
    }
  }

  async #renew(): Promise<void> {
    try {
      if (this.#host.shared.cluster?.isHeld === false) return;
      if (await this.#tuf.renew())
        this.#host.logger.info('signed the timestamp metadata (TUF) of the releases again');
    } catch (err) {
      this.#host.logger.error(
        { err },
        'cannot sign the timestamp metadata (TUF) of the releases again',
      );
    }
  }

  /** Counts the joined sites by their progress with the published release. */
  #progressCounts(): Readonly<Record<string, number>> {
    const { sites } = this.#context;
    const now = this.#host.now();
    const found = sites.joined.flatMap((site): readonly ReleaseProgress[] => {
      const progress = this.#releases.progressOf(site);
      if (progress === undefined) return [];
      const isAway = contactAgeOf(sites.lastContactAt(site), now) !== 'recent';
      return [progress === 'behind' && isAway ? 'away' : progress];
    });
    return countKinds(releaseProgress, found);
  }

  #describe({ version, state, rings, ring, createdAt, failed }: Release): ReleaseState {
    const installed = this.#releases.countUsing(version);
    return {
      version,
      state,
      rings,
      ring: rings[ring] ?? '',
      createdAt,
      installed,
      failed: failed.map((site) => {
        const { code = '', message = '' } = this.#releases.reportOf(site)?.failed ?? {};
        return { site, code, message };
      }),
    };
  }
}

/** Returns the total size of the packs whose bytes are in the reply itself, in bytes. */
function inlineBytes({ manifest, files }: PackReply): number {
  return [manifest, files].reduce(
    (sum, pack) => sum + (pack !== undefined && 'bytes' in pack ? pack.bytes.length : 0),
    0,
  );
}

/**
 * Returns whether a reply contains the bytes of all packs, so that the site need not read parts.
 */
function isWhole({ manifest, files }: PackReply): boolean {
  return 'bytes' in manifest && (files === undefined || 'bytes' in files);
}

/**
 * Returns the secret from which the ids of packs (compressed files for sites) are derived. The
 * first call creates the secret.
 */
function packSecret({ shared }: ExtensionHost): Promise<Uint8Array> {
  return sharedSecret(shared, ['bundle', 'pack-secret'], () => randomBytes(32));
}

/**
 * Bundles of a site. The centre names the release that the site must install. The site reads,
 * verifies and checks the release, and then uses it. If a release fails its check, the site does
 * not try this release again.
 */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { defineService, type ExtensionHost, type ServiceKey, version } from '#master';
import { codeOf, errorMessage, readTextIfPresent, retryDelayMs, sleepUntilAborted } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { EarlyRequest } from '../link/link.ts';
import type { EdgePart, SiteContext, SitePart } from '../parts.ts';
import { siteSecrets } from '../secrets/site-secrets.ts';
import {
  BundleDirectory,
  type BundleFailure,
  type InstalledBundle,
  type RecoveredSwitch,
  readContent,
  versionsPerGeneration,
} from './bundle-directory.ts';
import { findPillarProblem, healthySample } from './bundle-health.ts';
import { BundleKeys } from './bundle-keys.ts';
import {
  type BundleReport,
  type Have,
  metadataMessage,
  type PackReply,
  reportMessage,
  type UpdateReply,
  updateMessage,
  type WantedRelease,
  wantedMessage,
} from './bundle-messages.ts';
import { PackFetcher } from './fetch-pack.ts';
import { type Manifest, shareManifest } from './manifest.ts';
import { decodeMetadata } from './metadata-body.ts';
import { dictionaryFiles } from './pack-content.ts';
import type { SiteProgram } from './site-program.ts';
import { type KnownMetadata, TufClient, type VerifiedTarget } from './tuf-client.ts';
import { catalogDigest } from './with-bundle.ts';

/**
 * Mean delay before the site repeats a request that was lost although the connection is still open,
 * in milliseconds.
 */
const lostRetryMs = 2000;

/** Delays before a release is tried again after a temporary failure, in milliseconds. */
const retryDelays = { initialDelayMs: 5000, maxDelayMs: 600_000 };

/** Access to the bundle in use, for other parts of the site. */
export interface BundleInUse {
  /** Returns the bundle in use, or `undefined` if the site has none. */
  current(): InstalledBundle | undefined;
  /** Returns the text of a file of the bundle in use, or `undefined` if it does not exist. */
  readText(inner: string): Promise<string | undefined>;
  /** Calls the listener each time the site has switched to another bundle. */
  onChange(listener: () => void): void;
  /**
   * Returns the root metadata that the site trusts, or `undefined` if it has none.
   * @param options.isUpdated - whether the site first reads newer root metadata from the centre
   */
  trustedRoot(options: { readonly isUpdated: boolean }): Promise<Uint8Array | undefined>;
}

/** Service that {@link siteBundles} provides. */
export const bundleInUse: ServiceKey<BundleInUse> = defineService('site-bundle');

/**
 * Error codes after which a retry of the same release would fail too. The site then waits for
 * another release.
 */
const finalCodes: ReadonlySet<string> = new Set([
  'ERR_BUNDLE_CHECK',
  'ERR_BUNDLE_PATH',
  'ERR_BUNDLE_VERSION',
]);

/** Release that the centre has asked the site to install, with details of that message. */
interface NamedRelease extends WantedRelease {
  /**
   * Metadata and bundle that the site had when it sent its last report. The site needs them to
   * decompress the update that the centre has sent. `undefined` if the report did not contain them.
   */
  readonly have: Have | undefined;
  /**
   * Whether the centre has named the release in reply to a report of the site. The site requests
   * its secrets with each report. In this case, it need not request them again before it installs
   * the release.
   */
  readonly isReply: boolean;
}

const noMetadata: KnownMetadata = { versions: [], files: [] };

/** Creates the part of a site that installs bundles. */
export function siteBundles(program: SiteProgram): SitePart {
  return async (context) => {
    const bundles = new SiteBundles(context, program);
    return bundles.open();
  };
}

class SiteBundles implements BundleInUse {
  readonly #context: SiteContext;
  readonly #host: ExtensionHost;
  readonly #program: SiteProgram;
  readonly #bundles: BundleDirectory;
  readonly #packs: PackFetcher;
  readonly #tuf: TufClient;
  readonly #keys: BundleKeys;
  readonly #listeners: (() => void)[] = [];
  #current: InstalledBundle | undefined;
  #wanted: NamedRelease | undefined;
  /**
   * Resolves when the centre has replied to the report in the first message of the handshake. The
   * value is the version of the release whose files the reply contains. It is `undefined` if the
   * reply contains no files or did not arrive. Never rejects.
   */
  #early: Promise<number | undefined> | undefined;
  /** Metadata and bundle that the site stated in its last report over the present connection. */
  #reported: Have | undefined;
  #working: Promise<void> | undefined;
  #lastFailure: BundleFailure | undefined;
  #isLeaving = false;
  /**
   * Whether the next request must ask for data that is compressed without a dictionary. Usually,
   * files that the site already has are the dictionary. After ERR_BUNDLE_CONTENT, these files may
   * be damaged.
   */
  #needsWhole = false;

  constructor(context: SiteContext, program: SiteProgram) {
    const { host, directory, link } = context;
    this.#context = context;
    this.#host = host;
    this.#program = program;
    this.#bundles = new BundleDirectory(directory);
    this.#packs = new PackFetcher(path.join(directory, 'parts'), link);
    this.#keys = new BundleKeys(host);
    this.#tuf = new TufClient({
      rows: host.state,
      directory,
      joinedRoot: async () => context.identity()?.root,
      trustEpoch: () => context.identity()?.rehomed?.issuedAt ?? 0,
      fetch: async (name) => (await link.call(metadataMessage, { name }, host.closing)).bytes,
      now: () => Math.max(host.now(), context.timeFloor()),
    });
  }

  async open(): Promise<EdgePart> {
    const recovered = await this.#bundles.recover();
    this.#current = await this.#findCurrent();
    this.#lastFailure = await this.#bundles.failure();
    const { link, log } = this.#context;
    link.handle(wantedMessage, async (wanted) => {
      this.#want({ ...wanted, have: this.#reported, isReply: false });
      return {};
    });
    link.sendEarly(() => this.#earlyReport());
    link.onChange(({ isConnected }) => {
      this.#reported = undefined;
      if (isConnected) this.#report();
    });
    this.#host.provide(bundleInUse, this);
    const stopClaims = this.#keys.reportClaims(log);
    this.#context.onAnnounce(() => this.#keys.announce(log));
    return {
      start: () => this.#start(recovered),
      close: async () => {
        stopClaims();
        this.#isLeaving = true;
        await this.#working;
      },
      metrics: () => [
        {
          name: 'saltbridge_site_bundle_version',
          type: 'gauge',
          help: 'Version of the bundle in use. 0: none.',
          labels: [],
          samples: [{ labels: {}, value: this.#current?.manifest.version ?? 0 }],
        },
      ],
    };
  }

  current(): InstalledBundle | undefined {
    return this.#current;
  }

  readText(inner: string): Promise<string | undefined> {
    return readTextIfPresent(path.join(this.#context.directory, 'current', inner));
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  trustedRoot({ isUpdated }: { isUpdated: boolean }): Promise<Uint8Array | undefined> {
    return isUpdated ? this.#tuf.updateRoot() : this.#tuf.trustedRoot();
  }

  /**
   * Returns the bundle in use, or `undefined` if its manifest is damaged. The site then installs
   * this bundle again when the centre names its release.
   */
  async #findCurrent(): Promise<InstalledBundle | undefined> {
    try {
      return await this.#bundles.find(await this.#bundles.currentVersion());
    } catch (err) {
      this.#host.logger.error(
        { err },
        'the manifest of the installed release is damaged; the site installs the release again',
      );
      return undefined;
    }
  }

  async #start(recovered: RecoveredSwitch): Promise<void> {
    if (recovered.kind === 'reverted') return this.#restart();
    if (this.#current !== undefined) {
      await this.#keys.apply(this.#bundles.pathOf(this.#current.version));
    }
    if (recovered.kind !== 'pending') return;
    const { to, minions } = recovered.pending;
    const problem = await findPillarProblem(this.#host, minions);
    if (problem === undefined) return this.#bundles.commit();
    await this.#bundles.revert(this.#failed(to, new EdgeError('ERR_BUNDLE_CHECK', problem)));
    this.#restart();
  }

  /**
   * Restarts the master in the background. Does not return a promise: the restart closes this part,
   * so this part must not wait for the restart.
   */
  #restart(): void {
    this.#isLeaving = true;
    this.#program.restart().catch((err: unknown) => {
      this.#host.logger.fatal({ err }, 'cannot restart the master with another bundle');
    });
  }

  /**
   * Reports the version of the bundle in use to the centre. If the site must install another
   * release, the reply names it.
   */
  #report(): void {
    this.#sendReport().catch((err: unknown) =>
      this.#host.logger.info({ err }, 'cannot report the release in use to the centre'),
    );
  }

  async #sendReport(): Promise<void> {
    const report = await this.#state();
    const { have } = report;
    const offered = await this.#early;
    this.#early = undefined;
    this.#reported = have;
    const { wanted } = await this.#context.link.call(
      reportMessage,
      { ...report, ...(offered === undefined ? {} : { offered }) },
      this.#host.closing,
    );
    if (wanted !== undefined) this.#want({ ...wanted, have, isReply: true });
  }

  /**
   * Returns the site's report about its bundle, as a request that the site sends with the first
   * message of a handshake.
   */
  async #earlyReport(): Promise<EarlyRequest> {
    const report = await this.#state();
    const { have } = report;
    return {
      name: reportMessage.name,
      params: report,
      onUsed: (reply) => {
        this.#early = reply(reportMessage).then(
          ({ wanted }) => {
            if (wanted !== undefined) this.#want({ ...wanted, have, isReply: true });
            return wanted?.update === undefined ? undefined : wanted.version;
          },
          // The report that follows has the same reply.
          () => undefined,
        );
      },
    };
  }

  /** Returns a report about the present bundle of this site. */
  async #state(): Promise<BundleReport> {
    const failure = this.#lastFailure;
    const failed = this.#ofCentre(failure?.version ?? 0);
    const have = await this.#have();
    return {
      version: this.#ofCentre(this.#current?.version ?? 0) ?? 0,
      saltbridge: version,
      ...(failure && failed ? { failed: { ...failure, version: failed } } : {}),
      ...(have === undefined ? {} : { have }),
    };
  }

  /** Returns the metadata and the bundle of this site, or `undefined` if they may be damaged. */
  async #have(): Promise<Have | undefined> {
    if (this.#needsWhole) return undefined;
    try {
      const { versions } = await this.#tuf.known();
      const former = this.#current;
      const from = former === undefined ? {} : { from: Buffer.from(former.sha256, 'hex') };
      return { known: [...versions], ...from };
    } catch {
      // The site requests the update with all checks.
      return undefined;
    }
  }

  /**
   * Number that this site adds to the centre's version of a bundle. Bundles of the present centre
   * therefore have higher versions than those of former centres. See {@link versionsPerGeneration}.
   */
  get #base(): number {
    return (this.#context.identity()?.generation ?? 0) * versionsPerGeneration;
  }

  /**
   * Returns the version that the centre has given to a bundle, or `undefined` if the bundle is from
   * a former centre.
   */
  #ofCentre(installed: number): number | undefined {
    return installed > this.#base ? installed - this.#base : undefined;
  }

  #want(wanted: NamedRelease): void {
    const used = this.#ofCentre(this.#current?.version ?? 0) ?? 0;
    if (wanted.version < used) {
      this.#refuseOlder(wanted.version, used);
      return;
    }
    this.#wanted = wanted;
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  #refuseOlder(older: number, used: number): void {
    const installed = this.#base + older;
    if (this.#lastFailure?.version === installed) return;
    const problem = `the centre offers version ${older}, but this site already uses the later version ${used}`;
    this.#failed(installed, new EdgeError('ERR_BUNDLE_OLD', problem));
    this.#report();
  }

  /**
   * Tries to install the wanted release until the site uses it or has no connection. If a request
   * is lost but the connection stays open, tries again after about two seconds. The site must
   * repeat attempts itself, because the centre announces the release only once on a connection.
   */
  async #work(): Promise<void> {
    for (let attempt = 0; !this.#isLeaving; attempt++) {
      const base = this.#base;
      const wanted = this.#wanted;
      if (wanted === undefined || (await this.#isDone(wanted))) return;
      try {
        await this.#install(wanted);
        attempt = 0;
      } catch (error) {
        const { logger } = this.#host;
        if (codeOf(error) === 'ERR_SITE_LINK') {
          logger.info(
            { err: error, version: wanted.version },
            'cannot download a release from the centre; the site tries again',
          );
          if (!this.#context.link.state.isConnected) return;
          attempt = 0;
          await sleepUntilAborted(lostRetryMs * (0.5 + Math.random()), this.#host.closing);
          continue;
        }
        const failure = this.#failed(base + wanted.version, error);
        logger.error(
          { err: error, version: wanted.version },
          'cannot install a release of the centre',
        );
        this.#needsWhole = failure.code === 'ERR_BUNDLE_CONTENT' && !this.#needsWhole;
        if (finalCodes.has(failure.code)) await this.#bundles.fail(failure);
        this.#report();
        if (!finalCodes.has(failure.code)) await this.#pause(attempt);
      }
    }
  }

  async #isDone({ version: ofCentre }: NamedRelease): Promise<boolean> {
    const wanted = this.#base + ofCentre;
    if (wanted <= (this.#current?.version ?? 0)) return true;
    const refused = await this.#bundles.failure();
    return refused?.version === wanted && finalCodes.has(refused.code);
  }

  async #pause(attempt: number): Promise<void> {
    const milliseconds = retryDelayMs(attempt + 1, retryDelays, Math.random);
    await sleepUntilAborted(milliseconds, this.#host.closing);
  }

  #failed(failedVersion: number, error: unknown): BundleFailure {
    const text = errorMessage(error);
    const code = error instanceof EdgeError ? error.code : 'ERR_BUNDLE_CHECK';
    this.#lastFailure = { version: failedVersion, code, message: text };
    return this.#lastFailure;
  }

  async #install(wanted: NamedRelease): Promise<void> {
    const secrets = this.#host.use(siteSecrets);
    // The pillar of the new release may need secrets that the site does not have yet.
    const reading = wanted.isReply ? undefined : secrets.refresh();
    reading?.catch(() => {
      // The error is thrown below.
    });
    const former = this.#current;
    const base = this.#base;
    const from = this.#needsWhole ? undefined : former;
    const known = this.#needsWhole ? noMetadata : await this.#tuf.known();
    const update =
      this.#updateIn(wanted, known.versions, from) ??
      (await this.#askForUpdate(wanted, known.versions, from));
    const given = decodeMetadata(
      update.metadata,
      Buffer.concat(known.files.slice(0, update.known)),
    );
    const target = await this.#tuf.target(wanted.ring, wanted.version, given);
    if (base !== this.#base) {
      throw new EdgeError('ERR_SITE_LINK', 'the site has moved to another centre in the meantime');
    }
    const number = base + wanted.version;
    const installed = await this.#bundles.find(number);
    const bundle =
      installed?.sha256 === target.sha256
        ? installed
        : await this.#fetch(number, target, update, from);
    this.#needsWhole = false;
    requireVersion(bundle.manifest);
    const [problem] = await this.#program.check(this.#bundles.pathOf(bundle.version));
    if (problem !== undefined) throw new EdgeError('ERR_BUNDLE_CHECK', problem);
    await (reading ?? secrets.refresh(bundle.manifest.createdAt));
    await this.#use(bundle, former);
  }

  async #fetch(
    number: number,
    target: VerifiedTarget,
    reply: PackReply,
    former: InstalledBundle | undefined,
  ): Promise<InstalledBundle> {
    const from = reply.isDelta ? former : undefined;
    const { closing } = this.#host;
    await this.#packs.keepOnly([reply.manifest, ...(reply.files ? [reply.files] : [])]);
    await this.#packs.fetch(reply.manifest, closing);
    const content = await readContent(
      this.#packs.content(reply.manifest, from?.manifestBytes ?? Buffer.alloc(0)),
      target,
    );
    const { manifestBytes, manifest } = shareManifest(target.sha256, content);
    requireManifestOf(manifest, target);
    const { files } = reply;
    if (files !== undefined) await this.#packs.fetch(files, closing);
    const dictionary = await this.#dictionary(from, manifest);
    await this.#bundles.install({
      version: number,
      manifestBytes,
      manifest,
      from,
      contents: () => {
        if (files !== undefined) return this.#packs.content(files, dictionary);
        throw new EdgeError(
          'ERR_BUNDLE_CONTENT',
          'the new bundle contains files that the former bundle lacks, but the centre offers no pack',
        );
      },
    });
    await this.#packs.keepOnly([]);
    return { version: number, sha256: target.sha256, manifestBytes, manifest };
  }

  /**
   * Returns the update that the centre sent together with the name of the release. Returns
   * `undefined` if the centre sent no update. Also returns `undefined` if the site's metadata or
   * bundle has changed since the site last reported them to the centre.
   */
  #updateIn(
    { update, have }: NamedRelease,
    known: readonly number[],
    former: InstalledBundle | undefined,
  ): UpdateReply | undefined {
    if (update === undefined || have?.from === undefined || former === undefined) return undefined;
    const isSame =
      Buffer.from(have.from).toString('hex') === former.sha256 &&
      have.known.length === known.length &&
      have.known.every((each, index) => each === known[index]);
    return isSame ? update : undefined;
  }

  /**
   * Requests the metadata and the packs of a release. If the reply is `waitSeconds`, repeats the
   * request after this time.
   */
  async #askForUpdate(
    { version: wanted }: Pick<WantedRelease, 'version'>,
    known: readonly number[],
    former: InstalledBundle | undefined,
  ): Promise<UpdateReply> {
    const { closing } = this.#host;
    const from = former === undefined ? {} : { from: Buffer.from(former.sha256, 'hex') };
    for (;;) {
      const params = { version: wanted, known: [...known], ...from };
      const reply = await this.#context.link.call(updateMessage, params, closing);
      if (!('waitSeconds' in reply)) return reply;
      await sleepUntilAborted(reply.waitSeconds * 1000 * (0.5 + Math.random()), closing);
    }
  }

  async #dictionary(from: InstalledBundle | undefined, manifest: Manifest): Promise<Buffer> {
    const contents: Buffer[] = [];
    for (const file of dictionaryFiles(from?.manifest, manifest)) {
      contents.push(await readFile(path.join(this.#bundles.pathOf(from?.version ?? 0), file.path)));
    }
    return Buffer.concat(contents);
  }

  /**
   * Returns the paths and digests of a bundle's catalog files. If they change, the master must
   * restart, because it reads its catalog only when it starts.
   */
  async #catalogOf(bundle: InstalledBundle | undefined): Promise<string> {
    if (bundle === undefined) return '';
    return catalogDigest(this.#bundles.pathOf(bundle.version), bundle.manifest);
  }

  /**
   * Switches to a bundle, reloads or restarts the master, and checks the bundle. If the check
   * fails, the site uses its former bundle again.
   */
  async #use(bundle: InstalledBundle, former: InstalledBundle | undefined): Promise<void> {
    const { logger } = this.#host;
    const minions = await healthySample(this.#host);
    await this.#bundles.switchTo(bundle.version, minions);
    const catalogs = await Promise.all([former, bundle].map((it) => this.#catalogOf(it)));
    if (catalogs[0] !== catalogs[1]) return this.#restart();
    try {
      const { needRestart } = await this.#program.reload();
      if (needRestart.length > 0) return this.#restart();
      const problem = await findPillarProblem(this.#host, minions);
      if (problem !== undefined) throw new EdgeError('ERR_BUNDLE_CHECK', problem);
    } catch (error) {
      // If the master is closing, its next start continues the switch.
      if (this.#host.closing.aborted) return;
      await this.#bundles.revert(this.#failed(bundle.version, error));
      logger.error(
        { err: error, version: bundle.version },
        'a new release failed its checks; the site uses the former release again',
      );
      const { needRestart } = await this.#program.reload();
      if (needRestart.length > 0) return this.#restart();
      this.#report();
      return;
    }
    this.#current = bundle;
    await this.#keys.apply(this.#bundles.pathOf(bundle.version));
    await this.#bundles.commit();
    logger.info({ version: bundle.version }, 'bundle in use');
    for (const listener of this.#listeners) listener();
    this.#report();
  }
}

/**
 * Checks that this version of saltbridge can use the bundle.
 * @throws EdgeError ERR_BUNDLE_VERSION if the bundle requires a later version
 */
function requireVersion({ requires, version: bundle }: Manifest): void {
  if (requires === undefined || compareVersions(version, requires) >= 0) return;
  const problem = `version ${bundle} requires saltbridge ${requires}, but this is ${version}`;
  throw new EdgeError('ERR_BUNDLE_VERSION', problem);
}

function compareVersions(a: string, b: string): number {
  const [one, other] = [a, b].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  for (const [index, part] of (one ?? []).entries()) {
    const difference = part - (other?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Checks that a manifest has the centre and the version of the verified target.
 * @throws EdgeError ERR_BUNDLE_CENTRE if the centre differs, ERR_BUNDLE_CONTENT if the version
 * differs
 */
function requireManifestOf(manifest: Manifest, target: VerifiedTarget): void {
  if (manifest.centre !== target.centre) {
    throw new EdgeError('ERR_BUNDLE_CENTRE', 'the manifest belongs to another centre');
  }
  if (manifest.version !== target.version) {
    throw new EdgeError(
      'ERR_BUNDLE_CONTENT',
      'the manifest has a different version than its metadata',
    );
  }
}

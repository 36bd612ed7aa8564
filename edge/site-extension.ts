/** Extension `site`: a master that continues to work without its centre. */

import type { SiteOptions } from '#config';
import type { ExtensionHost, OpenExtension } from '#master';
import { RepeatedWarnings } from '#runtime';
import { siteBundles } from './bundles/site-bundles.ts';
import type { SiteProgram } from './bundles/site-program.ts';
import { combined, startAll } from './combined-parts.ts';
import { openInputsReport } from './facts/report-inputs.ts';
import { openSiteFacts } from './facts/site-facts.ts';
import { CentreTime } from './identity/centre-time.ts';
import { KeyRenewal } from './identity/key-renewal.ts';
import { type SiteIdentity, SiteIdentityFile, siteDirectory } from './identity/site-identity.ts';
import { SiteConnection } from './link/site-connection.ts';
import { DurableLog } from './log/durable-log.ts';
import { LogSender } from './log/log-sender.ts';
import { openSignalSource } from './log/site-signals.ts';
import { openSources } from './log/site-sources.ts';
import { siteFamilies } from './metrics.ts';
import { openSiteOrders } from './orders/site-orders.ts';
import type { EdgePart, SiteContext, SitePart } from './parts.ts';
import { openSiteRehoming } from './rehoming/site-rehoming.ts';
import { openSiteSecrets } from './secrets/site-secrets.ts';
import { siteStatusMethods } from './site-methods.ts';

/** Parts of a site, in the order in which they are opened. */
const parts = (program: SiteProgram): readonly SitePart[] => [
  openSources,
  openSignalSource,
  openSiteFacts,
  openInputsReport,
  openSiteSecrets,
  siteBundles(program),
  openSiteOrders,
  openSiteRehoming,
];

/** Opens the extension `site`. The site connects to its centre when the master has started. */
export async function openSite(
  host: ExtensionHost,
  options: SiteOptions,
  program: SiteProgram,
): Promise<OpenExtension> {
  const { state, now, logger, closing } = host;
  const directory = siteDirectory(host.config.stateDir);
  const file = new SiteIdentityFile(directory);
  let identity: SiteIdentity | undefined = await file.read();
  const time = await CentreTime.open(state, now);
  const link = new SiteConnection({
    options,
    readIdentity: async () => {
      identity = await file.read();
      return identity;
    },
    onCentreTime: async (ms) => {
      const former = time.floor;
      if (!(await time.note(ms))) return;
      logger.warn(
        { from: new Date(former).toISOString(), to: new Date(ms).toISOString() },
        'the clock of the centre was ahead and is correct now; this site refuses the orders that were issued before the correction',
      );
    },
    now,
    logger,
    closing,
  });
  const warnings = new RepeatedWarnings(logger, now);
  const log = await DurableLog.open({
    state,
    now,
    maxBytes: options.logBytes,
    onExcess: (minion) =>
      warnings.warn(
        'log share',
        { minion },
        'the log of this site is full, and a minion uses more than its part of it; its entries are dropped first; check why the minion sends so much',
      ),
  });
  const sender = new LogSender({
    log,
    link,
    uploadBytesPerSecond: options.uploadBytesPerSecond,
    onRefused: (name, refused) => {
      logger.warn(
        { class: name, refused },
        'the centre rejected log entries of this site; the field `refused` lists the entries and reasons',
      );
      for (const { sequence, reason } of refused) {
        // Reset the log's clock too, because the wall clock may have been corrected meanwhile.
        if (reason.startsWith('ERR_SITE_CLOCK')) log.clock.reset();
        host.fire('refused', { class: name, sequence, reason });
      }
    },
    logger,
    closing,
  });
  const renewal = new KeyRenewal({ file, link, identity: () => identity, now, logger });
  const announced: (() => Promise<void>)[] = [];
  const context: SiteContext = {
    host,
    options,
    directory,
    link,
    log,
    identity: () => identity,
    changeIdentity: async (change) => {
      identity = await file.change(change);
      return identity;
    },
    onAnnounce: (listener) => {
      announced.push(listener);
    },
    announce: async () => {
      for (const listener of announced) await listener();
    },
    timeFloor: () => time.floor,
    timeCorrectedAt: () => time.correctedAt,
  };
  const opened: EdgePart[] = [];
  for (const open of parts(program)) opened.push(await open(context));
  const own: EdgePart = {
    rpc: siteStatusMethods({ context, link, renewal }),
    metrics: () => siteFamilies(log, options.logBytes, link.state, now()),
  };
  return {
    ...combined([own, ...opened]),
    start: async () => {
      await startAll(opened);
      sender.start();
      link.start();
    },
    close: async () => {
      for (const part of opened.toReversed()) await part.close?.();
      await sender.close();
      await link.close();
    },
  };
}

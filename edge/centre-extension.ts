/** Extension `site-centre` of the master: the centre that sites connect to. */

import { sign } from 'node:crypto';
import type { SitesOptions } from '#config';
import { bridgeServices } from '#heat-bridge';
import { type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { KeyedMutex, TokenBuckets } from '#runtime';
import { centreBundles } from './bundles/centre-bundles.ts';
import { forgetKeyClaims } from './bundles/key-claims.ts';
import { combined, startAll } from './combined-parts.ts';
import { EdgeError } from './errors.ts';
import { CentreFacts } from './facts/centre-facts.ts';
import { CentreInputs } from './facts/centre-inputs.ts';
import { MinionClaims } from './facts/minion-claims.ts';
import { centreDirectory, openCentreKey } from './identity/centre-key.ts';
import { contactAgeOf, contactAges, countKinds } from './identity/contact-age.ts';
import { publicBytesOf } from './identity/ed25519.ts';
import { addJoinRoute } from './identity/join-route.ts';
import { isRenewalPermittedBy, renewKey, verifyRenewal } from './identity/renewal.ts';
import { siteMethods } from './identity/site-methods.ts';
import { SiteRegistry } from './identity/site-registry.ts';
import { edgeLimits } from './limits.ts';
import { CentreConnections } from './link/centre-connections.ts';
import { edgePath } from './link/edge-address.ts';
import { MemberConnections } from './link/member-connections.ts';
import { openEntries, sitesWithEntries } from './log/centre-entries.ts';
import { handleSignals } from './log/centre-signals.ts';
import { Ingest } from './log/ingest.ts';
import { centreFamilies } from './metrics.ts';
import { openCentreOrders } from './orders/open-centre-orders.ts';
import type { CentreContext, CentrePart, CentrePartContribution } from './parts.ts';
import { CentreRehoming } from './rehoming/centre-rehoming.ts';
import { addLeaveRoute } from './rehoming/leave-route.ts';
import { rehomingMethods } from './rehoming/rehoming-methods.ts';
import { openCentreSecrets } from './secrets/centre-secrets.ts';

/** Parts of a centre, in the order in which they are opened. */
const parts: readonly CentrePart[] = [
  openEntries,
  openCentreOrders,
  centreBundles,
  openCentreSecrets,
];

/**
 * Interval at which one member of the cluster deletes the data of sites that were revoked or have
 * left, in milliseconds. Such data are normally deleted at once. The periodic deletion is needed if
 * a member fails before it deletes them.
 */
const releaseMs = 60_000;

/** Reason in the signals of a site that was revoked or has left, before they were delivered. */
const goneReason = 'the site of the minion was revoked or has left this centre';

/** Opens the extension `site-centre`, which makes this master the centre of its sites. */
export async function openCentre(
  host: ExtensionHost,
  options: SitesOptions,
): Promise<OpenExtension> {
  const key = await openCentreKey(host);
  const sites = await SiteRegistry.open(host, key);
  const members = await MemberConnections.open(host.shared);
  const links = new CentreConnections({ key, sites, members, now: host.now, logger: host.logger });
  // Another member of the cluster may have revoked the site.
  sites.onChanged((name) => links.endUnless(name));
  const ingest = new Ingest({ host, options, links, sites });
  const renewals = new TokenBuckets(edgeLimits.keyRenewals);
  links.handle(renewKey, async (request, { site }) => {
    if (!renewals.tryTake(site)) {
      const problem = 'key not renewed: the site requests this too often; retry later';
      throw new EdgeError('ERR_SITE_LINK', problem);
    }
    await sites.requireKey(site, (key) => isRenewalPermittedBy(key, site, request));
    if (!verifyRenewal(site, request)) {
      throw new EdgeError(
        'ERR_SITE_MESSAGE',
        'key not renewed: the request is not signed with the new key',
      );
    }
    await sites.offerKey(site, request.key);
    return {};
  });
  const claims = await MinionClaims.open(host);
  const opened: CentrePartContribution[] = [];
  const forgetSite = async (name: string): Promise<void> => {
    // A batch that is being applied would claim minions again.
    await ingest.settle(name);
    for (const part of opened) await part.forget?.(name);
    await forgetKeyClaims(host.shared, name);
    await inputs.forget(name);
    const signals = host.find(bridgeServices.signals);
    await signals?.discard(new Set(claims.minionsOf(name)), goneReason);
    facts.forget(await claims.release(name));
  };
  const releases = new KeyedMutex();
  const release = (name: string): Promise<void> =>
    releases
      .run(name, () => sites.forgetEnded(name, () => forgetSite(name)))
      .catch((error: unknown) =>
        host.logger.error(
          { err: error },
          'cannot delete the data of a site that was revoked or has moved to another centre',
        ),
      );
  sites.onRevoked((name) => void release(name));
  const facts = await CentreFacts.open({ host, options, ingest, claims });
  const inputs = new CentreInputs({ host, ingest, joined: () => sites.joined });
  const releaseAll = async (names: Iterable<string>): Promise<void> => {
    const joined = new Set(sites.joined);
    for (const name of new Set(names)) {
      if (!joined.has(name) && !host.closing.aborted) await release(name);
    }
  };
  const releaseLeft = async (): Promise<void> => {
    await releaseAll([...claims.sites, ...(await sites.ended())]);
  };
  const releasing = setInterval(() => {
    // Another member may have died before it released them.
    if (host.shared.cluster?.isHeld !== true) return;
    releaseLeft().catch((err: unknown) =>
      host.logger.error({ err }, 'cannot read which sites were revoked or have left this centre'),
    );
  }, releaseMs).unref();
  const context: CentreContext = {
    claims,
    facts,
    host,
    options,
    directory: centreDirectory(host.config.stateDir),
    links,
    ingest,
    sites,
    publicKey: publicBytesOf(key),
    sign: (bytes) => sign(null, bytes, key),
  };
  handleSignals(context);
  host.provide(masterServices.sites, {
    joinedSites: () => sites.overview(),
    siteDetails: async (name) => {
      const site = await sites.find(name);
      return site && { ...site, minions: await facts.summaryOf(name) };
    },
  });
  for (const open of parts) opened.push(await open(context));
  // The process may have ended before it released them. An earlier version did not delete entries.
  await releaseAll([
    ...claims.sites,
    ...(await sites.ended()),
    ...(await sitesWithEntries(host.shared)),
  ]);
  const trustRoot = async (): Promise<Uint8Array | undefined> =>
    opened.find((it) => it.trustRoot !== undefined)?.trustRoot?.();
  const rehoming = await CentreRehoming.open({ ...context, trustRoot });
  sites.onArrived(({ name, from }) => {
    const what = `${name} from ${from?.centre}`;
    const who = { kind: 'service', name: `site ${name}` } as const;
    host.audit.append({ who, action: 'site.arrive', what, outcome: 'done' });
    host.fire('arrived', { site: name, from: from?.centre ?? '' });
  });
  const own: CentrePartContribution = {
    rpc: {
      ...siteMethods({ host, sites, facts, inputs, trustRoot, release }),
      ...rehomingMethods(rehoming),
    },
    metrics: () => {
      const now = host.now();
      const ages = sites.joined.map((name) => contactAgeOf(sites.lastContactAt(name), now));
      return centreFamilies({
        connected: links.size,
        contacts: countKinds(contactAges, ages),
        entries: ingest.figures,
        turns: ingest.turns,
      });
    },
  };
  const all = combined([own, ...opened]);
  return {
    ...all,
    routes: [
      {
        prefix: edgePath,
        methods: () => ({ site: all.rpc ?? {} }),
        register: (app, server) => {
          addJoinRoute(app, server, { host, key, sites, links, trustRoot });
          addLeaveRoute(app, { rehoming, links });
          for (const part of opened) part.addRoutes?.(app, server);
        },
        upgrade: (request, socket, head, path) => {
          if (path === '/link') links.upgrade(request, socket, head);
          else socket.destroy();
        },
      },
    ],
    start: () => startAll(opened),
    close: async () => {
      clearInterval(releasing);
      links.close();
      await ingest.close();
      for (const part of opened.toReversed()) await part.close?.();
    },
  };
}

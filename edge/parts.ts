/**
 * Interfaces of the parts of the extensions `site` and `site-centre`, for example bundles, orders
 * and facts. An extension opens the identity, the connection and the log, and then its parts. A
 * part can contribute RPC methods, metrics, files, pillar data and more to its extension.
 */

import type { FastifyInstance } from 'fastify';
import type { SiteOptions, SitesOptions } from '#config';
import type { ExtensionHost, HttpServerContext, OpenExtension } from '#master';
import type { CentreFacts } from './facts/centre-facts.ts';
import type { MinionClaims } from './facts/minion-claims.ts';
import type { SiteIdentity } from './identity/site-identity.ts';
import type { SiteRegistry } from './identity/site-registry.ts';
import type { CentreLinks, SiteLink } from './link/link.ts';
import type { LogIngest, SiteLog } from './log/log.ts';

/** Contributions of a part to the extension of a site or of a centre. */
export interface EdgePart
  extends Pick<
    OpenExtension,
    'close' | 'files' | 'intake' | 'metrics' | 'pillar' | 'returnRows' | 'rpc' | 'start'
  > {}

/** Objects that the extension `site` passes to each of its parts, such as bundles and orders. */
export interface SiteContext {
  readonly host: ExtensionHost;
  readonly options: SiteOptions;
  /** Directory of the files of this site: `<state_dir>/site`. */
  readonly directory: string;
  readonly link: SiteLink;
  readonly log: SiteLog;
  /** Returns the identity of this site, or `undefined` if it has not joined. */
  identity(): SiteIdentity | undefined;
  /**
   * Replaces the identity of this site by the result of a function.
   * @throws EdgeError ERR_SITE_NOT_JOINED if the site has not joined
   */
  changeIdentity(change: (identity: SiteIdentity) => SiteIdentity): Promise<SiteIdentity>;
  /**
   * Registers a function that appends the present state of this site to the log. The function is
   * called after the site has changed to another centre, because the new centre does not know
   * earlier log entries.
   */
  onAnnounce(listener: () => Promise<void>): void;
  /**
   * Appends the present state of this site to the log, with the functions that were registered with
   * {@link onAnnounce}.
   */
  announce(): Promise<void>;
  /**
   * Returns the latest time that the centre has signed, in milliseconds since 1970. The current
   * time cannot be earlier, unless the clock of the centre was ahead.
   */
  timeFloor(): number;
  /**
   * Returns the time of the centre at which the site last replaced a wrong {@link timeFloor} by an
   * earlier time, in milliseconds since 1970. 0 if it never has.
   */
  timeCorrectedAt(): number;
}

/** Opens a part of a site. Registers the handlers of the part's messages. */
export type SitePart = (context: SiteContext) => Promise<EdgePart> | EdgePart;

/** Functions that one part (module) adds to the extension of a centre. */
export interface CentrePartContribution extends EdgePart {
  /** Adds routes below `/site/v1`. */
  addRoutes?(app: FastifyInstance, server: HttpServerContext): void;
  /**
   * Returns the root metadata that a joining site must trust. Each ticket contains the SHA-256
   * digest of the root metadata. Only one part may have this method.
   */
  trustRoot?(): Promise<Uint8Array | undefined>;
  /**
   * Ends or deletes what this part stores for a site that was revoked or has left this centre. Must
   * have no further effect if it is called again.
   */
  forget?(site: string): Promise<void>;
}

/** Services of the extension `site-centre` for its parts. */
export interface CentreContext {
  readonly host: ExtensionHost;
  readonly options: SitesOptions;
  /** Directory of the files of this centre: `<state_dir>/sites`. */
  readonly directory: string;
  readonly links: CentreLinks;
  readonly ingest: LogIngest;
  /** Minion ids that the sites own. */
  readonly claims: MinionClaims;
  /** Facts of the minions of all sites, with their age. */
  readonly facts: CentreFacts;
  readonly sites: SiteRegistry;
  /** Signs bytes with the online key of the centre. Each ticket contains the public key. */
  readonly sign: (bytes: Uint8Array) => Uint8Array;
  /** Public online key of the centre: 32 bytes of Ed25519. */
  readonly publicKey: Uint8Array;
}

/** Opens a part of a centre. Registers the handlers of the part's messages and log entries. */
export type CentrePart = (
  context: CentreContext,
) => Promise<CentrePartContribution> | CentrePartContribution;

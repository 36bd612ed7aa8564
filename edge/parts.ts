/**
 * Parts of the edge. The extensions `site` and `site-centre` open the connection, the identity and
 * the log, and then their parts: bundles, orders and facts. A part contributes like an extension.
 */

import type { FastifyInstance } from 'fastify';
import type { SiteOptions, SitesOptions } from '#config';
import type { ExtensionHost, HttpServerContext, OpenExtension } from '#master';
import type { CentreFacts } from './facts/centre-facts.ts';
import type { SiteIdentity } from './identity/site-files.ts';
import type { SiteRegistry } from './identity/site-registry.ts';
import type { CentreLinks, SiteLink } from './link/link.ts';
import type { LogIngest, SiteLog } from './log/log.ts';

/** Contributions of a part to the extension of a site or of a centre. */
export interface EdgePart
  extends Pick<
    OpenExtension,
    'close' | 'files' | 'intake' | 'metrics' | 'pillar' | 'rpc' | 'start'
  > {}

/** Services of the extension `site` for its parts. */
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
   * Greatest time that the centre has ever signed, in milliseconds since 1970. The present is never
   * earlier.
   */
  timeFloor(): number;
}

/** Part of a site. Its handlers of messages are registered when it is opened. */
export type SitePart = (context: SiteContext) => Promise<EdgePart> | EdgePart;

/** Contributions of a part to the extension of a centre. */
export interface CentrePartContribution extends EdgePart {
  /** Adds routes below `/site/v1`. */
  addRoutes?(app: FastifyInstance, server: HttpServerContext): void;
  /**
   * Returns the root metadata that a joining site trusts. Its SHA-256 digest is part of tickets.
   * Only one part may return it.
   */
  trustRoot?(): Promise<Uint8Array | undefined>;
}

/** Services of the extension `site-centre` for its parts. */
export interface CentreContext {
  readonly host: ExtensionHost;
  readonly options: SitesOptions;
  /** Directory of the files of this centre: `<state_dir>/sites`. */
  readonly directory: string;
  readonly links: CentreLinks;
  readonly ingest: LogIngest;
  /** Facts of the minions of all sites, with their age. */
  readonly facts: CentreFacts;
  readonly sites: SiteRegistry;
  /** Signs with the online key of the centre, which tickets name. */
  readonly sign: (bytes: Uint8Array) => Uint8Array;
  /** Public online key of the centre: 32 bytes of Ed25519. */
  readonly publicKey: Uint8Array;
}

/** Part of a centre. Its handlers of messages and entries are registered when it is opened. */
export type CentrePart = (
  context: CentreContext,
) => Promise<CentrePartContribution> | CentrePartContribution;

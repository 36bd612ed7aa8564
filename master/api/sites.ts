/**
 * Sites that have joined a centre, for the status page. A centre is a master that configures other
 * masters, its sites, and receives their logs. A site also works while it cannot reach its centre.
 * The extension `site-centre` provides the service.
 */

/** Release of a site, as the site reported it last. */
export interface ReportedRelease {
  /** Version of the release that the site uses. 0 if it uses none. */
  readonly version: number;
  /** Time of the report, in milliseconds since 1970. */
  readonly at: number;
  /**
   * Progress of the site with the latest published release. `current`: the site uses it. `refused`:
   * the site has refused it. `behind`: the site must still install this or an earlier release.
   * `waiting`: the site may not install it yet. `undefined` if no release has been published.
   */
  readonly progress: string | undefined;
  /** Release that the site refused last. */
  readonly failed?:
    | { readonly version: number; readonly code: string; readonly message: string }
    | undefined;
}

/** Site that has joined the centre. */
export interface JoinedSite {
  readonly name: string;
  readonly isConnected: boolean;
  /** Time of the last message, in milliseconds since 1970. */
  readonly lastContactAt: number | undefined;
  /** Age of the last contact: `recent`, `hour`, `day`, `week`, `older` or `never`. */
  readonly contactAge: string;
  /** Version of saltbridge at the last connection. */
  readonly version: string | undefined;
  readonly release: ReportedRelease | undefined;
}

/** Complete state of a site, as the centre knows it. */
export interface SiteDetails extends Omit<JoinedSite, 'contactAge'> {
  /** State of the site: `invited`, `joined` or `revoked`. */
  readonly state: string;
  readonly joinedAt: number | undefined;
  readonly address: string | undefined;
  /**
   * Difference between the clocks of the site and the centre at the last connection, in
   * milliseconds. Positive if the site's clock is ahead.
   */
  readonly clockDifferenceMs: number | undefined;
  /**
   * Position up to which the centre has received the site's log, by class of entries. `ms` is the
   * time of the last received entry by the site's clock, in milliseconds since 1970.
   */
  readonly log: Readonly<
    Record<
      string,
      {
        readonly sequence: number;
        readonly ms: number;
        readonly dropped: number;
        readonly refused: number;
      }
    >
  >;
  /**
   * Numbers of connected and absent minions of the site. `oldestAt` and `latestAt` are the times of
   * the oldest and the latest report about these minions, in milliseconds since 1970.
   */
  readonly minions: {
    readonly present: number;
    readonly absent: number;
    readonly oldestAt: number | undefined;
    readonly latestAt: number | undefined;
  };
  /** Number of the centre's orders to the site that the site has not received yet. */
  readonly waitingOrders: number;
}

/** Sites of a centre. The methods do not check rights, so callers must check them. */
export interface SiteDirectory {
  /** Returns all joined sites, by name. */
  joinedSites(): readonly JoinedSite[];
  /** Returns a site, or `undefined` if it does not exist. */
  siteDetails(name: string): Promise<SiteDetails | undefined>;
}

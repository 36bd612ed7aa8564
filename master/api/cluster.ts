/** What a master tells of the cluster that it is a member of. */

/** A member as another one sees it. */
interface ClusterMember {
  readonly name: string;
  /** Position up to which it has applied the log. */
  readonly position: number;
  readonly isAlive: boolean;
  /** What it is configured with (`policy`, `catalog`), by digests: equal ones mean the same. */
  readonly versions?: Readonly<Record<string, string>>;
  /** How far its clock is ahead of this one's, milliseconds; `undefined`: not heard yet. */
  readonly clockSkewMs?: number | undefined;
}

/** How a cluster is doing, as one of its members sees it. */
export interface ClusterStatus {
  readonly name: string;
  /** The one that tells it. */
  readonly member: string;
  /** Identity of the log. */
  readonly log: string;
  /** Up to which this member has applied the log. */
  readonly position: number;
  /** Running hash over the log up to there: the same for members that hold the same. */
  readonly hash: string;
  readonly members: readonly ClusterMember[];
  /** Fewer members are alive than must keep a write. */
  readonly isAlone: boolean;
  /** Jobs, key changes and signals are refused with ERR_CLUSTER_ALONE meanwhile. */
  readonly refusesWrites: boolean;
  /** It has been cut off for so long (`stale_after`) that minions and tokens are refused as well. */
  readonly isStale: boolean;
  /** It takes no new jobs and calls, because it is to be restarted (`drain`). */
  readonly isDraining: boolean;
  /** How long the log has taken no write of this member, milliseconds. */
  readonly failingMs: number;
  /** Entries of the log that came again, and entries that no member made; none had an effect. */
  readonly repeatedEntries: number;
  readonly foreignEntries: number;
  /** What an operator should know of the servers of the log. */
  readonly warnings: readonly string[];
}

/** A ticket with which one master joins the cluster. */
interface ClusterTicket {
  readonly ticket: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/** What is left of a member that was drained. */
interface DrainedMember {
  /** Calls that had not ended in time. */
  readonly active: number;
}

/** The cluster that a master is a member of. */
export interface ClusterApi {
  /** `null`: this master shares its store with nobody. */
  status(): Promise<ClusterStatus | null>;
  /**
   * Makes a ticket that is good once.
   * @param request `seconds`: how long it is good. Default 3600
   * @throws MasterError ERR_NOT_SERVED where there is no cluster
   */
  ticket(request?: { readonly seconds?: number }): Promise<ClusterTicket>;
  /**
   * Takes a member that is gone for good out of the cluster.
   * @throws MasterError ERR_ARGS for a member that is alive, or unknown; ERR_NOT_SERVED
   */
  remove(request: { readonly member: string }): Promise<void>;
  /**
   * Prepares this member for a restart: hands over what one member does for all, refuses new jobs and
   * calls with ERR_MASTER_DRAINING, and resolves when those that are under way have ended. Minions,
   * and jobs that the others publish, are served as before.
   * @param request `seconds`: how long calls may take to end. Default 300
   * @throws MasterError ERR_NOT_SERVED
   */
  drain(request?: { readonly seconds?: number }): Promise<DrainedMember>;
  /** Ends {@link drain}: this member takes jobs and calls again. @throws MasterError ERR_NOT_SERVED */
  resume(): Promise<void>;
}

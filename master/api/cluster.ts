/** One member of the cluster, as another member sees it. */
interface ClusterMember {
  readonly name: string;
  /** Position of the last log entry that the member has applied. */
  readonly position: number;
  readonly isAlive: boolean;
  /**
   * Digests of the member's configuration parts (`policy`, `catalog`). Equal digests mean equal
   * content.
   */
  readonly versions?: Readonly<Record<string, string>>;
  /**
   * Difference between the member's clock and the local clock, in milliseconds. Positive if the
   * member's clock is ahead. `undefined` until the first message from the member.
   */
  readonly clockSkewMs?: number | undefined;
}

/** State of the cluster, as one of its members sees it. */
export interface ClusterStatus {
  readonly name: string;
  /** Name of the member that reports this status. */
  readonly member: string;
  /** Identifier of the replicated log. */
  readonly log: string;
  /** Position of the last log entry that this member has applied. */
  readonly position: number;
  /** Running hash over the log up to `position`. Members with equal content have equal hashes. */
  readonly hash: string;
  readonly members: readonly ClusterMember[];
  /** Whether fewer members are alive than a write requires. */
  readonly isAlone: boolean;
  /** Whether jobs, key changes and signals are rejected with ERR_CLUSTER_ALONE. */
  readonly refusesWrites: boolean;
  /**
   * Whether the data of this member may be outdated: they were last known to be complete more than
   * `stale_after` ago. The member then rejects the requests of minions and the tokens of users.
   */
  readonly isStale: boolean;
  /** Whether the member is draining for a restart (`drain`) and accepts no new jobs or calls. */
  readonly isDraining: boolean;
  /**
   * Time since the log began to reject writes of this member, in milliseconds. 0 while writes
   * succeed.
   */
  readonly failingMs: number;
  /** Number of log entries that repeat an earlier entry. The repetitions had no effect. */
  readonly repeatedEntries: number;
  /** Number of log entries that no cluster member has written. They had no effect. */
  readonly foreignEntries: number;
  /** Warnings about the log servers, for operators. */
  readonly warnings: readonly string[];
}

/** Whether a member of a cluster can serve all requests: it is current, and accepts writes. */
export function isServingMember({
  isStale,
  refusesWrites,
  isDraining,
}: Pick<ClusterStatus, 'isDraining' | 'isStale' | 'refusesWrites'>): boolean {
  return !isStale && !refusesWrites && !isDraining;
}

/** Ticket with which one further master can join the cluster. It is valid once. */
interface ClusterTicket {
  readonly ticket: string;
  /** Expiry time, in milliseconds since 1970. */
  readonly expiresAt: number;
}

/** Result of preparing a member for a restart ({@link ClusterApi.drain}). */
interface DrainedMember {
  /** Number of calls still running when the timeout ended the draining. */
  readonly active: number;
}

/** Operations on the cluster that a master belongs to. */
export interface ClusterApi {
  /** Returns the cluster status, or `null` if this master does not belong to a cluster. */
  status(): Promise<ClusterStatus | null>;
  /**
   * Creates a single-use join ticket.
   * @param request - `seconds`: validity of the ticket. Default: 3600
   * @throws MasterError ERR_NOT_SERVED if the master belongs to no cluster
   */
  ticket(request?: { readonly seconds?: number }): Promise<ClusterTicket>;
  /**
   * Permanently removes a member from the cluster. Use it for a member that will not be started
   * again.
   * @throws MasterError ERR_ARGS if the member is alive or unknown; ERR_NOT_SERVED
   */
  remove(request: { readonly member: string }): Promise<void>;
  /**
   * Prepares this member for a restart. The member hands its cluster duties to other members, and
   * rejects new jobs and calls with ERR_MASTER_DRAINING. It still serves minions and the jobs of
   * other members. Resolves when the running calls have ended.
   * @param request - `seconds`: time that running calls have to end. Default: 300
   * @throws MasterError ERR_NOT_SERVED
   */
  drain(request?: { readonly seconds?: number }): Promise<DrainedMember>;
  /**
   * Reverses {@link drain}, so that this member accepts jobs and calls again.
   * @throws MasterError ERR_NOT_SERVED
   */
  resume(): Promise<void>;
}

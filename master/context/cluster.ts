import type { Logger } from 'pino';
import type { ClusterOptions, FixedConfig } from '#config';
import type { WireMap } from '#minion-protocol';
import type { Change, Key, Operation, Store } from '#store';
import type { ClusterStatus } from '../api/index.ts';
import type { CallGate } from './call-gate.ts';
import type { StoreDisk } from './store-disk.ts';

/**
 * The cluster that a master belongs to. Code in the folder `cluster/` implements this interface.
 */
export interface Cluster {
  readonly name: string;
  /** Name of this member. */
  readonly member: string;
  status(): ClusterStatus;
  /** Counts the calls of this member that clients wait for. */
  readonly calls: CallGate;
  /**
   * Whether the data of this member may be outdated: for longer than `stale_after`, the member has
   * not known whether its data are complete.
   */
  isStale(): boolean;
  /**
   * Whether a member has left the cluster, or has been silent for so long that other members
   * continue its work.
   */
  isGone(member: string): boolean;
  /**
   * Reports the version of one kind of this member's configuration to the other members.
   * @param kind - for example `policy`
   */
  announce(kind: string, version: string): void;
  /**
   * Returns a number below 16 for this member, which makes its job ids unique in the cluster. No
   * other member has the same number while the cluster has at most 16 members.
   */
  slot(): number;
  /**
   * Derives a key of 32 bytes from the cluster's secret. It is the same at all members, and does
   * not reveal the secret.
   */
  derive(purpose: string): Uint8Array;
  /**
   * Calls the listener for each change under the prefix, until the master closes. The changes of
   * all members are reported. A write of this member resolves only after the listener has received
   * the change. The listener must not throw.
   */
  follow(prefix: Key, listener: (change: Change) => void): void;
  /**
   * Sends a message to the other members. Messages may be lost. A message above the size limit is
   * not sent.
   */
  send(kind: string, value: WireMap): void;
  /** Calls the listener with the messages of this kind that other members {@link send}. */
  onMessage(kind: string, listener: (value: WireMap, from: string) => void): void;
}

/** Tasks that exactly one member performs for the whole cluster at a time. */
export interface Duties {
  /** Whether this member currently performs the cluster-wide tasks. */
  readonly isHeld: boolean;
  /**
   * Calls the listener whenever this member takes over the cluster-wide tasks. If it performs them
   * already, calls the listener immediately.
   */
  onHeld(listener: (ended: AbortSignal) => void): void;
  /**
   * Writes on the condition that this member still performs the cluster-wide tasks.
   * @throws StoreError ERR_REVISION if another member performs them. Nothing was written
   */
  write(operations: readonly Operation[]): Promise<void>;
  /**
   * Hands the cluster-wide tasks over to another member. This member does not take them again until
   * {@link resume}.
   */
  handOver(): Promise<void>;
  resume(): void;
}

/** Opened store of a cluster member. */
export interface SharedStore {
  readonly store: Store;
  readonly disk: StoreDisk;
  readonly cluster: Cluster;
  readonly duties: Duties & { close(): Promise<void> };
}

/** Options for opening the store of a cluster member. */
export interface SharedStoreOptions {
  readonly config: FixedConfig;
  readonly cluster: ClusterOptions;
  readonly now: () => number;
  readonly logger: Logger;
  /** Called once, when another process has taken over the role of this member. */
  readonly onReplaced: (error: Error) => void;
  /** Aborted when the master begins to close. */
  readonly closing: AbortSignal;
}

import type { Logger } from 'pino';
import type { ClusterOptions, FixedConfig } from '#config';
import type { WireMap } from '#minion-protocol';
import type { Change, Key, Operation, Store } from '#store';
import type { ClusterStatus } from '../api/index.ts';
import type { CallGate } from './call-gate.ts';
import type { StoreDisk } from './store-disk.ts';

/** The cluster that a master belongs to. The room `cluster` implements it. */
export interface Cluster {
  readonly name: string;
  /** Name of this member. */
  readonly member: string;
  status(): ClusterStatus;
  /** Counts the calls that callers of this member wait for. */
  readonly calls: CallGate;
  /** Whether this member may lack entries of the log for longer than `stale_after`. */
  isStale(): boolean;
  /**
   * Returns whether a member has left, or has been silent for so long that others continue its
   * work.
   */
  isGone(member: string): boolean;
  /** Reports the version of a part of this member's configuration to the other members. */
  announce(kind: string, version: string): void;
  /** Returns a number that no other member has, unless the cluster has more than 16. */
  slot(): number;
  /** Returns a key of 32 bytes, the same at all members. It does not reveal the secret. */
  derive(purpose: string): Uint8Array;
  /**
   * Calls the listener for each change under the prefix, made by any member, until the master
   * closes. A local write resolves only after its change was delivered. The listener must not
   * throw.
   */
  follow(prefix: Key, listener: (change: Change) => void): void;
  /**
   * Sends a message to the other members. It may be lost. Messages above the size limit are not
   * sent.
   */
  send(kind: string, value: WireMap): void;
  /** Calls the listener with the messages that other members {@link send}. */
  onMessage(kind: string, listener: (value: WireMap, from: string) => void): void;
}

/** Tasks that exactly one member of the cluster performs at a time. */
export interface Duties {
  /** Whether this member performs them now. */
  readonly isHeld: boolean;
  /**
   * Calls the listener whenever this member takes over, and immediately if it holds the duties now.
   */
  onHeld(listener: (ended: AbortSignal) => void): void;
  /**
   * Writes if this member still holds the duties.
   * @throws StoreError ERR_REVISION if another member holds them; nothing was written
   */
  write(operations: readonly Operation[]): Promise<void>;
  /** Hands the duties over to another member, and does not take them again until {@link resume}. */
  handOver(): Promise<void>;
  resume(): void;
}

/** Open store of a cluster member. */
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
  /** Called once, when another process has replaced this member. */
  readonly onReplaced: (error: Error) => void;
  /** Fires when the master begins to close. */
  readonly closing: AbortSignal;
}

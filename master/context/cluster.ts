/** The cluster that a master is a member of. The room `cluster` implements it. */

import type { Logger } from 'pino';
import type { ClusterOptions, FixedConfig } from '#config';
import type { WireMap } from '#minion-protocol';
import type { Change, Key, Operation, Store } from '#store';
import type { ClusterStatus } from '../api/index.ts';
import type { CallGate } from './call-gate.ts';
import type { StoreDisk } from './store-disk.ts';

/** What a master has of its cluster. */
export interface Cluster {
  readonly name: string;
  /** Name of this master in it. */
  readonly member: string;
  status(): ClusterStatus;
  /** Counts the calls of this member's callers. */
  readonly calls: CallGate;
  /** Whether this member was cut off from the others for so long that its data may be outdated. */
  isStale(): boolean;
  /**
   * Whether a member has left, or has not been heard of for so long that others continue its work.
   */
  isGone(member: string): boolean;
  /** Reports the version of a part of this member's configuration to the other members. */
  announce(kind: string, version: string): void;
  /** Returns a number that no other member has, unless the cluster has more than 16. */
  slot(): number;
  /** Returns a key of 32 bytes, the same at all members. It does not reveal the secret. */
  derive(purpose: string): Uint8Array;
  /**
   * Calls the listener with each change under the prefix, whichever member made it, until the
   * master closes: before the write that made it resolves here. It must not throw.
   */
  follow(prefix: Key, listener: (change: Change) => void): void;
  /** Sends a message to the other members. It may be lost. A message that is too large is not sent. */
  send(kind: string, value: WireMap): void;
  /** Calls the listener with the messages that other members {@link send}. */
  onMessage(kind: string, listener: (value: WireMap, from: string) => void): void;
}

/** What one member of the cluster at a time does for all members. */
export interface Duties {
  /** Whether this member does it now. */
  readonly isHeld: boolean;
  /** Calls the listener each time that this member begins; at once where it does it now. */
  onHeld(listener: (ended: AbortSignal) => void): void;
  /**
   * Writes if this member still does it.
   * @throws StoreError ERR_REVISION where another member does it; nothing was written
   */
  write(operations: readonly Operation[]): Promise<void>;
  /** Lets another member take over, and takes over no more until {@link resume}. */
  handOver(): Promise<void>;
  resume(): void;
}

/** The store of a member, opened. */
export interface SharedStore {
  readonly store: Store;
  readonly disk: StoreDisk;
  readonly cluster: Cluster;
  readonly duties: Duties & { close(): Promise<void> };
}

/** Options of opening the store of a member. */
export interface SharedStoreOptions {
  readonly config: FixedConfig;
  readonly cluster: ClusterOptions;
  readonly now: () => number;
  readonly logger: Logger;
  /** Called once, when this master can no longer be the member. */
  readonly onReplaced: (error: Error) => void;
  /** Fires when the master begins to close. */
  readonly closing: AbortSignal;
}

/** State areas: the part of the store that belongs to one extension. */

import type { WireMap } from '#minion-protocol';
import {
  type Change,
  changeBelow,
  type Entry,
  type Key,
  type ListOptions,
  type Operation,
  operationBelow,
  type Store,
  storeBelow,
} from '#store';
import { createSeal, type Seal } from '../auth/index.ts';
import { type Cluster, type Duties, followRows, type MasterContext } from '../context/index.ts';

/** A row. */
type StateEntry = Entry;

/** One step of {@link StateArea.write}: as the store's, without streams. */
export type StateOperation = Exclude<Operation, { readonly op: 'append' }>;

/** Rows of one extension, by keys that begin anew for each; and a seal of its own. */
export interface StateArea {
  /** @throws StoreError */
  get(key: Key): Promise<StateEntry | undefined>;
  /** Rows whose key begins with `prefix`, in key order. @throws StoreError */
  list(prefix: Key, options?: ListOptions): AsyncIterable<StateEntry>;
  /**
   * All of it or nothing; on disk when it resolves. With `ifRevision: 0` a row is written only
   * where there is none.
   * @returns the revision that the rows have now
   * @throws StoreError ERR_REVISION when an `ifRevision` does not hold; nothing was written
   */
  write(operations: readonly StateOperation[]): Promise<number>;
  /** For what no copy of the store may give away; opens in this extension of this master alone. */
  seal(plain: Uint8Array): Uint8Array;
  /** @throws MasterError ERR_SEAL when it was sealed elsewhere, or altered */
  unseal(sealed: Uint8Array): Uint8Array;
}

/** A change of a row of an area. */
export type StateChange = Change;

/** Rows of one extension that all members of a cluster read and write. */
export interface SharedArea extends StateArea {
  /**
   * Calls the listener with each row below a prefix, and resolves. From then on it is called with
   * each change that any member of the cluster makes, in the order of the log: before the write that
   * made it resolves here. Without a cluster no change is told.
   */
  follow(prefix: Key, listener: (change: StateChange) => void): Promise<void>;
  /** `undefined`: no other master has these rows. */
  readonly cluster: AreaCluster | undefined;
}

/** What the members of a cluster agree upon by their store. */
interface AreaCluster
  extends Pick<Cluster, 'announce' | 'derive' | 'isGone' | 'member' | 'send'>,
    Pick<Duties, 'isHeld' | 'onHeld'> {
  /**
   * Writes if this member does it still, when the write is applied.
   * @throws StoreError ERR_REVISION otherwise, and as {@link StateArea.write}
   */
  writeHeld(operations: readonly StateOperation[]): Promise<void>;
  /** Calls the listener, of which each kind has one, with what other members send. */
  onMessage(kind: string, listener: (value: WireMap) => void): void;
}

const areaOf = (name: string): Key => ['state', name];
const streamsOf = (name: string): string => `state/${name}/`;

/** The part that belongs to the extension of this name. */
export function openStateArea(store: Store, seal: Seal, name: string): StateArea {
  const { get, list, write } = storeBelow(store, areaOf(name), streamsOf(name));
  const own = createSeal(seal.derive(`state ${name}`));
  return {
    get,
    list,
    write,
    seal: (plain) => own.seal(plain),
    unseal: (sealed) => own.open(sealed),
  };
}

/** What a shared area needs of the master. */
interface SharedStore extends Pick<MasterContext, 'duties' | 'log' | 'store'> {
  readonly cluster:
    | Pick<Cluster, 'announce' | 'derive' | 'follow' | 'isGone' | 'member' | 'onMessage' | 'send'>
    | undefined;
}

/** The part of the store that belongs to the extension of this name at all members of a cluster. */
export function openSharedArea(
  { store, cluster, duties, log }: SharedStore,
  seal: Seal,
  name: string,
): SharedArea {
  const area = openStateArea(store, seal, name);
  const prefix = areaOf(name);
  return {
    ...area,
    follow: (below, listener) =>
      followRows({ store, cluster, log }, [...prefix, ...below], (change) =>
        listener(changeBelow(change, prefix)),
      ),
    cluster: cluster &&
      duties && {
        member: cluster.member,
        isGone: (member) => cluster.isGone(member),
        announce: (kind, version) => cluster.announce(kind, version),
        get isHeld() {
          return duties.isHeld;
        },
        onHeld: (listener) => duties.onHeld(listener),
        writeHeld: (operations) =>
          duties.write(operations.map((it) => operationBelow(it, prefix, streamsOf(name)))),
        send: (kind, value) => cluster.send(`${name} ${kind}`, value),
        onMessage: (kind, listener) => cluster.onMessage(`${name} ${kind}`, listener),
        derive: (purpose) => cluster.derive(`state ${name} ${purpose}`),
      },
  };
}

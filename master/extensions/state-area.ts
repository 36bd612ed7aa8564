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

/** A stored row. */
type StateEntry = Entry;

/** Operation of {@link StateArea.write}: any operation of a store except `append`. */
export type StateOperation = Exclude<Operation, { readonly op: 'append' }>;

/**
 * Rows of one extension in the store. Keys are relative to the area. Each extension has its own
 * encryption key.
 */
export interface StateArea {
  /**
   * Returns a row.
   * @throws StoreError
   */
  get(key: Key): Promise<StateEntry | undefined>;
  /**
   * Returns the rows whose key begins with `prefix`, in key order.
   * @throws StoreError
   */
  list(prefix: Key, options?: ListOptions): AsyncIterable<StateEntry>;
  /**
   * Applies all operations or none. Resolves when the changes are on disk. With `ifRevision: 0`, a
   * row is written only if it does not exist yet.
   * @returns the new revision of the rows
   * @throws StoreError ERR_REVISION if an `ifRevision` does not match. Nothing was written
   */
  write(operations: readonly StateOperation[]): Promise<number>;
  /**
   * Encrypts data that a copy of the store must not reveal. Only this extension of this master can
   * decrypt it.
   */
  seal(plain: Uint8Array): Uint8Array;
  /**
   * Decrypts data.
   * @throws MasterError ERR_SEAL if another extension or master has encrypted the data, or if it
   * was altered
   */
  unseal(sealed: Uint8Array): Uint8Array;
}

/** Change of a row in an area. */
export type StateChange = Change;

/** Rows of one extension that all members of a cluster read and write. */
export interface SharedArea extends StateArea {
  /**
   * Calls the listener with each row under a prefix, then resolves. From then on it calls the
   * listener with each change that any member of the cluster makes, in the order of the log. A
   * write of this member resolves only after the listener has received the change. Without a
   * cluster, no changes are reported.
   */
  follow(prefix: Key, listener: (change: StateChange) => void): Promise<void>;
  /** Functions of the cluster, or `undefined` outside a cluster. */
  readonly cluster: AreaCluster | undefined;
}

/** Cluster functions that an extension uses together with its shared rows. */
interface AreaCluster
  extends Pick<Cluster, 'announce' | 'derive' | 'isGone' | 'member' | 'send'>,
    Pick<Duties, 'isHeld' | 'onHeld'> {
  /**
   * Writes on the condition that this member still performs the cluster-wide tasks.
   * @throws StoreError ERR_REVISION if this member no longer performs them, or if an `ifRevision`
   * does not match
   */
  writeHeld(operations: readonly StateOperation[]): Promise<void>;
  /**
   * Calls the listener with the messages of this kind that other members send. Each kind can have
   * one listener.
   */
  onMessage(kind: string, listener: (value: WireMap) => void): void;
}

const areaOf = (name: string): Key => ['state', name];
const streamsOf = (name: string): string => `state/${name}/`;

/** Converts an operation on a shared area to an operation on the store of the master. */
export function operationOfArea(operation: StateOperation, name: string): Operation {
  return operationBelow(operation, areaOf(name), streamsOf(name));
}

/** Opens the part of the store that belongs to an extension. */
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

/** Modules of the master that a shared area uses. */
interface SharedStore extends Pick<MasterContext, 'duties' | 'log' | 'store'> {
  readonly cluster:
    | Pick<Cluster, 'announce' | 'derive' | 'follow' | 'isGone' | 'member' | 'onMessage' | 'send'>
    | undefined;
}

/** Opens the part of the store that an extension shares with all members of a cluster. */
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
        writeHeld: (operations) => duties.write(operations.map((it) => operationOfArea(it, name))),
        send: (kind, value) => cluster.send(`${name} ${kind}`, value),
        onMessage: (kind, listener) => cluster.onMessage(`${name} ${kind}`, listener),
        derive: (purpose) => cluster.derive(`state ${name} ${purpose}`),
      },
  };
}

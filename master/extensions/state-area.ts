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

/** Stored row. */
type StateEntry = Entry;

/** Step of {@link StateArea.write}: a store operation other than a stream append. */
export type StateOperation = Exclude<Operation, { readonly op: 'append' }>;

/** Rows of one extension in the store, with relative keys and an own seal. */
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
   * Applies all operations or none, and resolves when they are on disk. With `ifRevision: 0`, a row
   * is written only if it does not exist.
   * @returns the new revision of the rows
   * @throws StoreError ERR_REVISION if an `ifRevision` does not match; nothing was written
   */
  write(operations: readonly StateOperation[]): Promise<number>;
  /**
   * Encrypts data that a copy of the store must not reveal. Only this extension of this master can
   * decrypt it.
   */
  seal(plain: Uint8Array): Uint8Array;
  /**
   * Decrypts sealed data.
   * @throws MasterError ERR_SEAL if it was sealed elsewhere, or altered
   */
  unseal(sealed: Uint8Array): Uint8Array;
}

/** Change of a row of an area. */
export type StateChange = Change;

/** Rows of one extension that all members of a cluster read and write. */
export interface SharedArea extends StateArea {
  /**
   * Calls the listener with each row under a prefix, then resolves. From then on it calls the
   * listener with each change that any member of the cluster makes, in the order of the log. A
   * local write resolves only after its change was delivered. Without a cluster, no changes are
   * reported.
   */
  follow(prefix: Key, listener: (change: StateChange) => void): Promise<void>;
  /** Cluster functions, or `undefined` if no other master has these rows. */
  readonly cluster: AreaCluster | undefined;
}

/** Cluster functions for a shared area. */
interface AreaCluster
  extends Pick<Cluster, 'announce' | 'derive' | 'isGone' | 'member' | 'send'>,
    Pick<Duties, 'isHeld' | 'onHeld'> {
  /**
   * Writes if this member still holds the duties when the write is applied.
   * @throws StoreError ERR_REVISION otherwise, and as {@link StateArea.write}
   */
  writeHeld(operations: readonly StateOperation[]): Promise<void>;
  /** Calls the listener with the messages that other members send. Each kind has one listener. */
  onMessage(kind: string, listener: (value: WireMap) => void): void;
}

const areaOf = (name: string): Key => ['state', name];
const streamsOf = (name: string): string => `state/${name}/`;

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

/** Parts of the master that a shared area uses. */
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
        writeHeld: (operations) =>
          duties.write(operations.map((it) => operationBelow(it, prefix, streamsOf(name)))),
        send: (kind, value) => cluster.send(`${name} ${kind}`, value),
        onMessage: (kind, listener) => cluster.onMessage(`${name} ${kind}`, listener),
        derive: (purpose) => cluster.derive(`state ${name} ${purpose}`),
      },
  };
}

import { addressOwner, compareTexts } from '#runtime';
import type { KeyState } from '../api/index.ts';
import { SortedMap } from './sorted-map.ts';

/**
 * State of the key of an id. Excludes `denied`, because a denied key is stored in addition to the
 * key of the id.
 */
type OwnState = Exclude<KeyState, 'denied'>;

/** Key of an id, held in memory. */
export interface KeyRecord {
  readonly id: string;
  readonly state: OwnState;
  /** Public key in PEM format, as the minion sent it. */
  readonly pem: string;
  /** Time since which the key has this state, in milliseconds since 1970. */
  readonly since: number;
}

/** Last key that was denied for an id, because the id has a different key. */
export interface DeniedKey {
  readonly id: string;
  readonly pem: string;
  /** Time at which the key was denied, in milliseconds since 1970. */
  readonly since: number;
}

/** All keys by state. Each list is sorted by id. */
export interface KeyList {
  readonly accepted: readonly KeyRecord[];
  readonly pending: readonly KeyRecord[];
  readonly rejected: readonly KeyRecord[];
  readonly denied: readonly DeniedKey[];
}

/** Keys of all minions in memory. */
export class KeyTable {
  readonly #keys = new SortedMap<KeyRecord>(compareTexts);
  readonly #denied = new SortedMap<DeniedKey>(compareTexts);
  /** Number of times that a different key was offered, by id. Only ids with a key are counted. */
  readonly #conflicts = new Map<string, number>();
  readonly #pendingAddresses = new Map<string, string>();
  #pending = 0;
  #accepted: readonly KeyRecord[] | undefined;
  #acceptedIds: readonly string[] | undefined;

  get(id: string): KeyRecord | undefined {
    return this.#keys.get(id);
  }

  denied(id: string): DeniedKey | undefined {
    return this.#denied.get(id);
  }

  ids(): string[] {
    return [...new Set([...this.#keys.keys(), ...this.#denied.keys()])].sort();
  }

  /**
   * Returns the ids of accepted keys, sorted. The array stays the same object until an accepted key
   * changes.
   */
  acceptedIds(): readonly string[] {
    this.#acceptedIds ??= this.list().accepted.map(({ id }) => id);
    return this.#acceptedIds;
  }

  /** Sets the key of an id. `undefined` removes the key. */
  set(id: string, record: KeyRecord | undefined, address?: string): void {
    const before = this.#keys.get(id)?.state;
    if (before === 'pending') this.#pending--;
    if (record?.state === 'pending') this.#pending++;
    if (record?.state !== 'pending') this.#pendingAddresses.delete(id);
    else if (address !== undefined) this.#pendingAddresses.set(id, addressOwner(address));
    if (before === 'accepted' || record?.state === 'accepted') {
      this.#accepted = undefined;
      this.#acceptedIds = undefined;
    }
    if (record === undefined) this.#conflicts.delete(id);
    this.#keys.set(id, record);
  }

  /** Counts an offered key that differs from the present key of the id. */
  countConflict(id: string): void {
    if (this.#keys.get(id) !== undefined) this.#conflicts.set(id, this.conflicts(id) + 1);
  }

  /** Returns how often a different key was offered for this id since the start of the master. */
  conflicts(id: string): number {
    return this.#conflicts.get(id) ?? 0;
  }

  setDenied(id: string, key: DeniedKey | undefined): void {
    this.#denied.set(id, key);
  }

  /**
   * Returns the number of pending keys. With an address, counts only keys that were sent to this
   * process from the same address or IPv6 network of 64 bits.
   */
  countPending(address?: string): number {
    if (address === undefined) return this.#pending;
    const owner = addressOwner(address);
    let count = 0;
    for (const other of this.#pendingAddresses.values()) if (other === owner) count++;
    return count;
  }

  /** Returns all keys. The list of accepted keys stays the same object until one of them changes. */
  list(): KeyList {
    const keys = this.#keys.values();
    const inState = (state: OwnState): KeyRecord[] => keys.filter((key) => key.state === state);
    this.#accepted ??= inState('accepted');
    return {
      accepted: this.#accepted,
      pending: inState('pending'),
      rejected: inState('rejected'),
      denied: this.#denied.values(),
    };
  }
}

import { addressOwner } from '#runtime';
import type { KeyState } from '../api/index.ts';

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
  readonly #keys = new Map<string, KeyRecord>();
  readonly #denied = new Map<string, DeniedKey>();
  /** Number of times that a different key was offered, by id. Only ids with a key are counted. */
  readonly #conflicts = new Map<string, number>();
  readonly #pendingAddresses = new Map<string, string>();
  #pending = 0;
  #accepted: readonly string[] | undefined;

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
   * Returns the ids of accepted keys, sorted. The array stays the same object until a key changes.
   */
  acceptedIds(): readonly string[] {
    this.#accepted ??= this.list().accepted.map(({ id }) => id);
    return this.#accepted;
  }

  /** Sets the key of an id. `undefined` removes the key. */
  set(id: string, record: KeyRecord | undefined, address?: string): void {
    if (this.#keys.get(id)?.state === 'pending') this.#pending--;
    if (record?.state === 'pending') this.#pending++;
    if (record?.state !== 'pending') this.#pendingAddresses.delete(id);
    else if (address !== undefined) this.#pendingAddresses.set(id, addressOwner(address));
    this.#accepted = undefined;
    if (record === undefined) this.#conflicts.delete(id);
    if (record === undefined) this.#keys.delete(id);
    else this.#keys.set(id, record);
  }

  /** Counts an offered key that differs from the present key of the id. */
  countConflict(id: string): void {
    if (this.#keys.has(id)) this.#conflicts.set(id, this.conflicts(id) + 1);
  }

  /** Returns how often a different key was offered for this id since the start of the master. */
  conflicts(id: string): number {
    return this.#conflicts.get(id) ?? 0;
  }

  setDenied(id: string, key: DeniedKey | undefined): void {
    if (key === undefined) this.#denied.delete(id);
    else this.#denied.set(id, key);
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

  list(): KeyList {
    const keys = [...this.#keys.values()].sort(byId);
    const inState = (state: OwnState): KeyRecord[] => keys.filter((key) => key.state === state);
    return {
      accepted: inState('accepted'),
      pending: inState('pending'),
      rejected: inState('rejected'),
      denied: [...this.#denied.values()].sort(byId),
    };
  }
}

function byId(a: { readonly id: string }, b: { readonly id: string }): number {
  return a.id < b.id ? -1 : 1;
}

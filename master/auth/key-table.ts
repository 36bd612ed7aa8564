/** Minions' keys in memory. */

import type { KeyState } from '../api/index.ts';

/** States of a minion's key. A denied key stands beside them. */
type OwnState = Exclude<KeyState, 'denied'>;

/** A key in memory. */
export interface KeyRecord {
  readonly id: string;
  readonly state: OwnState;
  /** PEM text as the minion sent it. */
  readonly pem: string;
  /** Milliseconds since 1970. */
  readonly since: number;
}

/** The last key that was offered under an id whose key is another one. */
export interface DeniedKey {
  readonly id: string;
  readonly pem: string;
  /** Milliseconds since 1970. */
  readonly since: number;
}

/** Every key, by where it is; each list sorted by id. */
export interface KeyList {
  readonly accepted: readonly KeyRecord[];
  readonly pending: readonly KeyRecord[];
  readonly rejected: readonly KeyRecord[];
  readonly denied: readonly DeniedKey[];
}

/** What is known of all keys, in memory. */
export class KeyTable {
  readonly #keys = new Map<string, KeyRecord>();
  readonly #denied = new Map<string, DeniedKey>();
  /** Id → how often another key than its own was offered. Only ids with a key are counted. */
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

  /** Ids of accepted keys, sorted; the same array until a key changes. */
  acceptedIds(): readonly string[] {
    this.#accepted ??= this.list().accepted.map(({ id }) => id);
    return this.#accepted;
  }

  /** Puts the key of an id in place of what was known; `undefined`: it has none. */
  set(id: string, record: KeyRecord | undefined, address?: string): void {
    if (this.#keys.get(id)?.state === 'pending') this.#pending--;
    if (record?.state === 'pending') this.#pending++;
    if (record?.state !== 'pending') this.#pendingAddresses.delete(id);
    else if (address !== undefined) this.#pendingAddresses.set(id, address);
    this.#accepted = undefined;
    if (record === undefined) this.#conflicts.delete(id);
    if (record === undefined) this.#keys.delete(id);
    else this.#keys.set(id, record);
  }

  /** Counts one offer of another key than the one that the id has. */
  countConflict(id: string): void {
    if (this.#keys.has(id)) this.#conflicts.set(id, this.conflicts(id) + 1);
  }

  /** How often another key was offered under this id since the start. */
  conflicts(id: string): number {
    return this.#conflicts.get(id) ?? 0;
  }

  setDenied(id: string, key: DeniedKey | undefined): void {
    if (key === undefined) this.#denied.delete(id);
    else this.#denied.set(id, key);
  }

  /** How many keys wait; with an address: how many of those came from it in this process. */
  countPending(address?: string): number {
    if (address === undefined) return this.#pending;
    let count = 0;
    for (const other of this.#pendingAddresses.values()) if (other === address) count++;
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

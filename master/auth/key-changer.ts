import type { KeyState } from '../api/index.ts';
import { KeyError } from './key-errors.ts';
import type { DeniedKey, KeyRecord, KeyTable } from './key-table.ts';
import { type KeyFiles, keyPlaces } from './pki-directory.ts';

/** Change of a key, whatever caused it. */
export interface KeyChange {
  readonly id: string;
  /** Previous state, or `null` if there was no key. */
  readonly from: KeyState | null;
  /** New state, or `null` if the key was deleted. */
  readonly to: KeyState | null;
  /** Name that Salt's events use for this change. */
  readonly act: 'accept' | 'pend' | 'reject' | 'denied' | 'delete';
  /**
   * Present if another member of the cluster made the change. If the change revokes a key, that
   * member also performs the revocation.
   */
  readonly isElsewhere?: true;
}

const acts = {
  accepted: 'accept',
  pending: 'pend',
  rejected: 'reject',
  denied: 'denied',
} as const;

/** Returns a {@link KeyChange} from one state to another. `null` means that there is no key. */
function describeChange(
  id: string,
  from: KeyState | null,
  to: KeyState | null,
  isElsewhere = false,
): KeyChange {
  const act = to === null ? 'delete' : acts[to];
  return { id, from, to, act, ...(isElsewhere ? { isElsewhere } : {}) };
}

/** Storage of minions' keys, with a watcher that detects external changes. */
export interface KeySource {
  readonly files: KeyFiles;
  /**
   * Calls the listener with the ids whose keys may have changed. With `undefined`, any key may have
   * changed. Returns a function that stops watching.
   */
  readonly watch: (onDirty: (ids: readonly string[] | undefined) => void) => () => void;
  /**
   * Whether all members of a cluster share these keys. If so, a change that the watcher detects was
   * made by another member. That member then also revokes the minion's access. Default: false.
   */
  readonly isShared?: boolean;
}

/**
 * Changes a key on disk and then in memory, and then reports the change. Calls must not overlap.
 * The caller must have checked that the change is permitted.
 */
export class KeyChanger {
  readonly #dir: KeyFiles;
  readonly #table: KeyTable;
  readonly #now: () => number;
  readonly #report: (change: KeyChange) => void;
  readonly #isShared: boolean;

  constructor(
    { files, isShared = false }: KeySource,
    table: KeyTable,
    now: () => number,
    report: (change: KeyChange) => void,
  ) {
    this.#dir = files;
    this.#isShared = isShared;
    this.#table = table;
    this.#now = now;
    this.#report = report;
  }

  /**
   * Stores a key of an id in the given state. A denied key is stored in addition to the present key
   * of the id. A key in any other state replaces the present key.
   */
  async put(to: KeyState, id: string, pem: string, address?: string): Promise<void> {
    const from = this.#table.get(id)?.state ?? null;
    await this.#dir.write(to, id, pem);
    if (to === 'denied') {
      this.#table.setDenied(id, { id, pem, since: this.#now() });
      this.#report(describeChange(id, null, to));
      return;
    }
    if (from !== null && from !== to) await this.#dir.remove(from, id);
    this.#table.set(id, { id, state: to, pem, since: this.#now() }, address);
    this.#report(describeChange(id, from, to));
  }

  /**
   * Moves a key of an id to another state. The moved key replaces any other key of the id, except a
   * denied key.
   */
  async move(from: KeyState, to: 'accepted' | 'rejected', id: string): Promise<void> {
    const present = this.#table.get(id);
    const source = from === 'denied' ? this.#table.denied(id) : present;
    if (source === undefined)
      throw new KeyError('ERR_KEY_UNKNOWN', `${JSON.stringify(id)} has no key`);
    await this.#dir.move(from, to, id);
    const isLeft = present !== undefined && present.state !== from && present.state !== to;
    if (isLeft) await this.#dir.remove(present.state, id);
    if (from === 'denied') this.#table.setDenied(id, undefined);
    this.#table.set(id, { id, state: to, pem: source.pem, since: this.#now() });
    this.#report(describeChange(id, from, to));
  }

  /**
   * Removes the key that an id has in this state. If the id also has a key in a state of lower
   * precedence, that key then takes effect.
   */
  async remove(place: KeyState, id: string): Promise<void> {
    await this.#dir.remove(place, id);
    await this.reread(id);
  }

  /** Removes all keys of an id, including files in states of lower precedence. */
  async removeAll(id: string): Promise<void> {
    const state = this.#table.get(id)?.state;
    const denied = this.#table.denied(id);
    for (const place of keyPlaces.toReversed()) await this.#dir.remove(place, id);
    this.#table.setDenied(id, undefined);
    this.#table.set(id, undefined);
    if (denied !== undefined) this.#report(describeChange(id, 'denied', null));
    if (state !== undefined) this.#report(describeChange(id, state, null));
  }

  /** Returns all ids that have a key on disk or in memory. */
  async allIds(): Promise<Set<string>> {
    const names = await Promise.all(keyPlaces.map((place) => this.#dir.list(place)));
    return new Set([...this.#table.ids(), ...names.flat()]);
  }

  /** Loads all keys from disk at the start, without reporting them as changes. */
  async load(isValid: (id: string) => boolean): Promise<void> {
    // States are loaded in increasing precedence, because a later state replaces an earlier one
    // [WIRE 6.2].
    for (const state of ['pending', 'accepted', 'rejected'] as const) {
      for (const [id, file] of await this.#dir.readAll(state)) {
        if (isValid(id)) this.#table.set(id, { id, state, ...file });
      }
    }
    for (const [id, file] of await this.#dir.readAll('denied')) {
      if (isValid(id)) this.#table.setDenied(id, { id, ...file });
    }
  }

  /** Loads the keys of an id from disk, and reports the differences. */
  async reread(id: string): Promise<void> {
    const denied = await this.#readDenied(id);
    const record = await this.#readKey(id);
    const deniedBefore = this.#table.denied(id);
    const before = this.#table.get(id);
    this.#table.setDenied(id, denied);
    this.#table.set(id, record);
    // A denied key that has become the id's own key is reported as one change.
    const hasMoved = deniedBefore !== undefined && record?.pem === deniedBefore.pem;
    if (denied?.pem !== deniedBefore?.pem && !hasMoved) {
      const from = deniedBefore === undefined ? null : 'denied';
      const to = denied === undefined ? null : 'denied';
      this.#report(describeChange(id, from, to, this.#isShared));
    }
    if (record?.state !== before?.state || record?.pem !== before?.pem) {
      const [from, to] = [before?.state ?? null, record?.state ?? null];
      this.#report(describeChange(id, from, to, this.#isShared));
    }
  }

  async #readKey(id: string): Promise<KeyRecord | undefined> {
    for (const state of ['rejected', 'accepted', 'pending'] as const) {
      const file = await this.#dir.read(state, id);
      if (file !== undefined) return { id, state, ...file };
    }
    return undefined;
  }

  async #readDenied(id: string): Promise<DeniedKey | undefined> {
    const file = await this.#dir.read('denied', id);
    return file && { id, ...file };
  }
}

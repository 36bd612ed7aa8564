import {
  type DeniedKey,
  describeChange,
  type KeyChange,
  type KeyRecord,
  type KeyTable,
} from './key-table.ts';
import { type KeyPlace, keyPlaces, type PkiDir } from './pki-dir.ts';
import { unknownKey } from './refusals.ts';

/**
 * Moves keys on disk, then in memory, then tells. One at a time; whether a move is permitted has
 * been decided before.
 */
export class KeyMoves {
  readonly #dir: PkiDir;
  readonly #table: KeyTable;
  readonly #now: () => number;
  readonly #tell: (change: KeyChange) => void;

  constructor(dir: PkiDir, table: KeyTable, now: () => number, tell: (change: KeyChange) => void) {
    this.#dir = dir;
    this.#table = table;
    this.#now = now;
    this.#tell = tell;
  }

  /** Stores a new key in place of what is there. */
  async put(to: KeyPlace, id: string, pem: string, address?: string): Promise<void> {
    const from = this.#table.get(id)?.state ?? null;
    await this.#dir.write(to, id, pem);
    if (to === 'denied') {
      this.#table.setDenied(id, { id, pem, since: this.#now() });
      this.#tell(describeChange(id, null, to));
      return;
    }
    if (from !== null && from !== to) await this.#dir.remove(from, id);
    this.#table.set(id, { id, state: to, pem, since: this.#now() }, address);
    this.#tell(describeChange(id, from, to));
  }

  /** Moves a key to another state, in place of what the id has in that or another one. */
  async move(from: KeyPlace, to: 'accepted' | 'rejected', id: string): Promise<void> {
    const present = this.#table.get(id);
    const source = from === 'denied' ? this.#table.denied(id) : present;
    if (source === undefined) throw unknownKey(id);
    await this.#dir.move(from, to, id);
    const isLeft = present !== undefined && present.state !== from && present.state !== to;
    if (isLeft) await this.#dir.remove(present.state, id);
    if (from === 'denied') this.#table.setDenied(id, undefined);
    this.#table.set(id, { id, state: to, pem: source.pem, since: this.#now() });
    this.#tell(describeChange(id, from, to));
  }

  /** Removes the key of one place; what it has hidden counts then. */
  async remove(place: KeyPlace, id: string): Promise<void> {
    await this.#dir.remove(place, id);
    await this.reread(id);
  }

  /** Removes every key of an id, also a file that a better placed one had hidden. */
  async removeAll(id: string): Promise<void> {
    const state = this.#table.get(id)?.state;
    const denied = this.#table.denied(id);
    for (const place of keyPlaces.toReversed()) await this.#dir.remove(place, id);
    this.#table.setDenied(id, undefined);
    this.#table.set(id, undefined);
    if (denied !== undefined) this.#tell(describeChange(id, 'denied', null));
    if (state !== undefined) this.#tell(describeChange(id, state, null));
  }

  /** Ids that are on disk or in memory. */
  async allIds(): Promise<Set<string>> {
    const names = await Promise.all(keyPlaces.map((place) => this.#dir.list(place)));
    return new Set([...this.#table.ids(), ...names.flat()]);
  }

  /** Takes over everything that is on disk, telling nobody: for the start. */
  load(isValid: (id: string) => boolean): void {
    // In this order the state that counts comes last [WIRE 6.2].
    for (const state of ['pending', 'accepted', 'rejected'] as const) {
      for (const [id, file] of this.#dir.readAll(state)) {
        if (isValid(id)) this.#table.set(id, { id, state, ...file });
      }
    }
    for (const [id, file] of this.#dir.readAll('denied')) {
      if (isValid(id)) this.#table.setDenied(id, { id, ...file });
    }
  }

  /** Takes over what is on disk, and tells what differs. */
  async reread(id: string): Promise<void> {
    const denied = await this.#readDenied(id);
    const record = await this.#readKey(id);
    const deniedBefore = this.#table.denied(id);
    const before = this.#table.get(id);
    this.#table.setDenied(id, denied);
    this.#table.set(id, record);
    // A denied key that has become the id's own key is told once, as that.
    const hasMoved = deniedBefore !== undefined && record?.pem === deniedBefore.pem;
    if (denied?.pem !== deniedBefore?.pem && !hasMoved) {
      const from = deniedBefore === undefined ? null : 'denied';
      this.#tell(describeChange(id, from, denied === undefined ? null : 'denied'));
    }
    if (record?.state !== before?.state || record?.pem !== before?.pem) {
      this.#tell(describeChange(id, before?.state ?? null, record?.state ?? null));
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

import { createHash } from 'node:crypto';
import Type from 'typebox';
import type { LiveConfig } from '#config';
import { cleanKeyText, isNewMinionId, isValidMinionId, keyFingerprint } from '#minion-protocol';
import { KeyedMutex, userWork, WorkBudget } from '#runtime';
import { Bytes, defineRow, type Key, type Operation, type Store, writeInParts } from '#store';
import { compileGlob } from '#template/python/fnmatch.ts';
import { KeyError } from './key-errors.ts';
import { type KeyFiles, type KeyPlace, keyPlaces, PkiDir, watchPkiDir } from './pki-directory.ts';

/** States of a minion's key. A denied key stands beside them. */
type KeyState = Exclude<KeyPlace, 'denied'>;

/** A key in memory. */
export interface KeyRecord {
  readonly id: string;
  readonly state: KeyState;
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

/** Something that happened to a key, whoever did it. */
export interface KeyChange {
  readonly id: string;
  /** Where the key was; `null`: nowhere. */
  readonly from: KeyPlace | null;
  /** Where it is; `null`: nowhere. */
  readonly to: KeyPlace | null;
  /** Salt's word for it, as in its events. */
  readonly act: 'accept' | 'pend' | 'reject' | 'denied' | 'delete';
  /** Another member of the cluster made it, and sees to what follows from it. */
  readonly isElsewhere?: true;
}

const acts = {
  accepted: 'accept',
  pending: 'pend',
  rejected: 'reject',
  denied: 'denied',
} as const;

/** The change between two places. */
function describeChange(
  id: string,
  from: KeyPlace | null,
  to: KeyPlace | null,
  isElsewhere = false,
): KeyChange {
  const act = to === null ? 'delete' : acts[to];
  return { id, from, to, act, ...(isElsewhere ? { isElsewhere } : {}) };
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
    const inState = (state: KeyState): KeyRecord[] => keys.filter((key) => key.state === state);
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

/** The key is not where it would have to be. */
function wrongState(id: string, state: KeyPlace): KeyError {
  return new KeyError('ERR_KEY_STATE', `the key of ${describeId(id)} is ${state}`);
}

/** The id has no key. */
function unknownKey(id: string): KeyError {
  return new KeyError('ERR_KEY_UNKNOWN', `there is no key of ${describeId(id)}`);
}

/** The key is not the one that was meant. */
function anotherKey(id: string): KeyError {
  return new KeyError('ERR_KEY_FINGERPRINT', `the key of ${describeId(id)} is another one`);
}

/** No new minion may have such an id. */
function unusualId(id: string): KeyError {
  const expected =
    'expected 1 to 128 letters, digits, ".", "-", "_", ":", "@" or "+", the first a letter or digit, and no ".."';
  const text = `${describeId(id)}: ${expected}; saltbridge: minion_ids: salt takes what Salt takes`;
  return new KeyError('ERR_KEY_ID', text);
}

/** An id for people: ids may hold line breaks and terminal codes. */
function describeId(id: string): string {
  return JSON.stringify(id);
}

/**
 * Moves keys on disk, then in memory, then tells. One at a time; whether a move is permitted has
 * been decided before.
 */
export class KeyMoves {
  readonly #dir: KeyFiles;
  readonly #table: KeyTable;
  readonly #now: () => number;
  readonly #tell: (change: KeyChange) => void;
  readonly #isShared: boolean;

  /** @param isShared - other members of a cluster make changes as well, and see to them */
  constructor(
    { dir, isShared }: { readonly dir: KeyFiles; readonly isShared: boolean },
    table: KeyTable,
    now: () => number,
    tell: (change: KeyChange) => void,
  ) {
    this.#dir = dir;
    this.#isShared = isShared;
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
  async load(isValid: (id: string) => boolean): Promise<void> {
    // In this order the state that counts comes last [WIRE 6.2].
    for (const state of ['pending', 'accepted', 'rejected'] as const) {
      for (const [id, file] of await this.#dir.readAll(state)) {
        if (isValid(id)) this.#table.set(id, { id, state, ...file });
      }
    }
    for (const [id, file] of await this.#dir.readAll('denied')) {
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
      const to = denied === undefined ? null : 'denied';
      this.#tell(describeChange(id, from, to, this.#isShared));
    }
    if (record?.state !== before?.state || record?.pem !== before?.pem) {
      const [from, to] = [before?.state ?? null, record?.state ?? null];
      this.#tell(describeChange(id, from, to, this.#isShared));
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

/** What the store has to know of ids and keys; minion-protocol has these functions. */
export interface KeyRules {
  /** Whether it can be an id at all: what is not is never looked up on the disk. */
  isValidMinionId(id: string): boolean;
  /** Whether an id without an accepted key may get one. */
  isNewMinionId(id: string): boolean;
  /** Text of a key in the form in which keys are compared [WIRE 6.2]. */
  cleanKeyText(pem: string): string;
  /** [WIRE 7.7] */
  fingerprint(pem: string): string;
}

/** How many keys may wait for an operator. */
export interface PendingLimits {
  /** In all; 0: any number. */
  readonly pendingKeys: number;
  /** From one address; 0: any number. */
  readonly pendingKeysPerAddress: number;
}

const defaultPendingLimits: PendingLimits = { pendingKeys: 500, pendingKeysPerAddress: 64 };

/** How the key store is opened. */
export interface KeyStoreOptions {
  /** `pki_dir`. */
  readonly directory: string;
  readonly rules: KeyRules;
  /** Pending keys in all; 0: any number. Default 500. */
  readonly pendingKeys?: number;
  /** Pending keys from one address; 0: any number. Default 64. */
  readonly pendingKeysPerAddress?: number;
  /** Default: `Date.now`. */
  readonly now?: () => number;
}

/** Which keys of an id are meant. */
export interface KeyChoice {
  /** Only a key of this fingerprint. */
  readonly fingerprint?: string;
  /** Only a key that is in one of these places, whatever other options say. */
  readonly from?: readonly KeyPlace[];
}

/** Which keys besides pending ones {@link KeyStore.accept} takes, as options of `salt-key`. */
export interface AcceptOptions extends KeyChoice {
  readonly includeRejected?: boolean;
  readonly includeDenied?: boolean;
}

/** Which keys besides pending ones {@link KeyStore.reject} takes, as options of `salt-key`. */
export interface RejectOptions extends KeyChoice {
  readonly includeAccepted?: boolean;
  readonly includeDenied?: boolean;
}

type Listener = (change: KeyChange) => void;

/**
 * The keys of all minions. Reading is from memory; each transition is on disk when its promise
 * resolves, and transitions follow each other in the order of the calls. What others do in the
 * directory, such as Salt's own `salt-key`, is noticed and told like what is done here.
 */
export class KeyStore {
  readonly #rules: KeyRules;
  #limits: PendingLimits;
  readonly #table = new KeyTable();
  readonly #moves: KeyMoves;
  readonly #listeners = new Set<Listener>();
  readonly #stopWatching: () => void;
  readonly #mutex = new KeyedMutex();
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Use {@link openKeyStore}, or {@link openConfiguredKeys}.
   * @param watch - calls the listener with ids that others may have changed; `undefined`: any
   */
  constructor(
    dir: KeyFiles,
    options: Omit<KeyStoreOptions, 'directory'> & PendingLimits & { readonly isShared?: boolean },
    watch: (onDirty: (ids: readonly string[] | undefined) => void) => () => void,
  ) {
    this.#rules = options.rules;
    this.#limits = options;
    const { isShared = false, now = Date.now } = options;
    this.#moves = new KeyMoves({ dir, isShared }, this.#table, now, (change) => {
      for (const listener of this.#listeners) listener(change);
    });
    // A rescan that fails is made again by the next change or the next call of rescan.
    this.#stopWatching = watch((ids) => void this.#rescanIds(ids).catch(() => {}));
  }

  /** Whether a key may be stored under this id: it has an accepted one, or may be new. */
  takesId(id: string): boolean {
    return this.isAccepted(id) || this.#rules.isNewMinionId(id);
  }

  /** The accepted, pending or rejected key of an id. */
  get(id: string): KeyRecord | undefined {
    return this.#table.get(id);
  }

  isAccepted(id: string): boolean {
    return this.get(id)?.state === 'accepted';
  }

  /** The accepted key of an id. */
  acceptedPem(id: string): string | undefined {
    const known = this.get(id);
    return known?.state === 'accepted' ? known.pem : undefined;
  }

  /** The key last denied under an id. */
  denied(id: string): DeniedKey | undefined {
    return this.#table.denied(id);
  }

  /** How often another key was offered under this id since the start. */
  conflicts(id: string): number {
    return this.#table.conflicts(id);
  }

  /** Ids of accepted keys, sorted; cheap to ask for again. */
  acceptedIds(): readonly string[] {
    return this.#table.acceptedIds();
  }

  list(): KeyList {
    return this.#table.list();
  }

  /** Calls the listener for each change from now on, until the function given is called. */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Runs work that decides about the key of an id and then changes it, while no other such work of
   * this id runs: what it has read stays true. The work calls the transitions of this store, but
   * neither this method for the same id nor one of the `…Matching` ones: they would wait for it.
   */
  exclusive<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#mutex.run(id, work);
  }

  /**
   * Stores the key of an id that has none as pending. The same key again changes nothing.
   * @param address - where it came from, for the bound per address
   * @returns false when there are as many pending keys as permitted; then nothing is stored
   * @throws KeyError ERR_KEY_ID, ERR_KEY_STATE when the id has another key, ERR_PKI_DIR
   */
  pend(id: string, pem: string, address?: string): Promise<boolean> {
    return this.#inTurnOfTaken(id, async () => {
      const present = this.#table.get(id);
      if (present?.state === 'pending' && this.#isSameKey(present.pem, pem)) return true;
      if (present !== undefined) throw wrongState(id, present.state);
      if (this.#isFull(address)) return false;
      await this.#moves.put('pending', id, pem, address);
      return true;
    });
  }

  /** Bounds the keys that wait from now on; those that wait already may stay. */
  setPendingLimits(limits: PendingLimits): void {
    this.#limits = limits;
  }

  /**
   * Stores a key as accepted, whatever the id had before: for automatic acceptance.
   * @throws KeyError ERR_KEY_ID, ERR_PKI_DIR
   */
  acceptNew(id: string, pem: string): Promise<void> {
    return this.#inTurnOfTaken(id, () => this.#moves.put('accepted', id, pem));
  }

  /**
   * Accepts a key that its minion need not have shown. A pending key of the id gives way to it; the
   * key that is accepted already changes nothing.
   * @throws KeyError ERR_KEY_ID, ERR_KEY_STATE when the id has another accepted key or a rejected
   * one, ERR_PKI_DIR
   */
  admit(id: string, pem: string): Promise<void> {
    return this.#inTurnOfTaken(id, async () => {
      const present = this.#table.get(id);
      if (present?.state === 'accepted' && this.#isSameKey(present.pem, pem)) return;
      if (present !== undefined && present.state !== 'pending') throw wrongState(id, present.state);
      await this.#moves.put('accepted', id, pem);
    });
  }

  /**
   * Rejects the key of an id that has none, or a pending one: for automatic rejection. A pending
   * key is the one that is kept.
   * @throws KeyError ERR_KEY_ID, ERR_KEY_STATE, ERR_PKI_DIR
   */
  rejectNew(id: string, pem: string): Promise<void> {
    return this.#inTurnOfTaken(id, async () => {
      const present = this.#table.get(id);
      if (present === undefined) await this.#moves.put('rejected', id, pem);
      else if (present.state === 'pending') await this.#moves.move('pending', 'rejected', id);
      else throw wrongState(id, present.state);
    });
  }

  /**
   * Keeps a key that was offered in place of another as denied, in place of the last such.
   * @throws KeyError ERR_KEY_ID, ERR_PKI_DIR
   */
  deny(id: string, pem: string): Promise<void> {
    return this.#inTurnOfTaken(id, async () => {
      this.#table.countConflict(id);
      if (this.#table.denied(id)?.pem === pem) return;
      await this.#moves.put('denied', id, pem);
    });
  }

  /**
   * Accepts a pending key; with the options a rejected or the denied one.
   * @throws KeyError ERR_KEY_UNKNOWN, ERR_KEY_STATE, ERR_KEY_FINGERPRINT, ERR_KEY_ID, ERR_PKI_DIR
   */
  accept(id: string, options: AcceptOptions = {}): Promise<void> {
    return this.#inTurnOfTaken(id, async () => {
      const from = this.#source(id, acceptSources(options));
      this.#checkFingerprint(id, from, options.fingerprint);
      await this.#moves.move(from, 'accepted', id);
    });
  }

  /**
   * Rejects a pending key; with the options an accepted or the denied one.
   * @throws KeyError ERR_KEY_UNKNOWN, ERR_KEY_STATE, ERR_KEY_FINGERPRINT, ERR_KEY_ID, ERR_PKI_DIR
   */
  reject(id: string, options: RejectOptions = {}): Promise<void> {
    return this.#inTurn(id, async () => {
      const from = this.#source(id, rejectSources(options));
      this.#checkFingerprint(id, from, options.fingerprint);
      await this.#moves.move(from, 'rejected', id);
    });
  }

  /**
   * Deletes every key of an id, the denied one too, or those that are chosen.
   * @throws KeyError ERR_KEY_UNKNOWN, ERR_KEY_FINGERPRINT, ERR_KEY_ID, ERR_PKI_DIR
   */
  delete(id: string, { from = keyPlaces, fingerprint }: KeyChoice = {}): Promise<void> {
    return this.#inTurn(id, async () => {
      const state = this.#table.get(id)?.state;
      const denied = this.#table.denied(id) && ('denied' as const);
      const all = [state, denied].filter((place) => place !== undefined);
      const among = all.filter((place) => from.includes(place));
      if (among.length === 0) throw unknownKey(id);
      const chosen = among.filter((place) => this.#hasFingerprint(id, place, fingerprint));
      if (chosen.length === 0) throw anotherKey(id);
      if (chosen.length === all.length) await this.#moves.removeAll(id);
      else for (const place of chosen) await this.#moves.remove(place, id);
    });
  }

  /** Accepts what matches a glob, and gives the ids. @throws KeyError ERR_PKI_DIR */
  acceptMatching(glob: string, options: AcceptOptions = {}): Promise<string[]> {
    return this.#eachMatching(glob, acceptSources(options), (id) => this.accept(id, options));
  }

  /** Rejects what matches a glob, and gives the ids. @throws KeyError ERR_PKI_DIR */
  rejectMatching(glob: string, options: RejectOptions = {}): Promise<string[]> {
    return this.#eachMatching(glob, rejectSources(options), (id) => this.reject(id, options));
  }

  /** Deletes what matches a glob, in any state, and gives the ids. @throws KeyError ERR_PKI_DIR */
  deleteMatching(glob: string, choice: KeyChoice = {}): Promise<string[]> {
    return this.#eachMatching(glob, choice.from ?? keyPlaces, (id) => this.delete(id, choice));
  }

  /**
   * Reads the whole directory, telling nobody: before anybody listens.
   * @throws KeyError ERR_PKI_DIR
   */
  load(): Promise<void> {
    return this.#enqueue(async () => this.#moves.load((id) => this.#rules.isValidMinionId(id)));
  }

  /** Compares everything with the directory, for changes that no watch told. */
  async rescan(): Promise<void> {
    await this.#rescanIds(undefined);
  }

  /** Stops watching and waits for transitions under way. May be called twice. */
  async close(): Promise<void> {
    this.#stopWatching();
    await this.#last;
  }

  #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    if (!this.#rules.isValidMinionId(id)) {
      const message = `a text of ${id.length} characters that cannot be the id of a minion`;
      return Promise.reject(new KeyError('ERR_KEY_ID', message));
    }
    return this.#enqueue(work);
  }

  /** As {@link #inTurn}, for what stores or accepts a key. */
  #inTurnOfTaken<T>(id: string, work: () => Promise<T>): Promise<T> {
    if (!this.takesId(id)) return Promise.reject(unusualId(id));
    return this.#inTurn(id, work);
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  #source(id: string, places: readonly KeyPlace[]): KeyPlace {
    const present = this.#table.get(id);
    const denied = this.#table.denied(id);
    if (present !== undefined && places.includes(present.state)) return present.state;
    if (denied !== undefined && places.includes('denied')) return 'denied';
    if (present !== undefined) throw wrongState(id, present.state);
    throw denied === undefined ? unknownKey(id) : wrongState(id, 'denied');
  }

  async #eachMatching(
    glob: string,
    places: readonly KeyPlace[],
    work: (id: string) => Promise<void>,
  ): Promise<string[]> {
    const matches = compileGlob(glob, new WorkBudget(userWork));
    const done: string[] = [];
    let refused: KeyError | undefined;
    for (const id of this.#table.ids().filter(matches)) {
      const state = this.#table.get(id)?.state;
      const isDenied = this.#table.denied(id) !== undefined && places.includes('denied');
      if (!isDenied && (state === undefined || !places.includes(state))) continue;
      const isDone = await this.exclusive(id, () => work(id)).then(
        () => true,
        (error: unknown) => {
          // Another fingerprint, or moved by somebody else in the meantime: not one of them.
          if (!(error instanceof KeyError) || error.code === 'ERR_PKI_DIR') throw error;
          if (error.code === 'ERR_KEY_ID') refused = error;
          return false;
        },
      );
      if (isDone) done.push(id);
    }
    if (refused !== undefined && done.length === 0) throw refused;
    return done;
  }

  #checkFingerprint(id: string, from: KeyPlace, wanted: string | undefined): void {
    if (!this.#hasFingerprint(id, from, wanted)) throw anotherKey(id);
  }

  #hasFingerprint(id: string, place: KeyPlace, wanted: string | undefined): boolean {
    const pem = place === 'denied' ? this.#table.denied(id)?.pem : this.#table.get(id)?.pem;
    return wanted === undefined || wanted.toLowerCase() === this.#rules.fingerprint(pem ?? '');
  }

  #rescanIds(ids: readonly string[] | undefined): Promise<void> {
    return this.#enqueue(async () => {
      for (const id of ids ?? (await this.#moves.allIds())) {
        if (this.#rules.isValidMinionId(id)) await this.#moves.reread(id);
      }
    });
  }

  #isSameKey(a: string, b: string): boolean {
    return this.#rules.cleanKeyText(a) === this.#rules.cleanKeyText(b);
  }

  #isFull(address: string | undefined): boolean {
    const { pendingKeys, pendingKeysPerAddress } = this.#limits;
    if (pendingKeys > 0 && this.#table.countPending() >= pendingKeys) return true;
    if (address === undefined || pendingKeysPerAddress === 0) return false;
    return this.#table.countPending(address) >= pendingKeysPerAddress;
  }
}

/**
 * Reads all keys of a PKI directory and keeps watching it.
 * @throws KeyError ERR_PKI_DIR
 */
export async function openKeyStore(options: KeyStoreOptions): Promise<KeyStore> {
  const dir = await PkiDir.open(options.directory);
  const watch = (onDirty: (ids: readonly string[] | undefined) => void): (() => void) =>
    watchPkiDir(dir, onDirty);
  return loaded(new KeyStore(dir, { ...defaultPendingLimits, ...options }, watch));
}

async function loaded(store: KeyStore): Promise<KeyStore> {
  try {
    await store.load();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

function acceptSources({ from, includeRejected, includeDenied }: AcceptOptions) {
  return from ?? pendingAnd({ rejected: includeRejected, denied: includeDenied });
}

function rejectSources({ from, includeAccepted, includeDenied }: RejectOptions) {
  return from ?? pendingAnd({ accepted: includeAccepted, denied: includeDenied });
}

function pendingAnd(
  others: Readonly<Partial<Record<KeyPlace, boolean | undefined>>>,
): readonly KeyPlace[] {
  return ['pending', ...keyPlaces.filter((place) => others[place] === true)];
}

const prefix: Key = ['accepted-keys'];

/** Rows `accepted-keys/<id>`. */
const acceptedRow = defineRow({
  name: 'accepted key',
  schema: Type.Object({ digest: Bytes }),
  unversioned: (digest) => ({ digest }),
  isUnversioned: ({ length }) => length === digestBytes,
});

/** Bytes of a SHA-256. */
const digestBytes = 32;

/** An accepted key. */
interface AcceptedKey {
  readonly id: string;
  readonly pem: string;
}

/**
 * Which keys this master has taken for accepted, in its store: so that a start notices those that
 * were deleted or replaced while it was not running, and ends what they could still do.
 */
export class AcceptedKeys {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Ids that were accepted when the master ran last, and are no longer, or with another key. */
  async lost(accepted: readonly AcceptedKey[]): Promise<string[]> {
    const digests = new Map(accepted.map(({ id, pem }) => [id, digestOf(pem)]));
    const lost: string[] = [];
    for await (const entry of this.#store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (digests.get(id)?.equals(acceptedRow.decode(entry).digest) !== true) lost.push(id);
    }
    return lost;
  }

  /** Takes these keys for the accepted ones, and no others. Only what differs is written. */
  async replace(accepted: readonly AcceptedKey[]): Promise<void> {
    const digests = new Map(accepted.map(({ id, pem }) => [id, digestOf(pem)]));
    const operations: Operation[] = [];
    for await (const entry of this.#store.list(prefix)) {
      const { key } = entry;
      const id = key.at(-1) ?? '';
      const digest = digests.get(id);
      if (digest === undefined) operations.push({ op: 'delete', key });
      else if (digest.equals(acceptedRow.decode(entry).digest)) digests.delete(id);
    }
    for (const [id, digest] of digests) {
      operations.push({ op: 'put', key: [...prefix, id], value: acceptedRow.encode({ digest }) });
    }
    await writeInParts(this.#store, operations);
  }

  /** Takes the key of an id for accepted; `undefined`: it has none. Durable when it resolves. */
  async note(id: string, pem: string | undefined): Promise<void> {
    const key = [...prefix, id];
    await this.#store.write([
      pem === undefined
        ? { op: 'delete', key }
        : { op: 'put', key, value: acceptedRow.encode({ digest: digestOf(pem) }) },
    ]);
  }
}

function digestOf(pem: string): Buffer {
  return createHash('sha256').update(cleanKeyText(pem)).digest();
}

/** Keys that members of a cluster share, and what tells of their changes. */
export interface SharedKeyFiles {
  readonly files: KeyFiles;
  readonly watch: (onDirty: (ids: readonly string[] | undefined) => void) => () => void;
}

/**
 * The keys in the PKI directory of a configuration, or those of its cluster.
 * @throws KeyError ERR_PKI_DIR
 */
export async function openConfiguredKeys(
  config: LiveConfig,
  now: () => number = Date.now,
  shared?: SharedKeyFiles,
): Promise<KeyStore> {
  const { pkiDir, hashType } = config.fixed;
  const { pendingKeys, pendingKeysPerAddress } = config.current.limits;
  const options: Omit<KeyStoreOptions, 'directory'> & PendingLimits = {
    rules: {
      isValidMinionId,
      isNewMinionId: (id) => config.current.minionIds === 'salt' || isNewMinionId(id),
      cleanKeyText,
      fingerprint: (pem) => keyFingerprint(pem, hashType),
    },
    pendingKeys,
    pendingKeysPerAddress,
    now,
  };
  const keys =
    shared === undefined
      ? await openKeyStore({ directory: pkiDir, ...options })
      : await loaded(new KeyStore(shared.files, { ...options, isShared: true }, shared.watch));
  config.onChange(({ limits }) => keys.setPendingLimits(limits));
  return keys;
}

/** An id as a glob that means this id and nothing else. */
export function literalGlob(id: string): string {
  return id.replace(/[*?[]/g, '[$&]');
}

import { compileGlob } from '../../minion-protocol/index.ts';
import { KeyedMutex } from '../../runtime/index.ts';
import { KeyError } from './errors.ts';
import { KeyMoves } from './key-moves.ts';
import {
  type DeniedKey,
  type KeyChange,
  type KeyList,
  type KeyRecord,
  KeyTable,
} from './key-table.ts';
import { type KeyPlace, keyPlaces, PkiDir } from './pki-dir.ts';
import { watchPkiDir } from './pki-watch.ts';
import { anotherKey, unknownKey, unusualId, wrongState } from './refusals.ts';

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

/** What {@link KeyStore.accept} may take besides pending keys, as options of `salt-key`. */
export interface AcceptOptions extends KeyChoice {
  readonly includeRejected?: boolean;
  readonly includeDenied?: boolean;
}

/** What {@link KeyStore.reject} may take besides pending keys, as options of `salt-key`. */
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

  /** Use {@link openKeyStore}. */
  constructor(dir: PkiDir, options: KeyStoreOptions & PendingLimits) {
    this.#rules = options.rules;
    this.#limits = options;
    this.#moves = new KeyMoves(dir, this.#table, options.now ?? Date.now, (change) => {
      for (const listener of this.#listeners) listener(change);
    });
    // A rescan that fails is made again by the next change or the next call of rescan.
    this.#stopWatching = watchPkiDir(dir, (ids) => void this.#rescanIds(ids).catch(() => {}));
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
      // protection: pending-without-end
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
    // protection: new-ids
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
    const matches = compileGlob(glob);
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
  const store = new KeyStore(dir, { ...defaultPendingLimits, ...options });
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

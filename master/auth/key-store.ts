/** The keys of all minions, and their transitions. */

import { createPublicKey } from 'node:crypto';
import type { HashType, LiveConfig } from '#config';
import { cleanKeyText, isNewMinionId, isValidMinionId, keyFingerprint } from '#minion-protocol';
import { KeyedMutex } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { KeyState } from '../api/index.ts';
import { KeyError } from './key-errors.ts';
import { type KeyChange, KeyMoves, type KeySource } from './key-moves.ts';
import { type DeniedKey, type KeyList, type KeyRecord, KeyTable } from './key-table.ts';
import { keyPlaces, openPkiFiles } from './pki-directory.ts';

/** The key is not where it would have to be. */
function wrongState(id: string, state: KeyState): KeyError {
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

/** How many keys may wait for an operator. */
export interface PendingLimits {
  /** In all; 0: any number. Default 500. */
  readonly pendingKeys?: number;
  /** From one address; 0: any number. Default 64. */
  readonly pendingKeysPerAddress?: number;
}

/** How a key store is opened. */
export interface KeyStoreOptions extends PendingLimits {
  /** Of fingerprints. Default `sha256`. */
  readonly hashType?: HashType;
  /** Whether an id without an accepted key may get one. Default: as new minions may be called. */
  readonly takesNewId?: (id: string) => boolean;
  /** Whether an operator may accept the text of a key. Default: any text. */
  readonly isAcceptable?: (pem: string) => boolean;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Which keys of an id are meant. */
export interface KeyChoice {
  /** Only a key of this fingerprint. */
  readonly fingerprint?: string;
  /** Only a key that is in one of these places. Default: a pending one; to delete, any. */
  readonly from?: readonly KeyState[];
}

const pendingOnly: readonly KeyState[] = ['pending'];

type Listener = (change: KeyChange) => void;

/**
 * The keys of all minions. Reading is from memory; each transition is on disk when its promise
 * resolves, and transitions follow each other in the order of the calls. What others do in the
 * directory, such as Salt's own `salt-key`, is noticed and told like what is done here.
 */
export class KeyStore {
  readonly #options: KeyStoreOptions;
  #limits: PendingLimits;
  readonly #table = new KeyTable();
  readonly #moves: KeyMoves;
  readonly #listeners = new Set<Listener>();
  readonly #stopWatching: () => void;
  readonly #mutex = new KeyedMutex();
  #last: Promise<unknown> = Promise.resolve();

  private constructor(source: KeySource, options: KeyStoreOptions) {
    this.#options = options;
    this.#limits = options;
    const { now = Date.now } = options;
    this.#moves = new KeyMoves(source, this.#table, now, (change) => {
      for (const listener of this.#listeners) listener(change);
    });
    // A rescan that fails is made again by the next change or the next call of rescan.
    this.#stopWatching = source.watch((ids) => void this.#rescanIds(ids).catch(() => {}));
  }

  /** Reads all keys, and follows what others do to them. @throws KeyError ERR_PKI_DIR */
  static async open(source: KeySource, options: KeyStoreOptions = {}): Promise<KeyStore> {
    const store = new KeyStore(source, options);
    try {
      // Nobody listens yet, so that nothing is told.
      await store.#enqueue(() => store.#moves.load(isValidMinionId));
    } catch (error) {
      await store.close();
      throw error;
    }
    return store;
  }

  /** Whether a key may be stored under this id: it has an accepted one, or may be new. */
  takesId(id: string): boolean {
    const { takesNewId = isNewMinionId } = this.#options;
    return this.isAccepted(id) || takesNewId(id);
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
      if (present?.state === 'pending' && isSameKey(present.pem, pem)) return true;
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
      if (present?.state === 'accepted' && isSameKey(present.pem, pem)) return;
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
   * Accepts a key.
   * @throws KeyError ERR_KEY_UNKNOWN, ERR_KEY_STATE, ERR_KEY_FINGERPRINT, ERR_KEY_ID,
   * ERR_KEY_INVALID, ERR_PKI_DIR
   */
  accept(id: string, choice: KeyChoice = {}): Promise<void> {
    return this.#inTurnOfTaken(id, () => this.#move(id, 'accepted', choice));
  }

  /**
   * Rejects a key.
   * @throws KeyError ERR_KEY_UNKNOWN, ERR_KEY_STATE, ERR_KEY_FINGERPRINT, ERR_KEY_ID, ERR_PKI_DIR
   */
  reject(id: string, choice: KeyChoice = {}): Promise<void> {
    return this.#inTurn(id, () => this.#move(id, 'rejected', choice));
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

  /**
   * Accepts, rejects or deletes what matches a glob.
   * @returns the ids, and where their keys were
   * @throws KeyError ERR_PKI_DIR; ERR_KEY_ID, ERR_KEY_INVALID if nothing else matched
   */
  async eachMatching(
    glob: string,
    act: 'accept' | 'reject' | 'delete',
    choice: KeyChoice = {},
  ): Promise<{ readonly id: string; readonly from: KeyState }[]> {
    const places = choice.from ?? (act === 'delete' ? keyPlaces : pendingOnly);
    const done: { id: string; from: KeyState }[] = [];
    let refused: KeyError | undefined;
    for (const id of this.#table.ids().filter(compileGlob(glob))) {
      const from = this.#placeAmong(id, places);
      if (from === undefined) continue;
      try {
        await this.exclusive(id, () => this[act](id, choice));
        done.push({ id, from });
      } catch (error) {
        // Another fingerprint, or moved by somebody else in the meantime: not one of them.
        if (!(error instanceof KeyError) || error.code === 'ERR_PKI_DIR') throw error;
        if (['ERR_KEY_ID', 'ERR_KEY_INVALID'].includes(error.code)) refused = error;
      }
    }
    if (refused !== undefined && done.length === 0) throw refused;
    return done;
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
    if (!isValidMinionId(id)) {
      const { length }: string = id;
      const message = `a text of ${length} characters that cannot be the id of a minion`;
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

  async #move(
    id: string,
    to: 'accepted' | 'rejected',
    { from = pendingOnly, fingerprint }: KeyChoice,
  ): Promise<void> {
    const place = this.#placeAmong(id, from);
    const other = this.#placeAmong(id, keyPlaces);
    if (other === undefined) throw unknownKey(id);
    if (place === undefined) throw wrongState(id, other);
    if (!this.#hasFingerprint(id, place, fingerprint)) throw anotherKey(id);
    const { isAcceptable = () => true } = this.#options;
    if (to === 'accepted' && !isAcceptable(this.#pemIn(id, place))) {
      throw new KeyError('ERR_KEY_INVALID', `Unable to accept invalid key for ${id}`);
    }
    await this.#moves.move(place, to, id);
  }

  /** Where an id has a key, of these places; the denied key comes last. */
  #placeAmong(id: string, places: readonly KeyState[]): KeyState | undefined {
    const state = this.#table.get(id)?.state;
    if (state !== undefined && places.includes(state)) return state;
    const isDenied = this.#table.denied(id) !== undefined && places.includes('denied');
    return isDenied ? 'denied' : undefined;
  }

  #hasFingerprint(id: string, place: KeyState, wanted: string | undefined): boolean {
    const { hashType } = this.#options;
    const pem = this.#pemIn(id, place);
    return wanted === undefined || wanted.toLowerCase() === keyFingerprint(pem, hashType);
  }

  #pemIn(id: string, place: KeyState): string {
    const key = place === 'denied' ? this.#table.denied(id) : this.#table.get(id);
    return key?.pem ?? '';
  }

  #rescanIds(ids: readonly string[] | undefined): Promise<void> {
    return this.#enqueue(async () => {
      for (const id of ids ?? (await this.#moves.allIds())) {
        if (isValidMinionId(id)) await this.#moves.reread(id);
      }
    });
  }

  #isFull(address: string | undefined): boolean {
    const { pendingKeys = 500, pendingKeysPerAddress = 64 } = this.#limits;
    if (pendingKeys > 0 && this.#table.countPending() >= pendingKeys) return true;
    if (address === undefined || pendingKeysPerAddress === 0) return false;
    return this.#table.countPending(address) >= pendingKeysPerAddress;
  }
}

function isSameKey(a: string, b: string): boolean {
  return cleanKeyText(a) === cleanKeyText(b);
}

/**
 * The keys in the PKI directory of a configuration, or those of its cluster.
 * @throws KeyError ERR_PKI_DIR
 */
export async function openConfiguredKeys(
  config: LiveConfig,
  now: () => number = Date.now,
  shared?: KeySource,
): Promise<KeyStore> {
  const { pkiDir, hashType } = config.fixed;
  const keys = await KeyStore.open(
    shared ? { ...shared, isShared: true } : await openPkiFiles(pkiDir),
    {
      ...config.current.limits,
      hashType,
      isAcceptable: isPublicKey,
      takesNewId: (id) => config.current.minionIds === 'salt' || isNewMinionId(id),
      now,
    },
  );
  config.onChange(({ limits }) => keys.setPendingLimits(limits));
  return keys;
}

/** Whether a text is an RSA public key, which `salt-key` requires of a key that it accepts. */
export function isPublicKey(pem: string): boolean {
  try {
    return pem.includes('PUBLIC KEY') && createPublicKey(pem).asymmetricKeyType === 'rsa';
  } catch {
    return false;
  }
}

import { createPublicKey } from 'node:crypto';
import type { HashType, LiveConfig } from '#config';
import { cleanKeyText, isNewMinionId, isValidMinionId, keyFingerprint } from '#minion-protocol';
import { KeyedMutex, sortInSlices, userWork, WorkBudget } from '#runtime';
import { compileGlobs, isLiteralGlob } from '#template/python/fnmatch.ts';
import type { KeyState } from '../api/index.ts';
import { type KeyChange, KeyChanger, type KeySource } from './key-changer.ts';
import { KeyError } from './key-errors.ts';
import { type DeniedKey, type KeyList, type KeyRecord, KeyTable } from './key-table.ts';
import { keyPlaces, openPkiFiles } from './pki-directory.ts';

/** Returns the error for an operation on a key in the wrong state. */
function wrongState(id: string, state: KeyState): KeyError {
  return new KeyError(
    'ERR_KEY_STATE',
    `the key of ${describeId(id)} is ${state}; the operation is not possible in this state`,
  );
}

/** Returns the error for an id without a key. */
function unknownKey(id: string): KeyError {
  return new KeyError('ERR_KEY_UNKNOWN', `${describeId(id)} has no key`);
}

/** Returns the error for a key with a different fingerprint than expected. */
function anotherKey(id: string): KeyError {
  return new KeyError(
    'ERR_KEY_FINGERPRINT',
    `the fingerprint of the key of ${describeId(id)} does not match the given one`,
  );
}

/** Returns the error for an id that the option `minion_ids` does not permit for new minions. */
function unusualId(id: string): KeyError {
  const expected =
    'an id must have 1 to 128 letters, digits, ".", "-", "_", ":", "@" or "+", start with a letter or digit, and not contain ".."';
  const text = `${describeId(id)}: ${expected}; saltbridge: minion_ids: salt permits all ids that Salt permits`;
  return new KeyError('ERR_KEY_ID', text);
}

/**
 * Quotes an id for messages, because it may contain line breaks and control sequences of terminals.
 */
function describeId(id: string): string {
  return JSON.stringify(id);
}

/** Limits on the number of pending keys. */
export interface PendingLimits {
  /** Maximum number of pending keys in total. 0 means no limit. Default: 500. */
  readonly pendingKeys?: number;
  /** Maximum number of pending keys from one address. 0 means no limit. Default: 64. */
  readonly pendingKeysPerAddress?: number;
}

/** Options of a key store. */
export interface KeyStoreOptions extends PendingLimits {
  /** Hash algorithm of fingerprints. Default: `sha256`. */
  readonly hashType?: HashType;
  /**
   * Returns whether a key may be stored for an id that has no accepted key. Default:
   * {@link isNewMinionId}, the check that applies unless the option `minion_ids` is `salt`.
   */
  readonly takesNewId?: (id: string) => boolean;
  /** Returns whether an operator may accept this key text. Default: any text. */
  readonly isAcceptable?: (pem: string) => boolean;
  /** Clock, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Conditions that a key must meet for an operation. */
export interface KeyChoice {
  /** Fingerprint that the key must have. Default: any. */
  readonly fingerprint?: string;
  /**
   * States in which the key may be before the operation. Default: pending; for a deletion, all
   * states.
   */
  readonly from?: readonly KeyState[];
}

const pendingOnly: readonly KeyState[] = ['pending'];
/** Estimated work for looking up a key by its id, in steps of a `WorkBudget`. */
const stepsOfLookup = 20;
/**
 * Cost of changing one key, in steps of a {@link WorkBudget}. It does not include the write to the
 * disk.
 */
const stepsOfChange = 2000;

type Listener = (change: KeyChange) => void;

/**
 * Keys of all minions. Keys are read from memory. A change is on disk when its promise resolves,
 * and changes are performed in the order of the calls. If another program changes the directory,
 * for example Salt's `salt-key`, the change is detected and reported too.
 */
export class KeyStore {
  readonly #options: KeyStoreOptions;
  #limits: PendingLimits;
  readonly #table = new KeyTable();
  readonly #moves: KeyChanger;
  readonly #listeners = new Set<Listener>();
  readonly #stopWatching: () => void;
  readonly #mutex = new KeyedMutex();
  #last: Promise<unknown> = Promise.resolve();

  private constructor(source: KeySource, options: KeyStoreOptions) {
    this.#options = options;
    this.#limits = options;
    const { now = Date.now } = options;
    this.#moves = new KeyChanger(source, this.#table, now, (change) => {
      for (const listener of this.#listeners) listener(change);
    });
    // The next change or the next call of `rescan` repeats a failed rescan.
    this.#stopWatching = source.watch((ids) => void this.#rescanIds(ids).catch(() => {}));
  }

  /** Reads all keys, and watches for external changes. @throws KeyError ERR_PKI_DIR */
  static async open(source: KeySource, options: KeyStoreOptions = {}): Promise<KeyStore> {
    const store = new KeyStore(source, options);
    try {
      // No listener is registered yet, so these changes are not reported.
      await store.#enqueue(() => store.#moves.load(isValidMinionId));
    } catch (error) {
      await store.close();
      throw error;
    }
    return store;
  }

  /**
   * Whether a key may be stored for this id: the id already has an accepted key, or the option
   * `minion_ids` permits it.
   */
  takesId(id: string): boolean {
    const { takesNewId = isNewMinionId } = this.#options;
    return this.isAccepted(id) || takesNewId(id);
  }

  /** Returns the accepted, pending or rejected key of an id. */
  get(id: string): KeyRecord | undefined {
    return this.#table.get(id);
  }

  isAccepted(id: string): boolean {
    return this.get(id)?.state === 'accepted';
  }

  /** Returns the accepted key of an id. */
  acceptedPem(id: string): string | undefined {
    const known = this.get(id);
    return known?.state === 'accepted' ? known.pem : undefined;
  }

  /** Returns the last key that was denied for an id. */
  denied(id: string): DeniedKey | undefined {
    return this.#table.denied(id);
  }

  /** Returns how often a different key was offered for this id since the start of the master. */
  conflicts(id: string): number {
    return this.#table.conflicts(id);
  }

  /** Returns the ids of accepted keys, sorted. The result is cached. */
  acceptedIds(): readonly string[] {
    return this.#table.acceptedIds();
  }

  list(): KeyList {
    return this.#table.list();
  }

  /**
   * Calls the listener for each change from now on. Returns a function that removes the listener.
   */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Runs `work`, which reads the key of an id and then changes it. No other work for this id runs
   * until `work` has ended. Inside `work`, a call of this method for the same id or of
   * `eachMatching` causes a deadlock. Other methods may be called.
   */
  exclusive<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#mutex.run(id, work);
  }

  /**
   * Stores a pending key for an id that has no key. If the same key is already pending, nothing
   * changes.
   * @param address - address that sent the key, for the limit per address
   * @returns `false` if the limit of pending keys is reached. The key was then not stored
   * @throws KeyError ERR_KEY_ID, ERR_KEY_STATE if the id has another key, ERR_PKI_DIR
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

  /** Sets the limits for pending keys. Keys that are already pending remain. */
  setPendingLimits(limits: PendingLimits): void {
    this.#limits = limits;
  }

  /**
   * Stores an automatically accepted key. It replaces any other key of the id.
   * @throws KeyError ERR_KEY_ID, ERR_PKI_DIR
   */
  acceptNew(id: string, pem: string): Promise<void> {
    return this.#inTurnOfTaken(id, () => this.#moves.put('accepted', id, pem));
  }

  /**
   * Accepts a key, even if the minion has not offered it yet. Replaces a pending key of the id. If
   * the same key is already accepted, nothing changes.
   * @throws KeyError ERR_KEY_ID, ERR_KEY_STATE if the id has a different accepted key or a rejected
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
   * Rejects a key automatically. The id must have no key or a pending key. If it has a pending key,
   * that key becomes the rejected key.
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
   * Stores a key as denied, because the id has a different key. If another key of this id was
   * denied before, the new key replaces it.
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
   * Deletes the keys of an id that are in one of the states in `from` and have this fingerprint. By
   * default, deletes all keys of the id, including a denied key.
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
   * Accepts, rejects or deletes the keys of all ids that match at least one glob pattern. Skips a
   * key if its id or text is unsuitable, if its fingerprint differs, or if its state has changed in
   * the meantime.
   * @param budget - work budget of the request
   * @returns the ids whose keys were changed, with their previous states
   * @throws KeyError ERR_PKI_DIR; ERR_KEY_ID or ERR_KEY_INVALID if no key was changed and at least
   * one was skipped because of its id or text
   * @throws WorkLimitExceeded if the patterns take too much work; no key was then changed
   */
  async eachMatching(
    globs: readonly string[],
    act: 'accept' | 'reject' | 'delete',
    choice: KeyChoice = {},
    budget: WorkBudget = new WorkBudget(userWork),
  ): Promise<{ readonly id: string; readonly from: KeyState }[]> {
    const places = choice.from ?? (act === 'delete' ? keyPlaces : pendingOnly);
    const done: { id: string; from: KeyState }[] = [];
    let refused: KeyError | undefined;
    for (const id of await this.#idsMatching(globs, budget)) {
      const from = this.#placeAmong(id, places);
      if (from === undefined) continue;
      // Writing may take no turn of the event loop, for example in a store in memory.
      await budget.giveWayAfter(stepsOfChange);
      try {
        await this.exclusive(id, () => this[act](id, choice));
        done.push({ id, from });
      } catch (error) {
        // The key is skipped if its fingerprint differs, or if its state has changed in the
        // meantime.
        if (!(error instanceof KeyError) || error.code === 'ERR_PKI_DIR') throw error;
        if (['ERR_KEY_ID', 'ERR_KEY_INVALID'].includes(error.code)) refused = error;
      }
    }
    if (refused !== undefined && done.length === 0) throw refused;
    return done;
  }

  async #idsMatching(globs: readonly string[], budget: WorkBudget): Promise<string[]> {
    const matches = await compileGlobs(globs, budget);
    // Ids are looked up if possible, so that the time does not depend on the number of keys.
    const ids = globs.every(isLiteralGlob)
      ? await this.#knownIds(globs, budget)
      : this.#table.ids();
    const found: string[] = [];
    for (const id of ids) if (await matches(id)) found.push(id);
    return found;
  }

  /** Returns those of the ids that have a key, sorted and without duplicates. */
  async #knownIds(ids: readonly string[], budget: WorkBudget): Promise<string[]> {
    const known = new Set<string>();
    for (const id of ids) {
      await budget.giveWayAfter(stepsOfLookup);
      if (this.#placeAmong(id, keyPlaces) !== undefined) known.add(id);
    }
    return sortInSlices([...known], (id) => id, budget);
  }

  /** Compares all keys with the directory, to detect changes that the watcher has missed. */
  async rescan(): Promise<void> {
    await this.#rescanIds(undefined);
  }

  /** Stops watching, and waits for operations in progress. May be called more than once. */
  async close(): Promise<void> {
    this.#stopWatching();
    await this.#last;
  }

  #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    if (!isValidMinionId(id)) {
      const { length }: string = id;
      const message = `invalid minion id (a text of ${length} characters)`;
      return Promise.reject(new KeyError('ERR_KEY_ID', message));
    }
    return this.#enqueue(work);
  }

  /**
   * Queues `work`, which stores or accepts a key of the id. Rejects with ERR_KEY_ID if
   * {@link takesId} returns false for the id.
   */
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

  /**
   * Returns the state of an id's key if the state is among `places`. Otherwise returns `denied` if
   * `places` contains `denied` and the id also has a denied key. Otherwise returns `undefined`.
   */
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
 * Opens the keys in the PKI directory of a configuration, or the keys of its cluster.
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

/** Whether a text is an RSA public key. `salt-key` accepts only such keys. */
export function isPublicKey(pem: string): boolean {
  try {
    return pem.includes('PUBLIC KEY') && createPublicKey(pem).asymmetricKeyType === 'rsa';
  } catch {
    return false;
  }
}

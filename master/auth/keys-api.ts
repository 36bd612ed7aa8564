/** Implements the interface `keys`, also without a running master. */

import { type HashType, LiveConfig, type MasterConfig } from '#config';
import { cleanKeyText, generateKeyPair, isNewMinionId, keyFingerprint } from '#minion-protocol';
import { readTextIfPresent } from '#runtime';
import { openEmbeddedStore } from '#store';
import {
  type KeyInfo,
  type KeySelection,
  type KeyState,
  type KeysApi,
  MasterError,
} from '../api/index.ts';
import { KeyError } from './key-errors.ts';
import { isPublicKey, type KeyChoice, type KeyStore, openConfiguredKeys } from './key-store.ts';
import { VersionPins } from './version-check.ts';

// Warnings about an id.

/** A key under an id. */
interface NamedKey {
  readonly id: string;
  readonly pem: string;
}

/** What is unusual about a key; nothing of it keeps its minion out. */
export interface KeyMarks {
  /** Accepted ids that differ from this one in case only, or in how letters are written. */
  readonly alike?: readonly string[];
  /** Other accepted ids that have the same key. */
  readonly sharedWith?: readonly string[];
  /** No new minion may have such an id; see `minion_ids`. */
  readonly isUnusual?: true;
}

/** Tells the marks of a key beside these accepted ones. */
export function keyMarks(accepted: readonly NamedKey[]): (key: NamedKey) => KeyMarks {
  const bySpelling = idsBy(accepted, ({ id }) => foldedId(id));
  const byKey = idsBy(accepted, ({ pem }) => cleanKeyText(pem));
  return ({ id, pem }) => {
    const alike = (bySpelling.get(foldedId(id)) ?? []).filter((other) => other !== id);
    const sharedWith = (byKey.get(cleanKeyText(pem)) ?? []).filter((other) => other !== id);
    return {
      ...(alike.length === 0 ? {} : { alike }),
      ...(sharedWith.length === 0 ? {} : { sharedWith }),
      ...(isNewMinionId(id) ? {} : { isUnusual: true }),
    };
  };
}

/** Equal for ids that a person would read as one. */
function foldedId(id: string): string {
  return id.normalize('NFKC').toLowerCase();
}

function idsBy(keys: readonly NamedKey[], of: (key: NamedKey) => string): Map<string, string[]> {
  const ids = new Map<string, string[]>();
  for (const key of keys) {
    const name = of(key);
    const known = ids.get(name);
    if (known === undefined) ids.set(name, [key.id]);
    else known.push(key.id);
  }
  return ids;
}

/** A public key of the master's own. */
export interface OwnKey {
  /** File name. */
  readonly name: string;
  readonly pem: string;
}

export interface KeysApiDeps {
  readonly keys: KeyStore;
  readonly hashType: HashType;
  /** Highest protocol version that an id has proved; 0: none that is known. */
  readonly protocolOf: (id: string) => number;
  readonly unpin: (id: string) => Promise<void>;
  readonly ownKeys: () => Promise<readonly OwnKey[]>;
}

const states: readonly KeyState[] = ['accepted', 'denied', 'pending', 'rejected'];

export function createKeysApi(parts: KeysApiDeps): KeysApi {
  const { keys, hashType } = parts;
  let marks:
    | { readonly ids: readonly string[]; readonly of: ReturnType<typeof keyMarks> }
    | undefined;
  const marksOf = (): ReturnType<typeof keyMarks> => {
    // The same list until a key changes.
    const ids = keys.acceptedIds();
    if (marks?.ids !== ids) marks = { ids, of: keyMarks(keys.list().accepted) };
    return marks.of;
  };
  const inspect = (record: { id: string; pem: string }, state: KeyState): KeyInfo => ({
    ...marksOf()(record),
    id: record.id,
    state,
    fingerprint: keyFingerprint(record.pem, hashType),
    publicKey: record.pem,
    protocol: parts.protocolOf(record.id),
    conflicts: keys.conflicts(record.id),
    // Reading a key takes time, and there may be many accepted ones.
    ...(state === 'accepted' || isPublicKey(record.pem) ? {} : { isInvalid: true }),
  });
  return {
    list: async ({ state } = {}) => {
      const all = keys.list();
      const wanted = state === undefined ? states : [state];
      return wanted.flatMap((one) => all[one].map((record) => inspect(record, one)));
    },
    local: async () => {
      const own = await parts.ownKeys();
      return own.map(({ name, pem }) => ({ name, fingerprint: keyFingerprint(pem, hashType) }));
    },
    accept: async (selection) => {
      const from = statesOf(selection, ['pending']);
      const places = statesById(keys, from);
      const ids = await keys.acceptMatching(selection.match, choiceOf(selection, from));
      checkFound(ids, selection.fingerprint);
      return ids.map((id) => ({ id, from: places.get(id) ?? 'pending', to: 'accepted' }));
    },
    reject: async (selection) => {
      const from = statesOf(selection, ['pending']);
      const places = statesById(keys, from);
      const ids = await keys.rejectMatching(selection.match, choiceOf(selection, from));
      checkFound(ids, selection.fingerprint);
      return ids.map((id) => ({ id, from: places.get(id) ?? 'pending', to: 'rejected' }));
    },
    delete: async (selection) => {
      const from = statesOf(selection, states);
      const places = statesById(keys, from);
      const ids = await keys.deleteMatching(selection.match, choiceOf(selection, from));
      return ids.map((id) => ({ id, from: places.get(id) ?? 'denied' }));
    },
    create: ({ id, bits = 2048, force = false }) =>
      keys.exclusive(id, async () => {
        if (!force && keys.isAccepted(id)) return null;
        if (!(bits >= 2048 && bits <= 8192))
          throw new MasterError('ERR_ARGS', 'bits: 2048 to 8192');
        const pair = await generateKeyPair(bits);
        if (force && keys.get(id) !== undefined) await keys.delete(id);
        await keys.admit(id, cleanKeyText(pair.publicPem));
        return pair;
      }),
    unpin: parts.unpin,
  };
}

/** @throws KeyError ERR_KEY_FINGERPRINT */
function checkFound(ids: readonly string[], wanted: string | undefined): void {
  if (wanted === undefined || ids.length > 0) return;
  throw new KeyError('ERR_KEY_FINGERPRINT', 'no key that matches has this fingerprint');
}

/** @param own those of the operation itself */
function statesOf(
  { state, include = [] }: KeySelection,
  own: readonly KeyState[],
): readonly KeyState[] {
  return state === undefined ? [...own, ...include] : [state];
}

function choiceOf({ fingerprint }: KeySelection, from: readonly KeyState[]): KeyChoice {
  return fingerprint === undefined ? { from } : { from, fingerprint };
}

/** Where each id's key is, among these states; the last one counts where an id has two. */
function statesById(keys: KeyStore, among: readonly KeyState[]): Map<string, KeyState> {
  const list = keys.list();
  const inOrder = [...among].sort((left) => (left === 'denied' ? -1 : 1));
  return new Map(inOrder.flatMap((state) => list[state].map(({ id }) => [id, state] as const)));
}

// Keys without a running master, in the PKI directory itself.

/** Keys that are open. */
export interface OfflineKeys {
  /** No protocol version is known (0), and no sign-in with another key is counted. */
  readonly keys: KeysApi;
  /** May be called twice. */
  close(): Promise<void>;
}

/**
 * Opens the keys of a master that is not running. One that starts later ends what deleted and
 * rejected keys could still do; one that runs meanwhile notices every change.
 * @throws KeyError ERR_PKI_DIR; MasterError ERR_MASTER_STOPPED for those of a cluster
 */
export async function openOfflineKeys(config: MasterConfig): Promise<OfflineKeys> {
  if (config.cluster !== null) {
    throw new MasterError(
      'ERR_MASTER_STOPPED',
      'the keys of a cluster are in its store: start this master, or ask one that runs',
    );
  }
  const keys = await openConfiguredKeys(new LiveConfig(config));
  return {
    keys: createKeysApi({
      keys,
      hashType: config.hashType,
      protocolOf: () => 0,
      unpin: (id) => unpin(config, id),
      ownKeys: () => readOwnKeys(config),
    }),
    close: () => keys.close(),
  };
}

async function unpin({ stateDir }: MasterConfig, id: string): Promise<void> {
  const store = await openEmbeddedStore({ directory: `${stateDir}/store` });
  try {
    const pins = await VersionPins.open(store, 'auto');
    await pins.forget([id]);
  } finally {
    await store.close();
  }
}

/** Those that are there; none is made. */
async function readOwnKeys(config: MasterConfig): Promise<OwnKey[]> {
  const names = [
    'master.pub',
    ...(config.masterSignPubkey && !config.masterUsePubkeySignature
      ? [`${config.masterSignKeyName}.pub`]
      : []),
  ];
  const own: OwnKey[] = [];
  for (const name of names) {
    const pem = await readTextIfPresent(`${config.pkiDir}/${name}`);
    if (pem !== undefined) own.push({ name, pem });
  }
  return own;
}

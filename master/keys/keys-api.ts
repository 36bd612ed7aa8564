/** The interface to keys over the key store: see ../api.ts for what each call promises. */
import { cleanKeyText, generateKeyPair, keyFingerprint } from '../../minion-protocol/index.ts';
import type { KeyInfo, KeySelection, KeyState, KeysApi } from '../api.ts';
import type { HashType } from '../config/options.ts';
import { MasterError } from '../errors.ts';
import { KeyError } from './errors.ts';
import { keyMarks } from './key-marks.ts';
import type { KeyChoice, KeyStore } from './key-store.ts';

/** A public key of the master's own. */
export interface OwnKey {
  /** File name. */
  readonly name: string;
  readonly pem: string;
}

/** What {@link createKeysApi} needs. */
export interface KeysApiParts {
  readonly keys: KeyStore;
  readonly hashType: HashType;
  /** Highest protocol version that an id has proved; 0: none that is known. */
  readonly protocolOf: (id: string) => number;
  readonly unpin: (id: string) => Promise<void>;
  readonly ownKeys: () => Promise<readonly OwnKey[]>;
}

const states: readonly KeyState[] = ['accepted', 'denied', 'pending', 'rejected'];

export function createKeysApi(parts: KeysApiParts): KeysApi {
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

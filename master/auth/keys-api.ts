import type { HashType } from '#config';
import { cleanKeyText, keyFingerprint } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import {
  type AuditRequester,
  type KeyInfo,
  type KeySelection,
  type KeyState,
  type KeysApi,
  type WithRequester,
  workBudgetOf,
} from '../api/index.ts';
import { KeyError } from './key-errors.ts';
import { type KeyGenerator, keyOwner } from './key-generator.ts';
import { keyMarks, type MarksOfKey } from './key-marks.ts';
import { isPublicKey, type KeyStore } from './key-store.ts';
import type { KeyRecord } from './key-table.ts';

/** Public key of the master, with its file name. */
export interface OwnKey {
  /** Name of the key file. */
  readonly name: string;
  readonly pem: string;
}

export interface KeysApiDeps {
  readonly keys: KeyStore;
  readonly hashType: HashType;
  /** Returns the highest protocol version that an id has used to sign in, or 0 if it is unknown. */
  readonly protocolOf: (id: string) => number;
  readonly unpin: (id: string) => Promise<void>;
  readonly ownKeys: () => Promise<readonly OwnKey[]>;
  readonly generator: Pick<KeyGenerator, 'generateFor'>;
}

/** Cost of describing one key, in steps of a {@link WorkBudget}. */
const stepsOfKey = 2000;

const states: readonly KeyState[] = ['accepted', 'denied', 'pending', 'rejected'];

export function createKeysApi(parts: KeysApiDeps): WithRequester<KeysApi> {
  const { keys, hashType } = parts;
  let marks: { readonly accepted: readonly KeyRecord[]; readonly of: MarksOfKey } | undefined;
  const marksOf = async (
    accepted: readonly KeyRecord[],
    budget: WorkBudget,
  ): Promise<MarksOfKey> => {
    // The list stays the same object until an accepted key changes, so its marks can be cached.
    if (marks?.accepted === accepted) return marks.of;
    const of = await keyMarks(accepted, budget);
    marks = { accepted, of };
    return of;
  };
  const inspect = (
    record: { id: string; pem: string },
    state: KeyState,
    marksOfKey: MarksOfKey,
  ): KeyInfo => ({
    ...marksOfKey(record),
    id: record.id,
    state,
    fingerprint: keyFingerprint(record.pem, hashType),
    publicKey: record.pem,
    protocol: parts.protocolOf(record.id),
    conflicts: keys.conflicts(record.id),
    // Only a few keys are checked, because parsing takes time and there may be many accepted keys.
    ...(state === 'accepted' || isPublicKey(record.pem) ? {} : { isInvalid: true }),
  });
  /**
   * Accepts, rejects or deletes the keys that match the selection.
   * @param own - states that are searched if the selection does not name one
   * @throws KeyError ERR_KEY_FINGERPRINT
   */
  const change = async (
    act: 'accept' | 'reject' | 'delete',
    own: readonly KeyState[],
    { match, fingerprint, include = [], state }: KeySelection,
    by: AuditRequester | undefined,
  ): Promise<Awaited<ReturnType<KeyStore['eachMatching']>>> => {
    const from = state === undefined ? [...own, ...include] : [state];
    const choice = fingerprint === undefined ? { from } : { from, fingerprint };
    const changed = await keys.eachMatching([match].flat(), act, choice, workBudgetOf(by));
    if (changed.length > 0 || fingerprint === undefined || act === 'delete') return changed;
    throw new KeyError('ERR_KEY_FINGERPRINT', 'no matching key has this fingerprint');
  };
  return {
    list: async ({ state } = {}, by) => {
      const all = keys.list();
      const wanted = state === undefined ? states : [state];
      const budget = workBudgetOf(by);
      const marksOfKey = await marksOf(all.accepted, budget);
      const found: KeyInfo[] = [];
      for (const one of wanted) {
        for (const record of all[one]) {
          found.push(inspect(record, one, marksOfKey));
          await budget.giveWayAfter(stepsOfKey);
        }
      }
      return found;
    },
    local: async () => {
      const own = await parts.ownKeys();
      return own.map(({ name, pem }) => ({ name, fingerprint: keyFingerprint(pem, hashType) }));
    },
    accept: async (selection, by) => {
      const changed = await change('accept', ['pending'], selection, by);
      return changed.map((one) => ({ ...one, to: 'accepted' }));
    },
    reject: async (selection, by) => {
      const changed = await change('reject', ['pending'], selection, by);
      return changed.map((one) => ({ ...one, to: 'rejected' }));
    },
    delete: (selection, by) => change('delete', states, selection, by),
    create: ({ id, bits = 2048, force = false }, by) =>
      keys.exclusive(id, async () => {
        if (!force && keys.isAccepted(id)) return null;
        const pair = await parts.generator.generateFor(keyOwner(by), bits);
        if (force && keys.get(id) !== undefined) await keys.delete(id);
        await keys.admit(id, cleanKeyText(pair.publicPem));
        return pair;
      }),
    unpin: parts.unpin,
  };
}

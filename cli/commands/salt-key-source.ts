/**
 * Sources of keys for `salt-key`: the keys of the master, or wheel functions that run with the
 * rights of a user.
 */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { literalGlob } from '#acl';
import { loadMasterConfig } from '#config';
import type { KeyState, MasterApi, UserApi } from '#master';
import { isWireMap, keyFingerprint, type WireValue } from '#minion-protocol';
import { ifPresent } from '#runtime';
import { errorCodeOf } from '../errors.ts';
import { changeKey, type KeyOperation } from './key.ts';
import type { KeyPlaceName } from './salt-key-output.ts';

/** Salt's directories of keys, in Salt's order of searching. */
export const keyPlaces: readonly { readonly place: KeyPlaceName; readonly state: KeyState }[] = [
  { place: 'minions', state: 'accepted' },
  { place: 'minions_pre', state: 'pending' },
  { place: 'minions_rejected', state: 'rejected' },
  { place: 'minions_denied', state: 'denied' },
];

type LocalKeyInfo = Awaited<ReturnType<MasterApi['keys']['local']>>[number];

/** Key in a list. The public key and the fingerprint may be empty if they were not requested. */
export interface ListedKey {
  readonly id: string;
  readonly state: KeyState;
  readonly fingerprint: string;
  readonly publicKey: string;
}

/** Operations on keys that `salt-key` uses. */
export interface SaltKeySource {
  /**
   * Lists the keys of all states.
   * @param texts - property that the caller needs of each key besides its id: the public key, the
   * fingerprint, or nothing (`ids`)
   */
  list(texts: 'ids' | 'publicKey' | 'fingerprint'): Promise<readonly ListedKey[]>;
  /** Returns the fingerprints of the master's own key files. */
  local(): Promise<readonly LocalKeyInfo[]>;
  /**
   * Changes a key that was listed.
   * @returns false if the key cannot be accepted
   */
  change(operation: KeyOperation, key: ListedKey): Promise<boolean>;
}

/**
 * Accesses the keys of a master on this host. The master need not be running. A key that was
 * replaced after it was listed is not changed.
 */
export function localKeySource(api: MasterApi['keys'], configDir: string): SaltKeySource {
  return {
    list: () => api.list(),
    local: async () => {
      const own = await api.local();
      return [...own, ...(await privateHalves(own, configDir))];
    },
    change: async (operation, key) => {
      try {
        await changeKey(operation, api, key, {});
        return true;
      } catch (error) {
        if (errorCodeOf(error) === 'ERR_KEY_INVALID') return false;
        throw error;
      }
    },
  };
}

/**
 * Returns the fingerprints of the master's private key files in the PKI directory, as `salt-key -F`
 * prints them. Omits missing files.
 * @param own - public key files of the master. The private key of `NAME.pub` is in `NAME.pem`
 */
async function privateHalves(
  own: readonly LocalKeyInfo[],
  configDir: string,
): Promise<LocalKeyInfo[]> {
  const { config } = await loadMasterConfig(configDir);
  const found: LocalKeyInfo[] = [];
  for (const name of own.map((each) => each.name.replace(/\.pub$/, '.pem'))) {
    const pem = await ifPresent(readFile(path.join(config.pkiDir, name), 'utf8'));
    if (pem === undefined) continue;
    found.push({ name, fingerprint: keyFingerprint(pem, config.hashType) });
  }
  return found;
}

/**
 * Wheel functions that Salt's `salt-key --eauth` calls to list keys. Which one it calls depends on
 * what is listed for each key: id, public key or fingerprint.
 */
const listFunctions = { ids: 'key.name_match', publicKey: 'key.print', fingerprint: 'key.finger' };

/** Accesses keys through wheel functions, with the rights of a user [salt key.py _run_cmd]. */
export function userKeySource(wheel: UserApi['wheel']): SaltKeySource {
  const call = async (fun: string, kwarg: Readonly<Record<string, WireValue>>) => {
    const { return: value, success } = await wheel.run({ fun, kwarg });
    if (success && isWireMap(value)) return value;
    throw new TypeError(`the wheel function ${fun} failed: ${String(value)}`);
  };
  return {
    list: async (texts) => {
      const found = await call(listFunctions[texts], { match: '*' });
      return keyPlaces.flatMap(({ place, state }) => {
        const content = found[place] ?? [];
        const entries = Array.isArray(content)
          ? content.map((id) => [String(id), ''] as const)
          : Object.entries(content ?? {});
        return entries.map(([id, text]) => {
          const shown = String(text);
          return { id, state, publicKey: shown, fingerprint: shown };
        });
      });
    },
    local: async () => {
      const { local = {} } = await call('key.finger', { match: '*' });
      if (!isWireMap(local)) return [];
      return Object.entries(local).map(([name, text]) => ({ name, fingerprint: String(text) }));
    },
    change: async (operation, { id, state }) => {
      const include = includedBy(operation, state);
      const found = await call(`key.${operation}`, { match: literalGlob(id), ...include });
      const { minions } = found;
      return operation !== 'accept' || (Array.isArray(minions) && minions.includes(id));
    },
  };
}

/**
 * Returns the keyword argument that makes a wheel function also change keys in this state, for
 * example `{ include_rejected: true }`. Returns an empty object for pending keys and for deletions,
 * which need no argument.
 */
function includedBy(operation: KeyOperation, state: KeyState): Readonly<Record<string, boolean>> {
  return operation === 'delete' || state === 'pending' ? {} : { [`include_${state}`]: true };
}

/** Keys as `salt-key` reads and changes them: those of the master, or through wheel functions of a user. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { literalGlob } from '#acl';
import { loadMasterConfig } from '#config';
import type { KeyState, MasterApi, UserApi } from '#master';
import { isWireMap, keyFingerprint, type WireValue } from '#minion-protocol';
import { errorCodeOf } from '../errors.ts';
import { changeKey, type KeyOperation } from './key.ts';
import type { KeyPlaceName } from './salt-key-output.ts';

/** Salt's directories, in the order in which it looks into them. */
export const keyPlaces: readonly { readonly place: KeyPlaceName; readonly state: KeyState }[] = [
  { place: 'minions', state: 'accepted' },
  { place: 'minions_pre', state: 'pending' },
  { place: 'minions_rejected', state: 'rejected' },
  { place: 'minions_denied', state: 'denied' },
];

type LocalKeyInfo = Awaited<ReturnType<MasterApi['keys']['local']>>[number];

/** A key of a list. A source that is asked for ids may leave the other texts empty. */
export interface ListedKey {
  readonly id: string;
  readonly state: KeyState;
  readonly fingerprint: string;
  readonly publicKey: string;
}

/** What `salt-key` needs of keys. */
export interface SaltKeySource {
  /** Lists the keys of all states. */
  list(texts: 'ids' | 'publicKey' | 'fingerprint'): Promise<readonly ListedKey[]>;
  /** Returns fingerprints of the master's own key files. */
  local(): Promise<readonly LocalKeyInfo[]>;
  /** Changes a key that was listed. @returns false for a key that cannot be accepted */
  change(operation: KeyOperation, key: ListedKey): Promise<boolean>;
}

/** The keys of a master on this host, whether it runs or not. Keys are changed while they are those listed. */
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

/** Fingerprints of the files of private halves, which tell whether two files are the same. */
async function privateHalves(
  own: readonly LocalKeyInfo[],
  configDir: string,
): Promise<LocalKeyInfo[]> {
  const { config } = await loadMasterConfig(configDir);
  const found: LocalKeyInfo[] = [];
  for (const name of own.map((each) => each.name.replace(/\.pub$/, '.pem'))) {
    const pem = await readFile(path.join(config.pkiDir, name), 'utf8').catch(() => undefined);
    if (pem === undefined) continue;
    found.push({ name, fingerprint: keyFingerprint(pem, config.hashType) });
  }
  return found;
}

/** The wheel functions that Salt's `salt-key --eauth` calls for each kind of list. */
const listFunctions = { ids: 'key.name_match', publicKey: 'key.print', fingerprint: 'key.finger' };

/** Keys through wheel functions, with the rights of a user [salt key.py _run_cmd]. */
export function userKeySource(wheel: UserApi['wheel']): SaltKeySource {
  const call = async (fun: string, kwarg: Readonly<Record<string, WireValue>>) => {
    const { return: value, success } = await wheel.run({ fun, kwarg });
    if (success && isWireMap(value)) return value;
    throw new TypeError(`${fun} failed: ${String(value)}`);
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

/** Options of the wheel functions for states beyond their own. Deleting takes keys of any state. */
function includedBy(operation: KeyOperation, state: KeyState): Readonly<Record<string, boolean>> {
  return operation === 'delete' || state === 'pending' ? {} : { [`include_${state}`]: true };
}

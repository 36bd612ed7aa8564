import {
  cleanKeyText,
  isNewMinionId,
  isValidMinionId,
  keyFingerprint,
} from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { type KeyStore, openKeyStore } from './key-store.ts';

/** The keys in the PKI directory of a configuration. @throws KeyError ERR_PKI_DIR */
export function openConfiguredKeys(
  config: MasterConfig,
  now: () => number = Date.now,
): Promise<KeyStore> {
  return openKeyStore({
    directory: config.pkiDir,
    rules: {
      isValidMinionId,
      // Asked each time, because it can change.
      isNewMinionId: (id) => config.minionIds === 'salt' || isNewMinionId(id),
      cleanKeyText,
      fingerprint: (pem) => keyFingerprint(pem, config.hashType),
    },
    pendingKeys: config.limits.pendingKeys,
    pendingKeysPerAddress: config.limits.pendingKeysPerAddress,
    now,
  });
}

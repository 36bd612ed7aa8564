/** What proves who minions and the master are, each part opened once for all that need it. */
import type { AutoAccept } from './auto-accept.ts';
import type { KeyStore } from './key-store.ts';
import type { MasterKeyPair, MasterKeySigner } from './master-keys.ts';
import type { PublishKey } from './publish-key.ts';
import type { RsaPool } from './rsa-pool.ts';
import type { Seal, SessionKeys } from './session-keys.ts';
import type { VersionPins } from './version-pins.ts';

/** Keys and sessions of a master. */
export interface Auth {
  /** Over what the store holds of secrets. */
  readonly seal: Seal;
  readonly rsa: RsaPool;
  readonly masterKeys: MasterKeyPair;
  /** With `master_sign_pubkey`: what signs the master's key. */
  readonly masterKeySigner: MasterKeySigner | undefined;
  readonly keys: KeyStore;
  /** Which keys need no operator. */
  readonly autoAccept: AutoAccept;
  readonly publishKey: PublishKey;
  readonly sessions: SessionKeys;
  readonly pins: VersionPins;
}

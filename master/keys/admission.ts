/** Who becomes a minion, and what ends with it: for what enrols machines by itself. */
import { cleanKeyText, keyFingerprint, parsePublicKey } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import type { PushedFiles } from '../fileserver/pushed-files.ts';
import type { Foundations } from '../foundations.ts';
import type { MineStore } from '../mine/mine-store.ts';
import type { LastHeard } from '../requests/last-heard.ts';
import { KeyError } from './errors.ts';
import type { FormerOwners } from './former-owners.ts';
import type { Revocation } from './revocation.ts';

/** The key that an id has. */
export interface HeldKey {
  readonly state: 'accepted' | 'pending' | 'rejected';
  /** PEM text. */
  readonly publicKey: string;
  /** SHA-256, whatever `hash_type` says: hex pairs joined by `:`. */
  readonly fingerprint: string;
}

/** A key to accept. */
export interface AdmittedKey {
  readonly id: string;
  /** PEM text of an RSA key. */
  readonly publicKey: string;
  /** Lowest protocol version that the id is heard in from now on; 0: any. */
  readonly protocol: 0 | 1 | 2 | 3;
}

/** Who becomes a minion, and who is none any more. */
export interface Admission {
  /**
   * Runs work that decides about an id and then changes what it has. Sign-ins of the id, operations
   * on its key and other such work come before or after it, so that what it reads stays true. Not
   * to be called from inside of such work for the same id, which {@link KeyAdvice} is.
   */
  exclusive<T>(id: string, work: () => Promise<T>): Promise<T>;
  /** Whether an id may have a key: it has an accepted one, or `minion_ids` takes it. */
  takesId(id: string): boolean;
  /** The accepted, pending or rejected key of an id. */
  keyOf(id: string): HeldKey | undefined;
  /**
   * Accepts a key that its minion need not have shown; a pending one gives way to it. Durable when
   * it resolves.
   * @throws KeyError ERR_KEY_STATE when the id has another accepted key or a rejected one;
   * ProtocolError ERR_BAD_KEY for what is no such key; KeyError ERR_KEY_ID, ERR_PKI_DIR
   */
  admit(key: AdmittedKey): Promise<void>;
  /** Hears an id in no lower protocol version from now on; durable when it resolves. */
  pin(id: string, protocol: AdmittedKey['protocol']): Promise<void>;
  /** Rejects an accepted key, so that nobody signs in with it until it is deleted. */
  quarantine(id: string): Promise<void>;
  /**
   * Ends all that an id has: key, session, connections, pin, grains, pillar, mine, files that it
   * pushed; jobs that were published to it take no return from a later owner. The id may have no key.
   */
  retire(id: string): Promise<void>;
  /** Whether the minion was heard, with a proof of its key, since it has this key or the start. */
  isHeard(id: string): boolean;
  /** Calls the listener when that becomes true of an id, until the function given is called. */
  onHeard(listener: (id: string) => void): () => void;
}

/** What {@link createAdmission} needs. */
export interface AdmissionParts {
  readonly config: MasterConfig;
  readonly foundations: Pick<Foundations, 'keys' | 'pins' | 'facts'>;
  readonly revocation: Revocation;
  readonly lastHeard: LastHeard;
  readonly mine: MineStore;
  readonly pushed: PushedFiles;
  readonly formerOwners: FormerOwners;
  readonly nextJid: () => string;
  readonly now: () => number;
}

export function createAdmission(parts: AdmissionParts): Admission {
  const { config, foundations, revocation, lastHeard, mine, pushed, formerOwners } = parts;
  const { keys, pins, facts } = foundations;
  return {
    exclusive: (id, work) => keys.exclusive(id, work),
    takesId: (id) => keys.takesId(id),
    keyOf: (id) => {
      const held = keys.get(id);
      return held && { ...describe(held.pem), state: held.state };
    },
    admit: async ({ id, publicKey, protocol }) => {
      parsePublicKey(publicKey);
      // First, so that there is no moment in which the key is good for a lower one.
      await pins.prove(id, protocol);
      await keys.admit(id, cleanKeyText(publicKey));
    },
    pin: (id, protocol) => pins.prove(id, protocol),
    quarantine: async (id) => {
      await keys.reject(id, { includeAccepted: true });
      await revocation.ended();
    },
    retire: async (id) => {
      const now = parts.now();
      const expiresAt = now + config.keepJobsSeconds * 1000;
      // protection: former-owner
      await formerOwners.note(id, parts.nextJid(), { now, expiresAt });
      await keys.delete(id).catch(unlessUnknown);
      // Begun by the loss of the key.
      await revocation.ended();
      // Also of an id that was pinned for a key that never came.
      await pins.forget([id]);
      await Promise.all([facts.forget(id), mine.forget(id), pushed.forget(id)]);
    },
    isHeard: (id) => lastHeard.of(id) !== undefined,
    onHeard: (listener) => lastHeard.onFirst(listener),
  };
}

function describe(pem: string): Omit<HeldKey, 'state'> {
  return { publicKey: pem, fingerprint: keyFingerprint(pem, 'sha256') };
}

function unlessUnknown(error: unknown): void {
  if (!(error instanceof KeyError && error.code === 'ERR_KEY_UNKNOWN')) throw error;
}

/** Life cycle of minions' keys: acceptance, rejection and retirement of ids. */

import type { Logger } from 'pino';
import type { LiveConfig } from '#config';
import {
  cleanKeyText,
  keyFingerprint,
  type MasterTransport,
  parsePublicKey,
} from '#minion-protocol';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, type Events, tags } from '../events/index.ts';
import { AcceptedKeys } from './accepted-keys.ts';
import { KeyError } from './key-errors.ts';
import type { KeyStore } from './key-store.ts';
import type { LastRequests } from './last-requests.ts';
import type { PublishKey } from './publish-key.ts';
import type { RetiredIds } from './retired-ids.ts';
import type { SessionKeys } from './session-keys.ts';
import type { VersionPins } from './version-check.ts';

/** Key that is stored for an id. */
interface HeldKey {
  readonly state: 'accepted' | 'pending' | 'rejected';
  /** Public key in PEM format. */
  readonly publicKey: string;
  /** SHA-256 fingerprint, independent of `hash_type`: hex pairs separated by `:`. */
  readonly fingerprint: string;
}

/** Key that an extension accepts for an id. */
interface AdmittedKey {
  readonly id: string;
  /** RSA public key in PEM format. */
  readonly publicKey: string;
  /**
   * Lowest protocol version that the master accepts from this id from now on. With 0, it accepts
   * any version.
   */
  readonly protocol: 0 | 1 | 2 | 3;
}

/** Operations on ids and their keys, for extensions that enrol machines. */
export interface KeyLifecycle {
  /**
   * Runs `work`, which reads the key of an id and then changes it. Until `work` has ended, sign-ins
   * of this id and other operations on its key wait. A nested call for the same id, for example in
   * a {@link KeyAcceptanceHook}, causes a deadlock.
   */
  exclusive<T>(id: string, work: () => Promise<T>): Promise<T>;
  /**
   * Whether a key may be stored for an id: the id already has an accepted key, or `minion_ids`
   * permits it.
   */
  takesId(id: string): boolean;
  /** Returns the accepted, pending or rejected key of an id. */
  keyOf(id: string): HeldKey | undefined;
  /**
   * Accepts a key, even if the minion has not offered it yet. Replaces a pending key. Durable when
   * the promise resolves.
   * @throws KeyError ERR_KEY_STATE if the id has a different accepted key or a rejected one;
   * ProtocolError ERR_BAD_KEY if the key is invalid; KeyError ERR_KEY_ID, ERR_PKI_DIR
   */
  admit(key: AdmittedKey): Promise<void>;
  /**
   * Sets the lowest protocol version with which the minion of an id may connect from now on.
   * Durable when the promise resolves.
   */
  pin(id: string, protocol: AdmittedKey['protocol']): Promise<void>;
  /**
   * Rejects the accepted or pending key of an id, so that no minion can sign in with it until the
   * key is deleted.
   */
  quarantine(id: string): Promise<void>;
  /**
   * Deletes all data of an id: key, session, connections, protocol version, grains, pillar, mine
   * and pushed files. If another machine later gets this id, its returns for earlier jobs are
   * rejected. The id need not have a key.
   */
  retire(id: string): Promise<void>;
  /**
   * Whether the minion has sent a verified request with its current key. Requests before the start
   * of the master do not count.
   */
  isHeard(id: string): boolean;
  /**
   * Calls the listener when a minion has sent its first verified request with its current key
   * ({@link isHeard}). Returns a function that removes the listener.
   */
  onHeard(listener: (id: string) => void): () => void;
}

export interface KeyLifecycleDeps {
  readonly config: LiveConfig;
  readonly context: Pick<MasterContext, 'nextJid' | 'now'>;
  readonly auth: {
    readonly keys: KeyStore;
    readonly pins: VersionPins;
    readonly lastRequests: LastRequests;
    readonly retiredIds: RetiredIds;
    readonly revocation: Revocation;
  };
  /** Deletes the data that other modules store about an id. */
  readonly forget: (id: string) => Promise<unknown>;
}

export function createKeyLifecycle(deps: KeyLifecycleDeps): KeyLifecycle {
  const { config, context, auth, forget } = deps;
  const { keys, lastRequests, pins, retiredIds, revocation } = auth;
  return {
    exclusive: (id, work) => keys.exclusive(id, work),
    takesId: (id) => keys.takesId(id),
    keyOf: (id) => {
      const held = keys.get(id);
      return held && { ...describe(held.pem), state: held.state };
    },
    admit: async ({ id, publicKey, protocol }) => {
      parsePublicKey(publicKey);
      // The version is stored first, so that the key is never valid for a lower version.
      await pins.prove(id, protocol);
      await keys.admit(id, cleanKeyText(publicKey));
    },
    pin: (id, protocol) => pins.prove(id, protocol),
    quarantine: async (id) => {
      await keys.reject(id, { from: ['accepted', 'pending'] });
      await revocation.ended();
    },
    retire: async (id) => {
      const now = context.now();
      const expiresAt = now + config.current.keepJobsSeconds * 1000;
      await retiredIds.note(id, context.nextJid(), { now, expiresAt });
      await keys.delete(id).catch(unlessUnknown);
      // Deleting the key has started its revocation. Wait until the revocation has ended.
      await revocation.ended();
      // The version is also deleted for an id that never had a key, because `pin` may have been
      // called for it.
      await pins.forget([id]);
      await forget(id);
    },
    isHeard: (id) => lastRequests.of(id) !== undefined,
    onHeard: (listener) => lastRequests.onFirst(listener),
  };
}

function describe(pem: string): Omit<HeldKey, 'state'> {
  return { publicKey: pem, fingerprint: keyFingerprint(pem, 'sha256') };
}

function unlessUnknown(error: unknown): void {
  if (!(error instanceof KeyError && error.code === 'ERR_KEY_UNKNOWN')) throw error;
}

/** Options of {@link Revocation}. */
export interface RevocationOptions {
  readonly sessions: SessionKeys;
  readonly pins: VersionPins;
  readonly lastRequests: LastRequests;
  readonly transports: readonly MasterTransport[];
  readonly publishKey: PublishKey;
  readonly bus: EventBus;
  readonly config: Pick<LiveConfig, 'current'>;
  readonly context: Pick<MasterContext, 'log' | 'now'>;
}

/**
 * Minimum interval between rotations of the publish key after keys were deleted or rejected, in
 * milliseconds. After each rotation, every minion must sign in again.
 */
const rotationIntervalMs = 60_000;

/**
 * Revokes the access of minions whose key was deleted or rejected [THREATS C-15]. Their session,
 * recorded protocol version and connections end immediately. If the option `rotate_aes_key` is set,
 * the shared publish key is replaced, at most once per minute.
 */
export class Revocation {
  readonly #options: RevocationOptions;
  readonly #log: Logger;
  #lastRotation = Number.NEGATIVE_INFINITY;
  #planned: NodeJS.Timeout | undefined;
  #underWay: Promise<void> = Promise.resolve();
  readonly #ending = new Set<Promise<void>>();
  readonly #onRevoked: ((id: string) => void)[] = [];
  readonly #onRotated: (() => Promise<void>)[] = [];

  constructor(options: RevocationOptions) {
    this.#options = options;
    this.#log = options.context.log.child({ component: 'keys' });
  }

  /**
   * Registers a listener. The listener receives the id of each minion as soon as its key is
   * revoked.
   */
  onRevoked(listener: (id: string) => void): void {
    this.#onRevoked.push(listener);
  }

  /**
   * Registers a listener that is called after each replacement of the publish key. {@link rotate}
   * waits for the promise of the listener. A replacement by {@link revokeLost} does not call the
   * listener.
   */
  onRotated(listener: () => Promise<void>): void {
    this.#onRotated.push(listener);
  }

  /** Revokes the access of ids that had accepted keys until now. */
  async revoke(ids: readonly string[]): Promise<void> {
    const ending = this.#revoke(ids);
    this.#ending.add(ending);
    try {
      await ending;
    } finally {
      this.#ending.delete(ending);
    }
  }

  /**
   * Ends the connections of ids at this cluster member, and calls the listeners for revoked keys.
   * The member that changed the key also deletes the sessions of these ids.
   */
  revokeHere(ids: readonly string[]): void {
    const { lastRequests, transports } = this.#options;
    lastRequests.forget(ids);
    for (const id of ids) {
      for (const listener of this.#onRevoked) listener(id);
      for (const transport of transports) transport.disconnect(id);
    }
  }

  /**
   * Resolves when all revocations in progress are complete.
   * @throws StoreError if a revocation failed
   */
  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }

  async #revoke(ids: readonly string[]): Promise<void> {
    const { sessions, pins } = this.#options;
    this.revokeHere(ids);
    // Both calls change memory synchronously. So they cannot delete the session or version of a new
    // key that is accepted meanwhile.
    await Promise.all([sessions.forget(ids), pins.forget(ids)]);
    if (!this.#options.config.current.rotateAesKey) return;
    // The need for a rotation is stored, because the master may stop before it rotates the key.
    await this.#options.publishKey.retire();
    this.#planRotation();
  }

  /**
   * Revokes the access of ids whose keys were deleted or replaced while the master was not running.
   * If `rotate_aes_key` is set, also replaces the publish key before the promise resolves. The
   * master serves no minion before that, so minions need not be notified.
   */
  async revokeLost(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#options.sessions.forget(ids);
    await this.#options.pins.forget(ids);
    if (this.#options.config.current.rotateAesKey) await this.#replaceKey();
  }

  /** Replaces the publish key immediately. */
  async rotate(): Promise<void> {
    await this.#replaceKey();
    for (const listener of this.#onRotated) await listener();
  }

  /**
   * Waits for a replacement of the publish key that is in progress. Cancels a planned replacement;
   * the next start of the master then replaces the key.
   */
  async close(): Promise<void> {
    clearTimeout(this.#planned);
    await this.#underWay;
  }

  async #replaceKey(): Promise<void> {
    const { publishKey, bus, context } = this.#options;
    this.#lastRotation = context.now();
    await publishKey.rotate();
    bus.fire(tags.rotation, { rotate_aes_key: true });
    this.#log.info('replaced the publish key, which encrypts jobs for all minions');
  }

  #planRotation(): void {
    if (this.#planned !== undefined) return;
    const waitMs = Math.max(
      0,
      this.#lastRotation + rotationIntervalMs - this.#options.context.now(),
    );
    this.#planned = setTimeout(() => {
      this.#planned = undefined;
      this.#underWay = this.rotate().catch((error: unknown) => {
        this.#log.error(
          { err: error },
          'a minion key was revoked, but the publish key was not replaced; the minion can still read jobs',
        );
      });
    }, waitMs);
    this.#planned.unref();
  }
}

/** Modules that must act when a key changes. */
interface KeyFollowers {
  readonly keys: KeyStore;
  readonly bus: EventBus;
  readonly revocation: Revocation;
  readonly accepted: AcceptedKeys;
  /** Revokes the rights that other modules have granted to the accepted key of an id. */
  readonly onKeyLost: LostKeysOptions['onKeyLost'];
  readonly log: Logger;
}

/**
 * Values of `act` that are reported by the event `salt/key`. New and denied keys are reported by
 * `salt/auth` instead [WIRE 14.2].
 */
const operatorActs: ReadonlySet<string> = new Set(['accept', 'reject', 'delete']);

/**
 * Emits events about accepted, rejected and deleted keys, and revokes keys that are no longer
 * accepted.
 */
function followKeys(followers: KeyFollowers): void {
  const { keys, bus, revocation, accepted, onKeyLost, log } = followers;
  keys.onChange(({ id, from, to, act, isElsewhere }) => {
    log.info({ minion: id, from, to }, 'key changed');
    if (operatorActs.has(act) && from !== null && from !== to && !isElsewhere) {
      bus.fire(tags.key, { result: true, act, id });
    }
    // This includes a key that is replaced by another one, such as a denied key: the access of the
    // old key must end. If a denied key is only replaced by another denied one, the accepted key
    // remains.
    const endsKey = from === 'accepted' || (from === 'denied' && to !== null && to !== 'denied');
    if (!endsKey && to !== 'accepted') return;
    if (isElsewhere) {
      if (!endsKey) return;
      revocation.revokeHere([id]);
      onKeyLost(id, 'elsewhere').catch((error: unknown) => {
        log.error({ minion: id, err: error }, 'revocation failed');
      });
      return;
    }
    const ended = endsKey ? [revocation.revoke([id]), onKeyLost(id, 'here')] : [];
    Promise.all(ended)
      // The new state is recorded last, so that the revocation is repeated after a crash.
      .then(() => accepted.note(id, keys.acceptedPem(id)))
      .catch((error: unknown) => {
        log.error({ minion: id, err: error }, 'revocation failed');
      });
  });
}

/**
 * Place at which an accepted key was deleted, rejected or replaced. `here`: in this process.
 * `elsewhere`: by another member of the cluster, which reports it too. `earlier`: before this
 * process read the keys, perhaps by another member.
 */
export type KeyLoss = 'here' | 'elsewhere' | 'earlier';

export interface LostKeysOptions {
  readonly context: Pick<MasterContext, 'disk' | 'store'>;
  readonly events: Events;
  readonly auth: { readonly keys: KeyStore; readonly revocation: Revocation };
  /** Revokes the rights that other modules have granted to the accepted key of an id. */
  readonly onKeyLost: (id: string, where: KeyLoss) => Promise<void>;
  readonly log: Logger;
}

/**
 * Revokes keys that were deleted or replaced while the master was not running. Later, also revokes
 * each key when it is deleted or replaced.
 */
export async function revokeLostKeys(options: LostKeysOptions): Promise<void> {
  const { context, events, auth, onKeyLost, log } = options;
  const { bus } = events;
  const { keys, revocation } = auth;
  const { store, disk } = context;
  const accepted = new AcceptedKeys(store);
  const revokeLost = async (): Promise<void> => {
    const lost = await accepted.lost(keys.list().accepted);
    await revocation.revokeLost(lost);
    for (const id of lost) await onKeyLost(id, 'earlier');
    await accepted.replace(keys.list().accepted);
  };
  await revokeLost();
  disk.onChange((isFull) => {
    bus.fire(isFull ? tags.storeFull : tags.storeRoom, {});
    if (isFull) return;
    // While the store was full, revocations could not be written. They are repeated now, as at the
    // start of the master.
    revokeLost().catch((error: unknown) => log.error({ err: error }, 'revocation failed'));
  });
  followKeys({ keys, bus, revocation, accepted, onKeyLost, log });
}

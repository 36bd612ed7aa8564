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
import type { RetiredIds } from './retired-ids.ts';
import type { LastHeard, PublishKey, SessionKeys } from './session-keys.ts';
import type { VersionPins } from './version-check.ts';

/** Key of an id. */
interface HeldKey {
  readonly state: 'accepted' | 'pending' | 'rejected';
  /** Public key in PEM format. */
  readonly publicKey: string;
  /** SHA-256 fingerprint, independent of `hash_type`: hex pairs separated by `:`. */
  readonly fingerprint: string;
}

/** Key to accept. */
interface AdmittedKey {
  readonly id: string;
  /** RSA public key in PEM format. */
  readonly publicKey: string;
  /** Lowest protocol version that the master accepts from the id from now on. 0 accepts any. */
  readonly protocol: 0 | 1 | 2 | 3;
}

/** Operations on ids and their keys, for extensions that enrol machines. */
export interface KeyLifecycle {
  /**
   * Runs `work`, which reads the key of an id and then changes it. Until it ends, the master
   * performs no sign-in of this id and no other operation on its key. Deadlocks if it is called
   * within such work for the same id, for example in a {@link KeyAcceptanceHook}.
   */
  exclusive<T>(id: string, work: () => Promise<T>): Promise<T>;
  /** Returns whether an id may have a key: it has an accepted one, or `minion_ids` permits it. */
  takesId(id: string): boolean;
  /** Returns the accepted, pending or rejected key of an id. */
  keyOf(id: string): HeldKey | undefined;
  /**
   * Accepts a key, even if the minion has not offered it yet. Replaces a pending key. Durable when
   * it resolves.
   * @throws KeyError ERR_KEY_STATE if the id has a different accepted key or a rejected one;
   * ProtocolError ERR_BAD_KEY if the key is invalid; KeyError ERR_KEY_ID, ERR_PKI_DIR
   */
  admit(key: AdmittedKey): Promise<void>;
  /** Rejects lower protocol versions of an id from now on. Durable when it resolves. */
  pin(id: string, protocol: AdmittedKey['protocol']): Promise<void>;
  /** Rejects an accepted key, so that no minion can sign in with it until it is deleted. */
  quarantine(id: string): Promise<void>;
  /**
   * Deletes everything of an id: key, session, connections, pin, grains, pillar, mine and pushed
   * files. Jobs that were published to it accept no return from a later owner. The id need not have
   * a key.
   */
  retire(id: string): Promise<void>;
  /**
   * Returns whether the minion has sent a proven request since it received this key, or since the
   * start.
   */
  isHeard(id: string): boolean;
  /**
   * Calls the listener when {@link isHeard} becomes true for an id. Returns a function that removes
   * the listener.
   */
  onHeard(listener: (id: string) => void): () => void;
}

export interface KeyLifecycleDeps {
  readonly config: LiveConfig;
  readonly context: Pick<MasterContext, 'nextJid' | 'now'>;
  readonly auth: {
    readonly keys: KeyStore;
    readonly pins: VersionPins;
    readonly lastHeard: LastHeard;
    readonly retiredIds: RetiredIds;
    readonly revocation: Revocation;
  };
  /** Deletes what other modules store about an id. */
  readonly forget: (id: string) => Promise<unknown>;
}

export function createKeyLifecycle(deps: KeyLifecycleDeps): KeyLifecycle {
  const { config, context, auth, forget } = deps;
  const { keys, lastHeard, pins, retiredIds, revocation } = auth;
  return {
    exclusive: (id, work) => keys.exclusive(id, work),
    takesId: (id) => keys.takesId(id),
    keyOf: (id) => {
      const held = keys.get(id);
      return held && { ...describe(held.pem), state: held.state };
    },
    admit: async ({ id, publicKey, protocol }) => {
      parsePublicKey(publicKey);
      // Pinned first, so that the key is never valid for a lower version.
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
      // The loss of the key has started the revocation.
      await revocation.ended();
      // Also for an id that was pinned for a key that never arrived.
      await pins.forget([id]);
      await forget(id);
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

/** Options of {@link Revocation}. */
export interface RevocationOptions {
  readonly sessions: SessionKeys;
  readonly pins: VersionPins;
  readonly lastHeard: LastHeard;
  readonly transports: readonly MasterTransport[];
  readonly publishKey: PublishKey;
  readonly bus: EventBus;
  readonly config: Pick<LiveConfig, 'current'>;
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Minimum interval between rotations for deleted keys, in milliseconds. Each rotation costs every
 * minion a sign-in.
 */
const rotationIntervalMs = 60_000;

/**
 * Revokes what a deleted or rejected key still permits [THREATS C-15]. Session, pin and connections
 * end immediately. The shared publish key is rotated, at most once per minute.
 */
export class Revocation {
  readonly #options: RevocationOptions;
  #lastRotation = Number.NEGATIVE_INFINITY;
  #planned: NodeJS.Timeout | undefined;
  #underWay: Promise<void> = Promise.resolve();
  readonly #ending = new Set<Promise<void>>();
  readonly #onRevoked: ((id: string) => void)[] = [];
  readonly #onRotated: (() => Promise<void>)[] = [];

  constructor(options: RevocationOptions) {
    this.#options = options;
  }

  /** Calls the listener immediately for each id whose key has become invalid. */
  onRevoked(listener: (id: string) => void): void {
    this.#onRevoked.push(listener);
  }

  /** Calls and awaits the listener after each rotation. */
  onRotated(listener: () => Promise<void>): void {
    this.#onRotated.push(listener);
  }

  /** Revokes everything of ids whose keys were accepted until now. */
  async revoke(ids: readonly string[]): Promise<void> {
    const ending = this.#revoke(ids);
    this.#ending.add(ending);
    try {
      await ending;
    } finally {
      this.#ending.delete(ending);
    }
  }

  /** Revokes what ids have at this member. Another member of the cluster has revoked the rest. */
  revokeHere(ids: readonly string[]): void {
    const { lastHeard, transports } = this.#options;
    lastHeard.forget(ids);
    for (const id of ids) {
      for (const listener of this.#onRevoked) listener(id);
      for (const transport of transports) transport.disconnect(id);
    }
  }

  /**
   * Resolves when all revocations in progress are complete.
   * @throws StoreError if one failed
   */
  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }

  async #revoke(ids: readonly string[]): Promise<void> {
    const { sessions, pins } = this.#options;
    this.revokeHere(ids);
    // Both change memory synchronously, so that a session or pin of a new key is not deleted.
    await Promise.all([sessions.forget(ids), pins.forget(ids)]);
    if (!this.#options.config.current.rotateAesKey) return;
    // The master may stop before the rotation.
    await this.#options.publishKey.retire();
    this.#planRotation();
  }

  /**
   * Revokes everything of ids whose keys were lost while the master was not running. Resolves when
   * the publish key was replaced, so that no minion is served before. Minions need no ping, because
   * none is connected yet.
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

  /** Cancels a planned rotation, which the next start performs, and waits for one in progress. */
  async close(): Promise<void> {
    clearTimeout(this.#planned);
    await this.#underWay;
  }

  async #replaceKey(): Promise<void> {
    const { publishKey, bus, now, log } = this.#options;
    this.#lastRotation = now();
    await publishKey.rotate();
    bus.fire(tags.rotation, { rotate_aes_key: true });
    log.info('publish key rotated');
  }

  #planRotation(): void {
    if (this.#planned !== undefined) return;
    const waitMs = Math.max(0, this.#lastRotation + rotationIntervalMs - this.#options.now());
    this.#planned = setTimeout(() => {
      this.#planned = undefined;
      this.#underWay = this.rotate().catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'publish key rotation failed');
      });
    }, waitMs);
    this.#planned.unref();
  }
}

/** Modules that react to changes of a key. */
interface KeyFollowers {
  readonly keys: KeyStore;
  readonly bus: EventBus;
  readonly revocation: Revocation;
  readonly accepted: AcceptedKeys;
  /** Revokes what other modules grant to the accepted key of an id. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly log: Logger;
}

/**
 * Acts that `salt/key` reports for existing keys. New and denied keys are reported by `salt/auth`
 * [WIRE 14.2].
 */
const operatorActs: ReadonlySet<string> = new Set(['accept', 'reject', 'delete']);

/** Reports every change of a key, and revokes keys that are no longer accepted. */
function followKeys(followers: KeyFollowers): void {
  const { keys, bus, revocation, accepted, onKeyLost, log } = followers;
  keys.onChange(({ id, from, to, act, isElsewhere }) => {
    log.info({ minion: id, from, to }, 'key changed');
    if (operatorActs.has(act) && from !== null && from !== to && !isElsewhere) {
      bus.fire(tags.key, { result: true, act, id });
    }
    // Also if another key replaces it, such as a denied one: the access of the old key ends.
    const endsKey = from === 'accepted' || (from === 'denied' && to !== null);
    if (!endsKey && to !== 'accepted') return;
    if (isElsewhere) {
      if (!endsKey) return;
      revocation.revokeHere([id]);
      onKeyLost(id).catch((error: unknown) => {
        log.error({ minion: id, err: error }, 'revocation failed');
      });
      return;
    }
    const ended = endsKey ? [revocation.revoke([id]), onKeyLost(id)] : [];
    Promise.all(ended)
      // Recorded last, so that a start after a crash repeats the revocation.
      .then(() => accepted.note(id, keys.acceptedPem(id)))
      .catch((error: unknown) => {
        log.error({ minion: id, err: error }, 'revocation failed');
      });
  });
}

export interface LostKeysOptions {
  readonly context: Pick<MasterContext, 'disk' | 'store'>;
  readonly events: Events;
  readonly auth: { readonly keys: KeyStore; readonly revocation: Revocation };
  /** Revokes what other modules grant to the accepted key of an id. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly log: Logger;
}

/** Revokes the keys that were lost while no master ran, and every key that is lost later. */
export async function revokeLostKeys(options: LostKeysOptions): Promise<void> {
  const { context, events, auth, onKeyLost, log } = options;
  const { bus } = events;
  const { keys, revocation } = auth;
  const { store, disk } = context;
  const accepted = new AcceptedKeys(store);
  const revokeLost = async (): Promise<void> => {
    const lost = await accepted.lost(keys.list().accepted);
    await revocation.revokeLost(lost);
    for (const id of lost) await onKeyLost(id);
    await accepted.replace(keys.list().accepted);
  };
  await revokeLost();
  disk.onChange((isFull) => {
    bus.fire(isFull ? tags.storeFull : tags.storeRoom, {});
    if (isFull) return;
    // Keys lost while the store could not be written are treated as lost before the start.
    revokeLost().catch((error: unknown) => log.error({ err: error }, 'revocation failed'));
  });
  followKeys({ keys, bus, revocation, accepted, onKeyLost, log });
}

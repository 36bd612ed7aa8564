/** Who becomes a minion, and what ends with it: for what enrols machines by itself. */

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

/** The key that an id has. */
interface HeldKey {
  readonly state: 'accepted' | 'pending' | 'rejected';
  /** PEM text. */
  readonly publicKey: string;
  /** SHA-256, whatever `hash_type` says: hex pairs joined by `:`. */
  readonly fingerprint: string;
}

/** A key to accept. */
interface AdmittedKey {
  readonly id: string;
  /** PEM text of an RSA key. */
  readonly publicKey: string;
  /** Lowest protocol version that the id is heard in from now on; 0: any. */
  readonly protocol: 0 | 1 | 2 | 3;
}

/** Who becomes a minion, and who is none any more. */
export interface KeyLifecycle {
  /**
   * Runs work that decides about an id and then changes what it has. Sign-ins of the id, operations
   * on its key and other such work come before or after it, so that what it reads stays true. Not
   * to be called from inside of such work for the same id, which {@link KeyAcceptanceHook} is.
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
  /** Ends what other modules keep of an id. */
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
      // First, so that there is no moment in which the key is good for a lower one.
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
      // Begun by the loss of the key.
      await revocation.ended();
      // Also of an id that was pinned for a key that never came.
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

/** What ends when a key is no longer good. */
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

/** Rotations for deleted keys are at least so far apart: each costs every minion a sign-in. */
const rotationIntervalMs = 60_000;

/**
 * Ends what a deleted or rejected key could still do [THREATS C-15]: session, pin and connections
 * at once; the shared publish key by a rotation, at most one a minute.
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

  /** Calls the listener for each id whose key is no longer good, at once. */
  onRevoked(listener: (id: string) => void): void {
    this.#onRevoked.push(listener);
  }

  /** Calls the listener after each rotation, which waits for it. */
  onRotated(listener: () => Promise<void>): void {
    this.#onRotated.push(listener);
  }

  /** Ends everything of these ids, whose keys were accepted until now. */
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
   * Ends what these ids have at this master alone; another member of the cluster has ended the rest.
   */
  revokeHere(ids: readonly string[]): void {
    const { lastHeard, transports } = this.#options;
    lastHeard.forget(ids);
    for (const id of ids) {
      for (const listener of this.#onRevoked) listener(id);
      for (const transport of transports) transport.disconnect(id);
    }
  }

  /** Resolves when what is being ended has ended. @throws StoreError when that failed */
  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }

  async #revoke(ids: readonly string[]): Promise<void> {
    const { sessions, pins } = this.#options;
    this.revokeHere(ids);
    // Both at once, in memory: what a new key of the id gets meanwhile is not forgotten with it.
    await Promise.all([sessions.forget(ids), pins.forget(ids)]);
    if (!this.#options.config.current.rotateAesKey) return;
    // The master may be gone before the rotation comes.
    await this.#options.publishKey.retire();
    this.#planRotation();
  }

  /**
   * Ends everything of ids whose keys were lost while the master was not running. Resolves when
   * the publish key is another one, so that nobody is served before; nobody is there yet to be
   * pinged.
   */
  async revokeLost(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#options.sessions.forget(ids);
    await this.#options.pins.forget(ids);
    if (this.#options.config.current.rotateAesKey) await this.#replaceKey();
  }

  /** Replaces the publish key now. */
  async rotate(): Promise<void> {
    await this.#replaceKey();
    for (const listener of this.#onRotated) await listener();
  }

  /** Leaves a planned rotation to the next start and waits for one under way. */
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

/** Who is concerned when a key changes. */
interface KeyFollowers {
  readonly keys: KeyStore;
  readonly bus: EventBus;
  readonly revocation: Revocation;
  readonly accepted: AcceptedKeys;
  /** Ends what hangs on the accepted key of an id, outside of this room. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly log: Logger;
}

/** What `salt/key` tells of keys that were there; new and denied ones are `salt/auth`'s [WIRE 14.2]. */
const operatorActs: ReadonlySet<string> = new Set(['accept', 'reject', 'delete']);

/** Tells every change of a key, and ends what a key could do that is no longer accepted. */
function followKeys(followers: KeyFollowers): void {
  const { keys, bus, revocation, accepted, onKeyLost, log } = followers;
  keys.onChange(({ id, from, to, act, isElsewhere }) => {
    log.info({ minion: id, from, to }, 'key changed');
    if (operatorActs.has(act) && from !== null && from !== to && !isElsewhere) {
      bus.fire(tags.key, { result: true, act, id });
    }
    // Also when another key takes its place, such as a denied one: what the old one could do ends.
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
      // Noted only then, so that a start after a crash in between makes up for it.
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
  /** Ends what hangs on the accepted key of an id, outside of this room. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly log: Logger;
}

/** Revokes what went while no master ran, now, and from now on what goes. */
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
    // Keys that went while nothing could be written are as those that went before the start.
    revokeLost().catch((error: unknown) => log.error({ err: error }, 'revocation failed'));
  });
  followKeys({ keys, bus, revocation, accepted, onKeyLost, log });
}

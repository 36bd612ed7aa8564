import type { Logger } from 'pino';
import type { MasterTransport } from '../../minion-protocol/index.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { LastHeard } from '../requests/last-heard.ts';
import type { RepeatGuard } from '../requests/repeats.ts';
import type { VersionPins } from '../requests/version-pins.ts';
import type { PublishKey } from '../secrets/publish-key.ts';
import type { SessionKeys } from '../secrets/session-keys.ts';

/** What ends when a key is no longer good. */
export interface RevocationOptions {
  readonly sessions: SessionKeys;
  readonly pins: VersionPins;
  readonly repeats: RepeatGuard;
  readonly lastHeard: LastHeard;
  readonly transports: readonly MasterTransport[];
  readonly publishKey: PublishKey;
  readonly bus: EventBus;
  /** `rotate_aes_key`. */
  readonly rotates: boolean;
  /** Called after each rotation (`ping_on_rotate`). */
  readonly onRotated: () => Promise<void>;
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

  constructor(options: RevocationOptions) {
    this.#options = options;
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

  /** Resolves when what is being ended has ended. @throws StoreError when that failed */
  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }

  async #revoke(ids: readonly string[]): Promise<void> {
    const { sessions, pins, repeats, lastHeard, transports } = this.#options;
    lastHeard.forget(ids);
    for (const id of ids) {
      repeats.forget(id);
      for (const transport of transports) transport.disconnect(id);
    }
    // Both at once, in memory: what a new key of the id gets meanwhile is not forgotten with it.
    // protection: session-of-a-deleted-key
    await Promise.all([sessions.forget(ids), pins.forget(ids)]);
    if (!this.#options.rotates) return;
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
    if (this.#options.rotates) await this.#replaceKey();
  }

  /** Replaces the publish key now. */
  async rotate(): Promise<void> {
    await this.#replaceKey();
    await this.#options.onRotated();
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

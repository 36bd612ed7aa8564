import type { Logger } from 'pino';
import {
  type CrypticleKey,
  isWireMap,
  openValue,
  type Peer,
  ProtocolError,
  unpackWire,
  type WireValue,
  wireBytes,
} from '../../minion-protocol/index.ts';
import type { RequestCounters } from '../limits/counters.ts';

/** What {@link Announcements} needs of the rest of the master. */
export interface AnnouncementsOptions {
  readonly publishKey: { readonly current: { readonly key: CrypticleKey } };
  /** PEM text of an id's accepted key. */
  readonly acceptedKey: (id: string) => string | undefined;
  readonly tokens: { isGenuine(pem: string, token: Uint8Array): Promise<boolean> };
  readonly counters: RequestCounters;
  readonly log: Logger;
}

const limits = { maxBytes: 4096, maxDepth: 2, maxElements: 16 };

/**
 * What minions say of themselves on their publish connections: `{id, tok}` under the publish key,
 * in every protocol version [WIRE 4.2; salt/channel/server.py]. An announcement that is not
 * believed changes nothing: its connection stays anonymous and gets what everybody gets. It was
 * perhaps made a moment before the key changed, and closing would cost the minion its life.
 */
export class Announcements {
  readonly #options: AnnouncementsOptions;

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  /** Never rejects: it is the transport's handler. */
  async hear(bytes: Uint8Array, peer: Peer): Promise<void> {
    try {
      const minionId = await this.#verify(bytes);
      if (minionId === undefined) this.#options.counters.count('announcement-refused');
      else peer.identify(minionId);
    } catch (error) {
      this.#options.counters.count('announcement-failed');
      this.#options.log.debug({ remote: peer.address, err: error }, 'announcement not verified');
    }
  }

  async #verify(bytes: Uint8Array): Promise<string | undefined> {
    const load = this.#open(bytes);
    if (!isWireMap(load) || typeof load.id !== 'string') return undefined;
    const { id } = load;
    const tok = wireBytes(load.tok);
    const accepted = this.#options.acceptedKey(id);
    if (accepted === undefined || tok === undefined) return undefined;
    // protection: announcements
    const isGenuine = await this.#options.tokens.isGenuine(accepted, tok);
    // The key may have been deleted while its token was looked at.
    return isGenuine && this.#options.acceptedKey(id) === accepted ? id : undefined;
  }

  /** Unlike a request, the envelope has no id in version 3 either. */
  #open(bytes: Uint8Array): WireValue | undefined {
    try {
      const envelope = unpackWire(bytes, limits);
      const blob = isWireMap(envelope) ? wireBytes(envelope.load) : undefined;
      if (blob === undefined) return undefined;
      return openValue(this.#options.publishKey.current.key, blob, { limits });
    } catch (error) {
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  }
}

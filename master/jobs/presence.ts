import type { Logger } from 'pino';
import {
  type CrypticleKey,
  isWireMap,
  type MasterTransport,
  type MinionFacts,
  minionTopic,
  openValue,
  type Peer,
  ProtocolError,
  unpackWire,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import type { PresentMinion } from '../api/index.ts';
import type { RequestSource } from '../auth/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import type { RequestCounters } from '../metrics/index.ts';

export interface AnnouncementsOptions {
  readonly publishKey: { readonly current: { readonly key: CrypticleKey } };
  /** Returns the accepted key of an id in PEM format. */
  readonly acceptedKey: (id: string) => string | undefined;
  readonly tokens: { isGenuine(pem: string, token: Uint8Array, address: string): Promise<boolean> };
  readonly counters: RequestCounters;
  readonly log: Logger;
}

const limits = { maxBytes: 4096, maxDepth: 2, maxElements: 16 };

/**
 * Verifies announcements. An announcement is a message with the minion's id, which a minion sends
 * on its publish connection. In every protocol version it is `{id, tok}`, encrypted with the
 * publish key [WIRE 4.2; salt/channel/server.py]. An invalid announcement is ignored, and its
 * connection stays anonymous. A genuine minion can send an invalid one if the publish key has just
 * changed. The connection is not closed, because this would end the minion process.
 */
export class Announcements {
  readonly #options: AnnouncementsOptions;

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  /** Processes a message in which a minion announces its id on a connection. Never rejects. */
  async hear(bytes: Uint8Array, peer: Peer): Promise<void> {
    try {
      const minionId = await this.#verify(bytes, peer);
      if (minionId === undefined) this.#options.counters.count('announcement-refused');
      else peer.identify(minionId);
    } catch (error) {
      this.#options.counters.count('announcement-failed');
      this.#options.log.debug(
        { remote: peer.address, err: error },
        'cannot verify which minion has subscribed to publications',
      );
    }
  }

  async #verify(bytes: Uint8Array, { address }: Peer): Promise<string | undefined> {
    const load = this.#open(bytes);
    if (!isWireMap(load) || typeof load.id !== 'string') return undefined;
    const { id } = load;
    const tok = wireBytes(load.tok);
    const accepted = this.#options.acceptedKey(id);
    if (accepted === undefined || tok === undefined) return undefined;
    const isGenuine = await this.#options.tokens.isGenuine(accepted, tok, address);
    // The key may have been deleted while the token was verified.
    return isGenuine && this.#options.acceptedKey(id) === accepted ? id : undefined;
  }

  /**
   * Decrypts an announcement. Unlike a request, its envelope has no id, even in protocol version 3.
   */
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

/** First Salt release whose minions do not reconnect by themselves over TCP [WIRE 4.2, 23.6]. */
const firstRelease = 3007;

/**
 * Returns the minions that do not reconnect by themselves after a restart of the master and must be
 * restarted. These are all minions over WebSocket, and minions of 3007 and later over TCP.
 */
export function needingOwnRestart(
  present: readonly PresentMinion[],
  factsOf: (id: string) => Pick<MinionFacts, 'grains'>,
): string[] {
  return present
    .filter(({ id, transport }) => {
      if (transport !== 'tcp') return transport === 'ws';
      const release = Number.parseFloat(String(factsOf(id).grains?.get('saltversion') ?? ''));
      return release >= firstRelease;
    })
    .map(({ id }) => id);
}

export interface PresenceEventsOptions {
  readonly bus: EventBus;
  /** Returns the ids of the connected minions. */
  readonly present: () => readonly string[];
}

/**
 * Emits presence events, as Salt's master does with `presence_events` [WIRE 14.2; salt/master.py].
 */
export class PresenceEvents {
  readonly #options: PresenceEventsOptions;
  #before: ReadonlySet<string> = new Set();

  constructor(options: PresenceEventsOptions) {
    this.#options = options;
  }

  /**
   * Emits an event with the changes since the last check, if there are any, and an event with all
   * connected minions.
   */
  look(): void {
    const { bus, present } = this.#options;
    const now = new Set(present());
    const appeared = [...now].filter((id) => !this.#before.has(id));
    const lost = [...this.#before].filter((id) => !now.has(id));
    if (appeared.length > 0 || lost.length > 0) {
      bus.fire(tags.presenceChange, { new: appeared, lost });
    }
    bus.fire(tags.presencePresent, { present: [...now] });
    this.#before = now;
  }

  /** Checks the connected minions now, and then periodically. */
  start(intervalMs: number): { stop: () => void } {
    this.look();
    const timer = setInterval(() => this.look(), intervalMs);
    timer.unref();
    return { stop: () => clearInterval(timer) };
  }
}

/** Accepted minions, and the addresses of their last requests. */
export interface KnownMinions {
  readonly acceptedIds: () => readonly string[];
  /** Returns the address and transport of the minion's last authenticated request. */
  readonly lastRemote: (id: string) => RequestSource | undefined;
}

/**
 * Returns the minions with an accepted key that are subscribed to publications, in the order of
 * their keys.
 */
export function presentMinions(
  transports: readonly MasterTransport[],
  { acceptedIds, lastRemote }: KnownMinions,
): PresentMinion[] {
  const listeners = new Listeners(transports);
  const heardFrom = new PlaceCounts();
  const known = acceptedIds().map((id) => ({ id, from: lastRemote(id) }));
  for (const { from } of known) if (from !== undefined) heardFrom.add(from);
  return known.flatMap(({ id, from }): PresentMinion[] => {
    const announced = listeners.announced.get(id);
    if (announced !== undefined) return [{ id, ...announced, isSure: true }];
    const atTopic = listeners.ofTopic(id);
    if (atTopic !== undefined) {
      return [{ id, ...atTopic, isSure: from !== undefined && isSamePlace(from, atTopic) }];
    }
    if (from === undefined) return [];
    const connections = listeners.anonymous.at(from);
    if (connections === 0) return [];
    return [{ id, ...from, by: 'address', isSure: connections >= heardFrom.at(from) }];
  });
}

type Place = Omit<PresentMinion, 'id' | 'isSure'>;

/**
 * Connections that receive publications, grouped by how the master identifies the minion: by its
 * announcement, its topic, or its network address.
 */
class Listeners {
  readonly announced = new Map<string, Place>();
  /**
   * For each address, the number of connections that receive all publications but have not
   * announced an id.
   */
  readonly anonymous: PlaceCounts = new PlaceCounts();
  readonly #topics = new Map<string, Place>();

  constructor(transports: readonly MasterTransport[]) {
    for (const transport of transports) this.#add(transport);
  }

  ofTopic(id: string): Place | undefined {
    return this.#topics.size === 0 ? undefined : this.#topics.get(minionTopic(id));
  }

  #add(it: MasterTransport): void {
    for (const { address, minionIds, topics } of it.subscribers()) {
      const from = { transport: it.name, address };
      for (const id of minionIds) this.announced.set(id, { ...from, by: 'announcement' });
      for (const topic of topics) {
        if (topic !== '') this.#topics.set(topic, { ...from, by: 'topic' });
      }
      if (minionIds.length === 0 && topics.includes('')) this.anonymous.add(from);
    }
  }
}

/**
 * Numbers of connections, or of minions, by transport and network address. Each object of this
 * class counts only one of the two.
 */
class PlaceCounts {
  readonly #counts = new Map<string, Map<string, number>>();

  add({ transport, address }: RequestSource): void {
    const counts = this.#counts.get(transport) ?? new Map<string, number>();
    this.#counts.set(transport, counts);
    counts.set(address, (counts.get(address) ?? 0) + 1);
  }

  at({ transport, address }: RequestSource): number {
    return this.#counts.get(transport)?.get(address) ?? 0;
  }
}

function isSamePlace(one: RequestSource, other: RequestSource): boolean {
  return one.transport === other.transport && one.address === other.address;
}

import { type MasterTransport, minionTopic } from '../../minion-protocol/index.ts';
import type { HeardFrom } from '../requests/last-heard.ts';

/** How a master knows that a minion is there. */
export type PresenceEvidence =
  /** It said so over its publish connection, with its token (TCP). */
  | 'announcement'
  /** Somebody listens to its own topic (ZeroMQ with `zmq_filtering`). */
  | 'topic'
  /** Somebody listens at the address that its last authenticated request came from. */
  | 'address';

/** A minion that listens to publications. */
export interface PresentMinion {
  readonly id: string;
  /** Salt's name of the transport. */
  readonly transport: string;
  /** Remote address without port. */
  readonly address: string;
  readonly by: PresenceEvidence;
  /**
   * Whether it is this minion, as far as a token or its own requests can tell. False by topic if
   * its requests come from elsewhere, because anybody may ask for a topic; false by address where
   * fewer connections come from an address than minions were heard from it: some of them are
   * there, and which is not known.
   */
  readonly isSure: boolean;
}

/** What is known of minions. */
export interface KnownMinions {
  readonly acceptedIds: () => readonly string[];
  /** Where its last authenticated request came from. */
  readonly whence: (id: string) => HeardFrom | undefined;
}

/** The minions with an accepted key that listen to publications, in the order of their keys. */
export function presentMinions(
  transports: readonly MasterTransport[],
  { acceptedIds, whence }: KnownMinions,
): PresentMinion[] {
  const listeners = new Listeners(transports);
  const heardFrom = new PlaceCounts();
  const known = acceptedIds().map((id) => ({ id, from: whence(id) }));
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

/** Who listens, by what is known of them. */
class Listeners {
  readonly announced = new Map<string, Place>();
  /** How many connections listen to everything without having said whose they are, by place. */
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

/** How many there are at each place. By transport and then address: this is asked at sign-ins. */
class PlaceCounts {
  readonly #counts = new Map<string, Map<string, number>>();

  add({ transport, address }: HeardFrom): void {
    const counts = this.#counts.get(transport) ?? new Map<string, number>();
    this.#counts.set(transport, counts);
    counts.set(address, (counts.get(address) ?? 0) + 1);
  }

  at({ transport, address }: HeardFrom): number {
    return this.#counts.get(transport)?.get(address) ?? 0;
  }
}

function isSamePlace(one: HeardFrom, other: HeardFrom): boolean {
  return one.transport === other.transport && one.address === other.address;
}

import type { MasterTransport } from '../../minion-protocol/index.ts';
import type { LastHeard } from '../requests/last-heard.ts';
import type { KnownFacts } from '../targeting/minion-facts.ts';

/** The minions that are connected, with the address that each comes from, if it is known. */
export type Presence = () => ReadonlyMap<string, string | undefined>;

/** What is looked at. */
export interface PresenceParts {
  readonly acceptedIds: () => readonly string[];
  readonly lastHeard: LastHeard;
  readonly facts: Pick<KnownFacts, 'of'>;
  readonly transports: readonly Pick<MasterTransport, 'subscribers'>[];
}

/**
 * Subscribers do not say who they are. As in Salt a minion counts as connected if there is a
 * subscriber from one of the addresses in its grains; here it must have been heard, too. One on
 * this host comes from an address that every minion has: then having been heard must do.
 */
export function presenceOf({ acceptedIds, lastHeard, facts, transports }: PresenceParts): Presence {
  return () => {
    const subscribers = transports.flatMap((transport) => transport.subscribers());
    const addresses = new Set(subscribers.map(({ address }) => address));
    const present = new Map<string, string | undefined>();
    for (const id of acceptedIds()) {
      if (lastHeard.of(id) === undefined) continue;
      const address = addressesOf(facts, id).find((own) => addresses.has(own));
      if (address !== undefined || hasLocal(addresses)) present.set(id, address);
    }
    return present;
  };
}

function hasLocal(addresses: ReadonlySet<string>): boolean {
  return [...addresses].some((address) => isLoopback(address));
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

function addressesOf(facts: Pick<KnownFacts, 'of'>, id: string): string[] {
  const { grains } = facts.of(id);
  return [grains?.get('ipv4'), grains?.get('ipv6')].flatMap((list) =>
    Array.isArray(list)
      ? list.filter((item) => typeof item === 'string').filter((item) => !isLoopback(item))
      : [],
  );
}

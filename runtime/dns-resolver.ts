/** DNS look-ups by the operating system's resolver. */

import { lookup } from 'node:dns/promises';

/**
 * Node looks names up in a few threads that all of the process shares: a name that is being looked
 * up already is not looked up once more.
 */
export function createDnsResolver(): (host: string) => Promise<readonly string[]> {
  const underWay = new Map<string, Promise<readonly string[]>>();
  return (host) => {
    const known = underWay.get(host);
    if (known !== undefined) return known;
    const found = lookup(host, { all: true })
      .then((all) => all.map(({ address }) => address))
      .finally(() => underWay.delete(host));
    underWay.set(host, found);
    return found;
  };
}

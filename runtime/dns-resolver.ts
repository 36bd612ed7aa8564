/** DNS lookups with the resolver of the operating system. */

import { lookup } from 'node:dns/promises';

/**
 * Creates a resolver that merges simultaneous lookups of the same name, because Node performs
 * lookups in a few threads that the whole process shares.
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

/** DNS lookups with the operating system's resolver. */

import { lookup } from 'node:dns/promises';

/**
 * Creates a resolver that merges simultaneous lookups of the same name. This saves threads, because
 * Node.js performs lookups in a small thread pool that the whole process shares.
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

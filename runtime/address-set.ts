/** Sets of IP addresses and networks. */

import { BlockList, isIP } from 'node:net';

/** A set of IP addresses. */
export interface AddressSet {
  /**
   * Whether the set contains an address. An IPv4 address mapped into IPv6 (`::ffff:…`) is treated
   * as IPv4.
   */
  has(address: string): boolean;
}

/**
 * Creates a set.
 * @param list - addresses, and networks such as `10.0.0.0/8`
 * @throws TypeError if an entry is neither an address nor a network
 */
export function addressSet(list: readonly string[]): AddressSet {
  const blocks = new BlockList();
  for (const text of list) add(blocks, text);
  return {
    has: (address) => isIP(address) !== 0 && blocks.check(address, familyOf(address)),
  };
}

function add(blocks: BlockList, text: string): void {
  const [address = '', ...prefix] = text.split('/');
  const bits = Number(prefix[0]);
  const isPlain = prefix.length === 0;
  const isNetwork = prefix.length === 1 && /^\d{1,3}$/.test(prefix[0] ?? '');
  const isWithin = isPlain || bits <= (familyOf(address) === 'ipv6' ? 128 : 32);
  if (isIP(address) === 0 || !isWithin || !(isPlain || isNetwork)) {
    throw new TypeError(`${text} is neither an IP address nor a network such as 10.0.0.0/8`);
  }
  if (isPlain) blocks.addAddress(address, familyOf(address));
  else blocks.addSubnet(address, bits, familyOf(address));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/** Sets of network addresses and networks. */

import { BlockList, isIP } from 'node:net';

/** A set of addresses. */
export interface AddressSet {
  /**
   * Whether the set contains an address. An IPv4 address mapped into IPv6 (`::ffff:…`) counts as
   * IPv4.
   */
  has(address: string): boolean;
}

/**
 * Creates a set.
 * @param list addresses, and networks such as `10.0.0.0/8`
 * @throws TypeError for an entry that is neither
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
    throw new TypeError(`${text}: expected an address or a network`);
  }
  if (isPlain) blocks.addAddress(address, familyOf(address));
  else blocks.addSubnet(address, bits, familyOf(address));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

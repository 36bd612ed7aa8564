import { isIPv6 } from 'node:net';

/**
 * Returns the owner of a network address, for limits per owner. The owner of an IPv4 address is the
 * address itself. The owner of an IPv6 address is its /64 network, because one customer usually has
 * the whole network. An IPv4 address mapped into IPv6 counts as IPv4. Other text, such as `local`,
 * is returned unchanged.
 */
export function addressOwner(address: string): string {
  // Most addresses are IPv4, and every request calls this function.
  if (!address.includes(':')) return address;
  const [text = ''] = address.split('%');
  if (!isIPv6(text)) return address;
  const groups = groupsOf(text);
  const [g = 0, h = 0] = groups.slice(6);
  if (groups.slice(0, 6).join() === '0,0,0,0,0,65535') {
    return `${g >> 8}.${g & 255}.${h >> 8}.${h & 255}`;
  }
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** Returns the eight groups of a valid IPv6 address. */
function groupsOf(text: string): readonly number[] {
  const [head = [], tail = []] = text.split('::').map(readGroups);
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => 0);
  return [...head, ...zeros, ...tail];
}

function readGroups(part: string): readonly number[] {
  if (part === '') return [];
  return part.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}

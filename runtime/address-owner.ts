/**
 * Returns the owner of a network address for limits: an IPv4 address itself, and the network of 64
 * bits of an IPv6 address, because one customer usually has all of it. An IPv4 address mapped into
 * IPv6 counts as IPv4. Other text, such as `local`, is returned unchanged.
 */
export function addressOwner(address: string): string {
  if (!address.includes(':')) return address;
  const [text = ''] = address.toLowerCase().split('%');
  const groups = groupsOf(text);
  if (groups === undefined) return address;
  const [a, b, c, d, e, f, g = 0, h = 0] = groups;
  if (f === 0xff_ff && a === 0 && b === 0 && c === 0 && d === 0 && e === 0) {
    return `${g >> 8}.${g & 255}.${h >> 8}.${h & 255}`;
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`;
}

/** Returns the eight groups of an IPv6 address, or `undefined` for other text. */
function groupsOf(text: string): readonly number[] | undefined {
  const [head = [], tail, ...rest] = text.split('::').map(readGroups);
  const all = [...head, ...(tail ?? [])];
  const isWhole = tail === undefined ? all.length === 8 : all.length < 8;
  if (rest.length > 0 || !isWhole || all.some((group) => !(group <= 0xff_ff))) return undefined;
  return [...head, ...Array.from({ length: 8 - all.length }, () => 0), ...(tail ?? [])];
}

/** Returns the groups of a part of an address. A group that is not a number is NaN. */
function readGroups(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.'))
      return /^[0-9a-f]{1,4}$/.test(group) ? [Number.parseInt(group, 16)] : [NaN];
    const bytes = group.split('.').map(Number);
    const [a = NaN, b = NaN, c = NaN, d = NaN] = bytes;
    return bytes.length === 4 ? [a * 256 + b, c * 256 + d] : [NaN];
  });
}

/** Addresses and networks as Python's `ipaddress` reads them [salt/matchers/ipcidr_match.py]. */
import type { WireValue } from '../payload.ts';

interface Address {
  readonly version: 4 | 6;
  readonly value: bigint;
}

const sizes = { 4: 32, 6: 128 } as const;

/** A range of addresses of one version, both ends included. */
export interface IpNetwork {
  readonly version: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
}

/**
 * Reads an address or a network. One whose address has bits behind the mask is none, as in Salt.
 * @returns `undefined` for anything else
 */
export function parseIpNetwork(text: string): IpNetwork | undefined {
  const [addressText = '', mask, ...rest] = text.split('/');
  const address = parseAddress(addressText);
  if (address === undefined || rest.length > 0) return undefined;
  const { version, value: first } = address;
  const hostBits = mask === undefined ? 0 : readHostBits(mask, version);
  if (hostBits === undefined) return undefined;
  const last = first + (1n << BigInt(hostBits)) - 1n;
  const hasHostBits = BigInt.asUintN(hostBits, first) !== 0n;
  return hasHostBits ? undefined : { version, first, last };
}

/** Whether one of a minion's addresses, as its grains list them, lies in the network. */
export function networkContainsAny(network: IpNetwork, addresses: WireValue | undefined): boolean {
  const list = Array.isArray(addresses) ? addresses : [addresses];
  return list.some((text) => {
    const address = typeof text === 'string' ? parseAddress(text) : undefined;
    return (
      address?.version === network.version &&
      network.first <= address.value &&
      address.value <= network.last
    );
  });
}

function parseAddress(text: string): Address | undefined {
  const version = text.includes(':') ? 6 : 4;
  const value = version === 6 ? parseIpv6(text) : parseIpv4(text);
  return value === undefined ? undefined : { version, value };
}

function parseIpv4(text: string): bigint | undefined {
  const octets = text.split('.');
  const isValid =
    octets.length === 4 &&
    octets.every((octet) => /^(0|[1-9]\d{0,2})$/.test(octet) && Number(octet) <= 255);
  return isValid ? octets.reduce((sum, octet) => sum * 256n + BigInt(octet), 0n) : undefined;
}

function parseIpv6(text: string): bigint | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [head = [], tail = []] = halves.map((half) => (half === '' ? [] : half.split(':')));
  const left = readGroups(head, halves.length === 1);
  const right = readGroups(tail, true);
  if (left === undefined || right === undefined) return undefined;
  const missing = 8 - left.length - right.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...left, ...Array<number>(missing).fill(0), ...right];
  return groups.reduce((sum, group) => sum * 65_536n + BigInt(group), 0n);
}

/** Groups of 16 bits; the last piece of an address may be IPv4. */
function readGroups(pieces: readonly string[], isEnd: boolean): number[] | undefined {
  const groups: number[] = [];
  for (const [index, piece] of pieces.entries()) {
    const ipv4 = isEnd && index === pieces.length - 1 ? parseIpv4(piece) : undefined;
    if (ipv4 !== undefined) groups.push(Number(ipv4 >> 16n), Number(ipv4 & 0xffffn));
    else if (/^[0-9a-f]{1,4}$/i.test(piece)) groups.push(Number.parseInt(piece, 16));
    else return undefined;
  }
  return groups;
}

/** How many bits a mask leaves to hosts; IPv4 masks may be addresses, of either sense. */
function readHostBits(mask: string, version: 4 | 6): number | undefined {
  const size = sizes[version];
  if (/^\d{1,3}$/.test(mask)) return Number(mask) <= size ? size - Number(mask) : undefined;
  const value = version === 4 ? parseIpv4(mask) : undefined;
  if (value === undefined) return undefined;
  const inverse = BigInt.asUintN(32, ~value);
  // 0.0.0.0 is both; Python takes it for the mask of all addresses.
  return trailingOnes(inverse) ?? trailingOnes(value);
}

function trailingOnes(value: bigint): number | undefined {
  return (value & (value + 1n)) === 0n ? value.toString(2).replace('0', '').length : undefined;
}

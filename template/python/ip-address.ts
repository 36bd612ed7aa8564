/**
 * Parses and prints addresses like Python's `ipaddress`. `node:net` validates addresses, because a
 * target parses the addresses of every minion and `ipaddr.js` would take ten times as long.
 * `ipaddr.js` is used only to convert masks and to print addresses.
 */

import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** An address and its network. */
export interface IpInterface {
  readonly version: 4 | 6;
  readonly number: bigint;
  /** Prefix length of the network, in bits. */
  readonly prefix: number;
  /** Whether the parsed text contained a prefix length. */
  readonly isNetwork: boolean;
  readonly zone: string;
}

/**
 * Parses `192.0.2.1` or `2001:db8::1`, with or without `/prefix`. Returns `undefined` for other
 * texts.
 */
export function parseInterface(text: string): IpInterface | undefined {
  const [address = '', mask, ...more] = text.split('/');
  if (more.length > 0) return undefined;
  const four = parseFour(address);
  const [bare = '', zone] = four === undefined ? address.split('%', 2) : [];
  const number = four ?? parseSix(bare);
  if (number === undefined || zone === '' || address.split('%').length > 2) return undefined;
  const version = four === undefined ? 6 : 4;
  const prefix = mask === undefined ? bits(version) : parsePrefix(mask, version);
  if (prefix === undefined) return undefined;
  return { version, number, prefix, isNetwork: mask !== undefined, zone: zone ?? '' };
}

function bits(version: 4 | 6): number {
  return version === 4 ? 32 : 128;
}

/** Parses a prefix length. An IPv4 prefix may also be a net mask or a host mask. */
function parsePrefix(text: string, version: 4 | 6): number | undefined {
  if (/^\d{1,3}$/.test(text)) return Number(text) <= bits(version) ? Number(text) : undefined;
  if (version !== 4 || !isIPv4(text)) return undefined;
  const mask = ipaddr.IPv4.parse(text);
  const inverse = new ipaddr.IPv4(mask.octets.map((octet) => 255 - octet));
  // 0.0.0.0 is valid as a net mask and as a host mask. Python treats it as the net mask of all
  // addresses.
  return mask.prefixLengthFromSubnetMask() ?? inverse.prefixLengthFromSubnetMask() ?? undefined;
}

/** Parses an IPv4 address. As in Python, a leading zero is an error. */
function parseFour(text: string): bigint | undefined {
  if (!isIPv4(text)) return undefined;
  return BigInt(text.split('.').reduce((number, octet) => number * 256 + Number(octet), 0));
}

function parseSix(text: string): bigint | undefined {
  if (!isIPv6(text)) return undefined;
  const [head = '', tail] = withoutFour(text).split('::');
  const left = groupsOf(head);
  const right = groupsOf(tail ?? '');
  const zeros = '0000'.repeat(8 - left.length - right.length);
  return BigInt(`0x${left.join('')}${zeros}${right.join('')}`);
}

function groupsOf(text: string): string[] {
  return text === '' ? [] : text.split(':').map((group) => group.padStart(4, '0'));
}

/** Replaces an IPv4 suffix of an IPv6 address by two hexadecimal groups. */
function withoutFour(text: string): string {
  const [, head, four = ''] = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text) ?? [];
  if (head === undefined) return text;
  const [a = 0, b = 0, c = 0, d = 0] = four.split('.').map(Number);
  return `${head}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

/** Formats an address like `str(address)`, with its prefix if the text had one. */
export function formatAddress({ version, number, prefix, isNetwork, zone }: IpInterface): string {
  const text = ipaddr.fromByteArray(bytesOf(number, version)).toString();
  return text + (zone === '' ? '' : `%${zone}`) + (isNetwork ? `/${prefix}` : '');
}

function bytesOf(number: bigint, version: 4 | 6): number[] {
  const digits = number.toString(16).padStart(bits(version) / 4, '0');
  return [...Buffer.from(digits, 'hex')];
}

/** Parses a network like `ip_network(text)`. Bits after the prefix must be zero. */
export function parseNetwork(text: string): IpInterface | undefined {
  const network = parseInterface(text);
  if (network === undefined || network.zone !== '') return undefined;
  const hostBits = bits(network.version) - network.prefix;
  return BigInt.asUintN(hostBits, network.number) === 0n ? network : undefined;
}

/** Whether an address is in a network. */
export function isInNetwork(address: IpInterface, network: IpInterface): boolean {
  if (network.version !== address.version) return false;
  const shift = BigInt(bits(network.version) - network.prefix);
  return address.number >> shift === network.number >> shift;
}

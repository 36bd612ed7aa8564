/** Addresses as Python's `ipaddress` reads and prints them. */

/** An address, with the network it was written with. */
export interface IpInterface {
  readonly version: 4 | 6;
  readonly number: bigint;
  /** The length of the network's prefix in bits. */
  readonly prefix: number;
  /** Whether a prefix was written. */
  readonly isNetwork: boolean;
  readonly zone: string;
}

/** Reads `192.0.2.1`, `2001:db8::1`, each with `/prefix` or without; undefined for anything else. */
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

/** IPv4 masks may be addresses, of either sense. */
function parsePrefix(text: string, version: 4 | 6): number | undefined {
  if (/^\d{1,3}$/.test(text)) return Number(text) <= bits(version) ? Number(text) : undefined;
  const number = version === 4 ? parseFour(text) : undefined;
  if (number === undefined) return undefined;
  // 0.0.0.0 is both a net mask and a host mask; Python takes it for the net mask of all addresses.
  const mask = number.toString(2).padStart(32, '0');
  if (/^1*0*$/.test(mask)) return mask.lastIndexOf('1') + 1;
  return /^0+1+$/.test(mask) ? mask.indexOf('1') : undefined;
}

function parseFour(text: string): bigint | undefined {
  const parts = text.split('.');
  if (parts.length !== 4 || !parts.every(isOctet)) return undefined;
  return parts.reduce((number, part) => number * 256n + BigInt(part), 0n);
}

/** A leading zero would be octal to some, so Python takes none. */
function isOctet(text: string): boolean {
  return /^(0|[1-9]\d{0,2})$/.test(text) && Number(text) < 256;
}

function parseSix(text: string): bigint | undefined {
  const [head = '', tail, ...more] = withoutFour(text).split('::');
  if (more.length > 0 || !text.includes(':')) return undefined;
  const left = groups(head);
  const right = tail === undefined ? [] : groups(tail);
  const missing = 8 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const all = [...left, ...Array.from({ length: missing }, () => '0'), ...right];
  if (!all.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return all.reduce((number, group) => number * 65536n + BigInt(`0x${group}`), 0n);
}

function groups(text: string): string[] {
  return text === '' ? [] : text.split(':');
}

function withoutFour(text: string): string {
  const [, head = '', four = ''] = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text) ?? [];
  const number = parseFour(four);
  if (number === undefined) return text;
  return `${head}${(number >> 16n).toString(16)}:${(number & 0xffffn).toString(16)}`;
}

/** `str(address)`, with the prefix where one was written. */
export function formatAddress({ version, number, prefix, isNetwork, zone }: IpInterface): string {
  const text = version === 4 ? formatFour(number) : formatSix(number);
  return text + (zone === '' ? '' : `%${zone}`) + (isNetwork ? `/${prefix}` : '');
}

function formatFour(number: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => (number >> shift) & 255n).join('.');
}

/** The longest run of zeros, if there are two or more, is left out. */
function formatSix(number: bigint): string {
  const list = Array.from({ length: 8 }, (_, i) =>
    ((number >> BigInt(112 - 16 * i)) & 0xffffn).toString(16),
  );
  const text = list.join(':');
  const runs = [...text.matchAll(/(?:^|(?<=:))0(?::0)+(?=:|$)/g)];
  const longest = runs.reduce((best, [run]) => (run.length > best.length ? run : best), '');
  const run = runs.find(([candidate]) => candidate === longest);
  if (run === undefined) return text;
  const before = text.slice(0, run.index).replace(/:$/, '');
  const after = text.slice(run.index + longest.length).replace(/^:/, '');
  return `${before}::${after}`;
}

/** Reads a network, `ip_network(text)`: no bit of its address may be behind the prefix. */
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

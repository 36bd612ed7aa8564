/** Salt's filters for addresses [salt/utils/network.py], based on Python's `ipaddress`. */

import { trimEnd } from '#runtime';
import { valueError } from '../python/exceptions.ts';
import {
  formatAddress,
  type IpInterface,
  isInNetwork,
  parseInterface,
} from '../python/ip-address.ts';
import { normalizeInteger, toInteger } from '../python/numbers.ts';
import { str, textRepr } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import {
  Bytes,
  isInteger,
  isText,
  Lazy,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
} from './definition.ts';

const ranges: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  multicast: ['224.0.0.0/4', 'ff00::/8'],
  linkLocal: ['169.254.0.0/16', 'fe80::/10'],
  siteLocal: ['fec0::/10'],
  unspecified: ['0.0.0.0/32', '::/128'],
  reserved: [
    '240.0.0.0/4',
    '::/8',
    '100::/8',
    '200::/7',
    '400::/6',
    '800::/5',
    '1000::/4',
    '4000::/3',
    '6000::/3',
    '8000::/3',
    'a000::/3',
    'c000::/3',
    'e000::/4',
    'f000::/5',
    'f800::/6',
    'fe00::/9',
  ],
  private: [
    '0.0.0.0/8',
    '10.0.0.0/8',
    '127.0.0.0/8',
    '169.254.0.0/16',
    '172.16.0.0/12',
    '192.0.0.0/29',
    '192.0.0.170/31',
    '192.0.2.0/24',
    '192.168.0.0/16',
    '198.18.0.0/15',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '240.0.0.0/4',
    '255.255.255.255/32',
    '::1/128',
    '::/128',
    '::ffff:0:0/96',
    '100::/64',
    '2001::/23',
    '2001:2::/48',
    '2001:db8::/32',
    '2001:10::/28',
    'fc00::/7',
    'fe80::/10',
  ],
};

/**
 * Address range that each option of Salt's network filters selects. Several options have the same
 * meaning.
 */
const options: Readonly<Record<string, string>> = {
  'link-local': 'linkLocal',
  linklocal: 'linkLocal',
  ll: 'linkLocal',
  link_local: 'linkLocal',
  loopback: 'loopback',
  lo: 'loopback',
  multicast: 'multicast',
  private: 'private',
  reserved: 'reserved',
  'site-local': 'siteLocal',
  sl: 'siteLocal',
  site_local: 'siteLocal',
  unspecified: 'unspecified',
};

function isInRange(address: IpInterface, range: string): boolean {
  return (ranges[range] ?? []).some((text) => {
    const network = parseInterface(text);
    return network !== undefined && isInNetwork(address, network);
  });
}

function passes(address: IpInterface, wanted: Value): boolean {
  if (!isTruthy(wanted)) return true;
  return str(wanted)
    .split(',')
    .map((option) => option.trim())
    .every((option) => {
      if (option === 'global' || option === 'public') return !isInRange(address, 'private');
      const range = Object.hasOwn(options, option) ? options[option] : undefined;
      return range === undefined || isInRange(address, range);
    });
}

/**
 * Returns the address as Python prints it, or `None` if it is invalid or not of the requested type.
 */
function checked(value: Value, version: number, wanted: Value): string | null {
  if (value instanceof Undefined) throw value.error();
  const address = isText(value) ? parseInterface(textOf(value)) : fromNumber(value);
  if (address?.version !== version || !passes(address, wanted)) return null;
  return formatAddress(address);
}

/** Converts a number to an IP address. */
function fromNumber(value: Value): IpInterface | undefined {
  if (!isInteger(value)) return undefined;
  const number = BigInt(toInteger(value));
  if (number < 0n || number >= 1n << 128n) return undefined;
  const version = number < 1n << 32n ? 4 : 6;
  return { version, number, prefix: version === 4 ? 32 : 128, isNetwork: false, zone: '' };
}

/**
 * Whether the filters process each item of this value, as in Salt. This is so for lists, tuples and
 * generators, but not for other iterators, such as the result of `zip`.
 */
function isList(value: Value): boolean {
  if (value instanceof Lazy) return value.typeName === 'generator';
  return Array.isArray(value) || value instanceof Tuple;
}

function byVersion(value: Value, version: number, wanted: Value, context: FilterContext): Value {
  if (isText(value)) return checked(value, version, wanted);
  if (!isList(value)) return null;
  return [...iterateItems(value, context)]
    .map((item) => checked(item, version, wanted))
    .filter((address) => address !== null);
}

function anyVersion(value: Value, wanted: Value, context: FilterContext): Value {
  const list = value instanceof Lazy && isList(value) ? [...iterateItems(value, context)] : value;
  const four = byVersion(list, 4, wanted, context);
  const six = byVersion(list, 6, wanted, context);
  if (Array.isArray(four) && Array.isArray(six)) return [...four, ...six];
  return four ?? six;
}

function filter(
  run: (value: Value, wanted: Value, context: FilterContext) => Value,
): FilterDefinition {
  return defineFilter(['value', 'options'], [null], (context, value = null, wanted = null) =>
    run(value, wanted, context),
  );
}

/**
 * Defines a filter that computes a result for each address in its value. For a text, the filter
 * returns one result. For a list, it returns a list of results. If no address is valid, it returns
 * `None`.
 */
function overAddresses(
  run: (address: IpInterface, context: FilterContext) => Value,
): FilterDefinition {
  return defineFilter(
    ['value', 'options', 'version'],
    [null, null],
    (context, value = null, wanted = null, version = null) => {
      const found =
        version === 4 || version === 6
          ? byVersion(value, version, wanted, context)
          : anyVersion(value, wanted, context);
      if (!isTruthy(found)) return null;
      const texts = Array.isArray(found) ? found : [found];
      const results = texts.map((text) => {
        const address = parseInterface(str(text));
        return address === undefined ? null : run(address, context);
      });
      return isList(value) ? results : (results[0] ?? null);
    },
  );
}

function networkSize({ version, prefix }: IpInterface): bigint {
  return 1n << BigInt((version === 4 ? 32 : 128) - prefix);
}

function networkHosts(address: IpInterface, { meter }: FilterContext): Value {
  const size = networkSize(address);
  meter.step(Number(size));
  const first = (address.number / size) * size;
  const skipsEnds = size > 2n;
  const from = skipsEnds ? first + 1n : first;
  const to = skipsEnds && address.version === 4 ? first + size - 1n : first + size;
  const hosts: string[] = [];
  for (let number = from; number < to; number += 1n) {
    hosts.push(formatAddress({ ...address, number, isNetwork: false }));
  }
  return hosts;
}

/** Encloses an IPv6 address in brackets for a URL. Returns other values unchanged. */
function wrapAddress(value: Value): Value {
  if (checked(value, 6, null) === null) return value;
  const text = trimEnd(str(value).replace(/^\[+/, ''), ']');
  const address = parseInterface(text);
  if (address === undefined || address.isNetwork) {
    throw valueError(`${textRepr(text)} does not appear to be an IPv4 or IPv6 address`);
  }
  return `[${formatAddress(address)}]`;
}

/**
 * Parses a MAC address.
 * @throws PythonException ValueError for other texts
 */
function macBytes(value: Value): Bytes {
  const text = isText(value) ? textOf(value) : '';
  const digits = text.length === 17 ? text.replaceAll(text.charAt(2), '') : text;
  if (!/^[0-9a-f]{12}$/i.test(digits)) throw valueError('Invalid MAC address');
  return new Bytes(Buffer.from(digits, 'hex'));
}

/** Salt's network filters by name. */
export const networkFilters: FilterDefinitions = {
  ip_host: overAddresses((address) => formatAddress({ ...address, isNetwork: true })),
  ipaddr: filter(anyVersion),
  ipv4: filter((value, wanted, context) => byVersion(value, 4, wanted, context)),
  ipv6: filter((value, wanted, context) => byVersion(value, 6, wanted, context)),
  is_ip: filter(
    (value, wanted) => checked(value, 4, wanted) !== null || checked(value, 6, wanted) !== null,
  ),
  is_ipv4: filter((value, wanted) => checked(value, 4, wanted) !== null),
  is_ipv6: filter((value, wanted) => checked(value, 6, wanted) !== null),
  ipwrap: simpleFilter((value) => {
    if (value instanceof Tuple) return value.items.map(wrapAddress);
    return Array.isArray(value) ? value.map(wrapAddress) : wrapAddress(value);
  }),
  mac_str_to_bytes: simpleFilter(macBytes),
  network_hosts: overAddresses(networkHosts),
  network_size: overAddresses((address) => normalizeInteger(networkSize(address))),
};

import test from 'ava';
import fc from 'fast-check';
import {
  formatAddress,
  isInNetwork,
  parseInterface,
  parseNetwork,
} from '#template/python/ip-address.ts';
import { tries } from '../helpers/effort.ts';

/**
 * Texts and how Python 3 prints them: `str(ip_address(text))`, or `str(ip_interface(text))` with a
 * prefix. `undefined` if Python raises ValueError.
 */
const cases: ReadonlyArray<readonly [text: string, printed: string | undefined]> = [
  ['192.0.2.1', '192.0.2.1'],
  ['192.0.2.01', undefined],
  ['1.2.3', undefined],
  ['1.2.3.4.5', undefined],
  ['256.0.0.1', undefined],
  ['0x1.2.3.4', undefined],
  ['192.0.2.1/24', '192.0.2.1/24'],
  ['192.0.2.1/255.255.255.0', '192.0.2.1/24'],
  ['192.0.2.1/0.0.0.255', '192.0.2.1/24'],
  ['192.0.2.1/0.0.0.0', '192.0.2.1/0'],
  ['192.0.2.1/255.255.255.255', '192.0.2.1/32'],
  ['192.0.2.1/255.0.255.0', undefined],
  ['192.0.2.1/33', undefined],
  ['192.0.2.1/', undefined],
  ['192.0.2.1/24/8', undefined],
  ['192.0.2.1%eth0', undefined],
  ['::', '::'],
  ['::1', '::1'],
  ['1::', '1::'],
  ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
  ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
  ['1::2:3:4:5:6:7:8', undefined],
  ['1:2:3:4:5:6:7', undefined],
  ['1::2::3', undefined],
  [':1:2:3:4:5:6:7:8', undefined],
  ['12345::', undefined],
  ['::192.0.2.1', '::c000:201'],
  ['::ffff:192.0.2.1', '::ffff:c000:201'],
  ['::192.0.2.01', undefined],
  ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ['fe80::1%eth0', 'fe80::1%eth0'],
  ['fe80::1%', undefined],
  ['fe80::1%a%b', undefined],
  ['fe80::1%eth0/64', 'fe80::1%eth0/64'],
  ['2001:db8::1/64', '2001:db8::1/64'],
  ['2001:db8::1/129', undefined],
  ['2001:db8::1/ffff::', undefined],
  ['', undefined],
  ['localhost', undefined],
];

for (const [text, printed] of cases) {
  test(`'${text}' is ${printed === undefined ? 'rejected' : 'read'} as Python does`, (t) => {
    const address = parseInterface(text);
    t.is(address === undefined ? undefined : formatAddress(address), printed);
  });
}

test('an address that is printed reads as the same address', (t) => {
  const groups = fc.array(fc.oneof(fc.constant(0), fc.nat({ max: 65_535 })), {
    minLength: 8,
    maxLength: 8,
  });
  fc.assert(
    fc.property(groups, (list) => {
      const text = list.map((group) => group.toString(16)).join(':');
      const address = parseInterface(text);
      const printed = address === undefined ? '' : formatAddress(address);
      t.deepEqual(parseInterface(printed), address);
      t.false(/(^|:)0:0(:|$)/.test(printed) && !printed.includes('::'));
    }),
    tries(75),
  );
});

test('a network has no bit behind its prefix, and contains the addresses that share it', (t) => {
  t.is(parseNetwork('192.0.2.1/24'), undefined);
  const network = parseNetwork('192.0.2.0/24');
  const inside = parseInterface('192.0.2.255');
  const outside = parseInterface('192.0.3.0');
  const six = parseInterface('::192.0.2.1');
  if (!network || !inside || !outside || !six) return t.fail('not read');
  t.true(isInNetwork(inside, network));
  t.false(isInNetwork(outside, network));
  t.false(isInNetwork(six, network));
});

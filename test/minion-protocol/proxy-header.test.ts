/** Headers of the PROXY protocol, version 2: recorded ones, and random bytes. */
import test from 'ava';
import fc from 'fast-check';
import { encodeProxyHeader, isRelayedAddress, relayedAddress } from '#minion-protocol';
import { ProxyHeaderReader, type ProxyHeaderResult } from '#minion-protocol/proxy-header.ts';
import { tries } from '../helpers/effort.ts';
import { hex } from '../helpers/zmtp-bytes.ts';

const read = (...chunks: readonly Uint8Array[]): ProxyHeaderResult => {
  const reader = new ProxyHeaderReader();
  let result: ProxyHeaderResult = 'incomplete';
  for (const chunk of chunks) if (result === 'incomplete') result = reader.push(chunk);
  return result;
};

const signature = '0d0a0d0a000d0a515549540a';
/**
 * Header that haproxy 2.6 sent for a connection from 10.0.0.5 in net-A to 169.254.169.254, port
 * 4506.
 */
const recorded = hex(`${signature} 21 11 0014 0a000005 a9fea9fe 836c 119a 05 0005 6e65742d41`);
const addresses = '0a000005 a9fea9fe 836c 119a';
const netA = '05 0005 6e65742d41';
/** Returns a header with these values after the addresses. */
const withValues = (values: string): Buffer => {
  const rest = hex(`${addresses} ${values}`);
  return Buffer.concat([hex(`${signature} 21 11 ${word(rest.length)}`), rest]);
};
const word = (value: number): string => value.toString(16).padStart(4, '0');

test('the header of haproxy is read, whole or byte by byte, without the bytes after it', (t) => {
  const peer = { network: 'net-A', address: '10.0.0.5' };
  const whole = Buffer.concat([recorded, Buffer.from('hello')]);
  t.deepEqual(read(whole), { peer, rest: Buffer.from('hello') });
  const bytes = Array.from(recorded, (byte) => Uint8Array.of(byte));
  t.deepEqual(read(...bytes), { peer, rest: Buffer.alloc(0) });
  t.is(read(...bytes.slice(0, -1)), 'incomplete');
  t.is(relayedAddress(peer), 'net-A/10.0.0.5');
  t.true(isRelayedAddress('net-A/10.0.0.5'));
  t.false(isRelayedAddress('10.0.0.5'));
});

test('IPv6 addresses have their short form, and embedded IPv4 addresses the dotted form', (t) => {
  const over6 = (source: string): ProxyHeaderResult =>
    read(hex(`${signature} 21 21 002c ${source} ${'0'.repeat(32)} 836c 119a ${netA}`));
  t.like(over6('fe80000000000000f8163efffe4c2c30'), {
    peer: { address: 'fe80::f816:3eff:fe4c:2c30' },
  });
  t.like(over6('00000000000000000000ffff0a000005'), { peer: { address: '10.0.0.5' } });
});

test('foreign values are skipped, and known values must be present once and well formed', (t) => {
  const peer = { network: 'net-A', address: '10.0.0.5' };
  // These are PP2_TYPE_NOOP and PP2_TYPE_CRC32C.
  t.like(read(withValues(`04 0002 0000 03 0004 00000000 ${netA}`)), { peer });
  const [instance, project] = ['e0 0002 6931', 'e1 0002 7031'];
  const known = { ...peer, instance: 'i1', project: 'p1' };
  t.like(read(withValues(`${netA} ${instance} ${project}`)), { peer: known });
  t.is(relayedAddress(known), 'instance:p1/i1');
  t.true(isRelayedAddress('instance:p1/i1'));
  for (const [values, what] of [
    ['', 'no network'],
    [`${netA} ${netA}`, 'two networks'],
    [`${netA} 05 0005 6e65742d42`, 'another network'],
    ['05 0000', 'an empty one'],
    ['05 0005 6e65742f41', 'a network with a slash'],
    [`05 0041 ${'61'.repeat(65)}`, 'one of 65 characters'],
    [`${netA} ${instance}`, 'an instance without a project'],
    [`${netA} ${project}`, 'a project without an instance'],
    [`${netA} e0 0002 c3a9 ${project}`, 'an instance that is no id'],
    [`${netA} 04 00`, 'half a value'],
    [`${netA} 04 0005 00`, 'a value that is longer than the header'],
  ] as const) {
    t.is(read(withValues(values)), 'wrong', what);
  }
});

test('a header that is malformed or too long is refused at the first such byte', (t) => {
  for (const [bytes, what] of [
    ['ff00', 'no header: a greeting of ZeroMQ'],
    ['0d0a0d0a000d0a515549540b', 'another signature'],
    [`${signature} 20 00 0000`, 'LOCAL, a check of health'],
    [`${signature} 11 11 0014`, 'another version'],
    [`${signature} 21 12 0014`, 'UDP'],
    [`${signature} 21 31 0014`, 'a Unix socket'],
    [`${signature} 21 00 0014`, 'no family'],
    [`${signature} 21 11 000b 0a000005 a9fea9fe 836c 11`, 'less than the addresses'],
    [`${signature} 21 11 0209`, '537 bytes'],
  ] as const) {
    const padding = Buffer.alloc(bytes.includes('0014') ? 20 : 0);
    t.is(read(Buffer.concat([hex(bytes), padding])), 'wrong', what);
  }
  t.is(read(hex(`${signature} 21 11 0208`)), 'incomplete');
});

test('an encoded header is read back unchanged, however it is divided', (t) => {
  const id = fc.stringMatching(/^[A-Za-z0-9-]{1,64}$/);
  const peer = fc.record(
    {
      network: id,
      address: fc.oneof(fc.ipV4(), fc.ipV6().map(shortest)),
      known: fc.option(fc.record({ instance: id, project: id })),
    },
    { requiredKeys: ['network', 'address', 'known'] },
  );
  const property = fc.property(
    peer,
    fc.nat(80),
    fc.uint8Array(),
    ({ network, address, known }, cut, rest) => {
      const ids = { network, ...(known ?? {}) };
      const [source, destination] = [
        { address, port: 33_644 },
        { address: '169.254.169.254', port: 4506 },
      ];
      const bytes = Buffer.concat([encodeProxyHeader(ids, source, destination), rest]);
      const result = read(bytes.subarray(0, cut), bytes.subarray(cut));
      const behind = Buffer.from(rest).subarray(0);
      t.deepEqual(typeof result === 'object' && result.peer, { ...ids, address });
      // If the first piece contains the whole header, the second piece is not parsed.
      const read2 = typeof result === 'object' ? Buffer.from(result.rest) : Buffer.alloc(0);
      t.true(behind.subarray(0, read2.length).equals(read2));
    },
  );
  fc.assert(property, tries(100));
});

/** Returns the shortest form of an address. IPv4 inside IPv6 is returned as IPv4. */
function shortest(address: string): string {
  const text = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [, high, low] = /^::ffff:([\da-f]+):([\da-f]+)$/.exec(text) ?? [];
  if (high === undefined || low === undefined) return text;
  const bytes = Buffer.from(high.padStart(4, '0') + low.padStart(4, '0'), 'hex');
  return bytes.join('.');
}

test('any bytes are read without an exception', (t) => {
  const noise = fc.uint8Array({ maxLength: 600 });
  const behind = fc.tuple(fc.constant(hex(signature)), noise).map((it) => Buffer.concat(it));
  const changed = fc.tuple(fc.nat(recorded.length - 1), fc.nat(255)).map(([at, byte]) => {
    const bytes = Buffer.from(recorded);
    bytes[at] = byte;
    return bytes;
  });
  const property = fc.property(fc.oneof(noise, behind, changed), (bytes) => {
    const result = read(bytes);
    if (typeof result === 'object') {
      t.regex(relayedAddress(result.peer), /^[A-Za-z0-9-]+\/[\d.]+$/);
    }
  });
  fc.assert(property, tries(300));
  t.pass();
});

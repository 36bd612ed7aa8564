import { createHmac } from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import { HmacKey } from '../../minion-protocol/crypticle.ts';

function macOf(key: HmacKey, bytes: Uint8Array): Buffer {
  const target = Buffer.alloc(34, 0xee);
  key.write(bytes, target, 1);
  if (target[0] !== 0xee || target[33] !== 0xee) throw new Error('written beyond its place');
  return target.subarray(1, 33);
}

function expected(key: Uint8Array, bytes: Uint8Array): Buffer {
  return createHmac('sha256', key).update(bytes).digest();
}

test('an HMAC is that of OpenSSL, whatever the key and the message', (t) => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  const property = fc.property(fc.uint8Array({ maxLength: 64 }), bytes, bytes, (raw, one, two) => {
    const key = new HmacKey(raw);
    t.deepEqual(macOf(key, one), expected(raw, one));
    t.deepEqual(macOf(key, two), expected(raw, two), 'and the one before has left nothing');
    const both = expected(raw, Buffer.concat([one, two]));
    t.deepEqual(key.begin().update(one).update(two).digest(), both);
  });
  fc.assert(property);
});

test('long messages have the same HMAC', (t) => {
  const raw = Buffer.alloc(32, 3);
  const key = new HmacKey(raw);
  for (const size of [4095, 4096, 4097, 1_000_000]) {
    const message = Buffer.alloc(size, 5);
    t.deepEqual(macOf(key, message), expected(raw, message), String(size));
  }
});

test('a key that would have to be hashed first is refused', (t) => {
  t.throws(() => new HmacKey(Buffer.alloc(65)), { instanceOf: RangeError });
});

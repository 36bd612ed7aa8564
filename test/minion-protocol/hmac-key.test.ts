import { createHmac } from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import { HmacKey } from '../../minion-protocol/hmac-key.ts';

function expected(key: Uint8Array, bytes: Uint8Array): Buffer {
  return createHmac('sha256', key).update(bytes).digest();
}

test('an HMAC is that of OpenSSL, whatever the key and the message', (t) => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  const property = fc.property(fc.uint8Array({ maxLength: 64 }), bytes, bytes, (raw, one, two) => {
    const key = new HmacKey(raw);
    t.deepEqual(key.of(one), expected(raw, one));
    t.deepEqual(key.of(two), expected(raw, two), 'and the one before has left nothing');
    t.deepEqual(key.begin().update(one).update(two).digest(), key.of(Buffer.concat([one, two])));
  });
  fc.assert(property);
});

test('long messages have the same HMAC', (t) => {
  const raw = Buffer.alloc(32, 3);
  const key = new HmacKey(raw);
  for (const size of [4095, 4096, 4097, 1_000_000]) {
    const message = Buffer.alloc(size, 5);
    t.deepEqual(key.of(message), expected(raw, message), String(size));
  }
});

test('a key that would have to be hashed first is refused', (t) => {
  t.throws(() => new HmacKey(Buffer.alloc(65)), { instanceOf: RangeError });
});

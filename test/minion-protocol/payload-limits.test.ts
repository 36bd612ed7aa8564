import test from 'ava';
import {
  isWireMap,
  loadLimits,
  ProtocolError,
  packWire,
  unpackWire,
  type WireValue,
} from '#minion-protocol';
import { clearLimits } from '#minion-protocol/payload-limits.ts';

const badPayload = { instanceOf: ProtocolError, code: 'ERR_BAD_PAYLOAD' };
const overLimit = { instanceOf: ProtocolError, code: 'ERR_PAYLOAD_LIMIT' };

function nested(depth: number): Buffer {
  return Buffer.concat([Buffer.alloc(depth, 0x91), Buffer.from([0xc0])]);
}

test('the maximum depth is accepted, and one more level is refused', (t) => {
  t.notThrows(() => unpackWire(nested(8), clearLimits));
  t.throws(() => unpackWire(nested(9), clearLimits), overLimit);
  t.notThrows(() => unpackWire(nested(64), loadLimits));
  t.throws(() => unpackWire(nested(65), loadLimits), overLimit);
});

test('a million levels are refused without a stack overflow', (t) => {
  t.throws(() => unpackWire(nested(1_000_000), loadLimits), overLimit);
});

test('constants inside constants count as levels', (t) => {
  let constant = Buffer.from([0xc0]);
  for (let level = 0; level < 40; level += 1) {
    const pair = Buffer.concat([Buffer.from([0x92, 0xc0]), constant]);
    constant = Buffer.concat([Buffer.from([0xc8, pair.length >> 8, pair.length & 255, 79]), pair]);
  }
  t.throws(() => unpackWire(constant, loadLimits), overLimit);
});

test('the limit of elements covers all lists and maps together', (t) => {
  const limits = { ...clearLimits, maxElements: 5 };
  t.notThrows(() => unpackWire(packWire([[1, 2], { a: 1 }]), limits));
  t.throws(() => unpackWire(packWire([[1, 2, 3], { a: 1 }]), limits), overLimit);
});

test('more bytes than allowed are refused', (t) => {
  const limits = { ...clearLimits, maxBytes: 4 };
  t.is(unpackWire(packWire('abc'), limits), 'abc');
  t.throws(() => unpackWire(packWire('abcd'), limits), overLimit);
});

test('a declared length beyond the received bytes is refused', (t) => {
  const wide = { ...loadLimits, maxElements: Number.MAX_SAFE_INTEGER };
  for (const head of [0xc6, 0xc9, 0xdb, 0xdd, 0xdf]) {
    const bytes = Buffer.from([head, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    t.throws(() => unpackWire(bytes, wide), badPayload, head.toString(16));
  }
});

test('a declared length allocates no memory', (t) => {
  const wide = { ...loadLimits, maxElements: Number.MAX_SAFE_INTEGER };
  const bytes = Buffer.from([0xdd, 0x01, 0xff, 0xff, 0xff, 0xc0]); // 33 million elements
  const before = process.memoryUsage().rss;
  t.throws(() => unpackWire(bytes, wide), badPayload);
  t.true(process.memoryUsage().rss - before < 128 * 1024 * 1024);
});

test('bytes after the value are refused', (t) => {
  t.throws(() => unpackWire(Buffer.from([0xc0, 0xc0])), badPayload);
});

test('no prefix of a message is a valid message', (t) => {
  const bytes = packWire({ a: [1, 300, 70_000, 1.5, -1, -200, 2n ** 63n], b: 'x'.repeat(40) });
  for (let end = 0; end < bytes.length; end += 1) {
    t.throws(() => unpackWire(bytes.subarray(0, end)), badPayload);
  }
});

test('the reserved byte is refused', (t) => {
  t.throws(() => unpackWire(Buffer.from([0xc1])), badPayload);
});

test('a map as a key is refused', (t) => {
  t.throws(() => unpackWire(Buffer.from([0x81, 0x80, 0xc0])), badPayload);
  t.throws(() => unpackWire(Buffer.from([0x81, 0xde, 0, 0, 0xc0])), badPayload);
});

test('the last value of a duplicate key is used', (t) => {
  t.deepEqual(Object.entries(unpackWire(Buffer.from('82a16101a16102', 'hex')) ?? {}), [['a', 2]]);
});

test('a strict reader refuses duplicate keys and keys that are not text', (t) => {
  const limits = { ...clearLimits, uniqueKeys: true };
  t.throws(() => unpackWire(Buffer.from('82a16101a16102', 'hex'), limits), badPayload);
  t.throws(() => unpackWire(Buffer.from('810101', 'hex'), limits), badPayload);
  t.notThrows(() => unpackWire(Buffer.from('82a16101a16202', 'hex'), limits));
});

test('names of properties of Object.prototype are ordinary keys', (t) => {
  const value = unpackWire(
    Buffer.from('82a95f5f70726f746f5f5f81a16101ab636f6e7374727563746f7201', 'hex'),
  );
  t.deepEqual(Object.keys(value ?? {}), ['__proto__', 'constructor']);
  t.is(({} as { a?: unknown }).a, undefined);
});

test('a map inherits nothing, so a prototype cannot be polluted', (t) => {
  const value = unpackWire(Buffer.from('80', 'hex'));
  t.true(isWireMap(value));
  t.false('toString' in Object(value));
  t.true(Object.isFrozen(Object.getPrototypeOf(value)));
});

test('a byte order mark is preserved', (t) => {
  t.is(unpackWire(Buffer.from('a4efbbbf61', 'hex')), '\uFEFFa');
});

test('overlong forms and surrogates are decoded as bytes, not as text', (t) => {
  for (const hex of ['a2c080', 'a3eda080', 'a4f5808080']) {
    t.true(unpackWire(Buffer.from(hex, 'hex')) instanceof Uint8Array, hex);
  }
});

test('a value without a wire form is a TypeError, not a malformed message', (t) => {
  const loop: WireValue[] = [];
  loop.push(loop);
  const wrong: unknown[] = [undefined, { a: undefined }, () => 0, Symbol('s'), new Date(0), loop];
  for (const value of wrong) {
    t.throws(() => packWire(value as WireValue), { instanceOf: TypeError });
  }
});

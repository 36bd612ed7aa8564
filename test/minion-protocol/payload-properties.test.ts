import test from 'ava';
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { ProtocolError } from '../../minion-protocol/errors.ts';
import {
  packLocal,
  packWire,
  unpackLocal,
  unpackRaw,
  unpackWire,
  WireDateTime,
  type WireValue,
} from '../../minion-protocol/payload.ts';
import { canonical, canonicalWire } from '../helpers/vectors.ts';

const scalar: fc.Arbitrary<WireValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'grapheme', minLength: 30, maxLength: 300 }),
  fc.uint8Array({ maxLength: 300 }),
  fc.constant(new WireDateTime('2024-01-02T03:04:05.678901')),
);

// No bytes and no bigint: two keys that are different here may be the same on the wire.
const mapKey: fc.Arbitrary<WireValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.string(),
);

const value: fc.Arbitrary<WireValue> = fc.letrec<{ value: WireValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    scalar,
    fc.array(tie('value'), { maxLength: 20 }),
    fc.dictionary(fc.string(), tie('value'), { noNullPrototype: true }),
    fc.array(fc.tuple(mapKey, tie('value')), { maxLength: 18 }).map((pairs) => new Map(pairs)),
  ),
})).value;

test('what was packed locally is read back as it was', (t) => {
  fc.assert(
    fc.property(
      value,
      (original) => canonical(unpackLocal(packLocal(original))) === canonical(original),
    ),
  );
  t.pass();
});

test('what was packed for the wire is read back but for the difference of text and bytes', (t) => {
  fc.assert(
    fc.property(value, (original) => {
      const expected = canonicalWire(original);
      const packed = packWire(original);
      return (
        canonicalWire(unpackWire(packed)) === expected &&
        canonicalWire(unpackRaw(packed)) === expected
      );
    }),
  );
  t.pass();
});

test('text, lists, maps and 32 bit integers pack to what msgpackr makes of them', (t) => {
  const plain = fc.letrec<{ value: WireValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constant(null),
      fc.boolean(),
      fc.integer(),
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
      fc.array(tie('value'), { maxLength: 20 }),
    ),
  })).value;
  const packr = new Packr({ useRecords: false, variableMapSize: true });
  fc.assert(fc.property(plain, (original) => packLocal(original).equals(packr.pack(original))));
  t.pass();
});

test('no bytes make the readers fail otherwise than with a ProtocolError', (t) => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.array(fc.constantFrom(0x81, 0x91, 0xc7, 0xd4, 0x4f, 0xdf, 0xa1, 0, 255)).map(Buffer.from),
  );
  fc.assert(
    fc.property(bytes, (input) => {
      for (const unpack of [unpackWire, unpackLocal, unpackRaw]) {
        try {
          unpack(input);
        } catch (error) {
          if (!(error instanceof ProtocolError)) throw error;
        }
      }
    }),
    { numRuns: 5000 },
  );
  t.pass();
});

import test from 'ava';
import {
  packLocal,
  packWire,
  unpackLocal,
  unpackRaw,
  unpackWire,
  WireExtension,
  type WireValue,
} from '../../minion-protocol/payload.ts';
import { canonical, cases, hex, number, toWireValue, vectorFile } from '../helpers/vectors.ts';

const vectors = vectorFile('msgpack');

for (const vector of cases(vectors, 'encode')) {
  const value = toWireValue(vector.value);
  test(`the wire form of "${vector.name}" has Salt's bytes`, (t) => {
    t.is(packWire(value).length, number(vector.wire_length));
    const expected = hex(vector.wire_hex ?? vector.wire_hex_prefix);
    t.deepEqual(packWire(value).subarray(0, expected.length), expected);
  });
  test(`the local form of "${vector.name}" has Salt's bytes`, (t) => {
    t.is(packLocal(value).length, number(vector.local_length));
    const expected = hex(vector.local_hex ?? vector.local_hex_prefix);
    t.deepEqual(packLocal(value).subarray(0, expected.length), expected);
  });
}

/** Salt drops the code of an unknown extension and keeps its bytes; we keep both. */
function comparable(value: WireValue, expected: WireValue): WireValue {
  if (!(value instanceof WireExtension)) return value;
  return typeof expected === 'string' ? Buffer.from(value.data).toString('utf8') : value.data;
}

for (const vector of cases(vectors, 'decode')) {
  const bytes = hex(vector.hex);
  const readers = { as_wire: unpackWire, as_wire_raw: unpackRaw, as_local: unpackLocal };
  for (const [field, unpack] of Object.entries(readers)) {
    test(`"${vector.name}" is read ${field} like Salt reads it`, (t) => {
      const expected = toWireValue(vector[field]);
      t.is(canonical(comparable(unpack(bytes), expected)), canonical(expected));
    });
  }
}

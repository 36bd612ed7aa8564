import test from 'ava';
import Type from 'typebox';
import {
  emptyWireMap,
  localField,
  packLocal,
  unpackLocal,
  WireDateTime,
  WireExtension,
  type WireValue,
} from '#minion-protocol';
import { Bytes, defineRow, fromJson, type OldRow, Texts } from '#store';

const key = ['things', 'one'];

const thingRow = defineRow({
  name: 'thing',
  schema: Type.Object({
    name: Type.String(),
    count: Type.Number(),
    blob: Type.Optional(Bytes),
    tags: Texts,
    value: Type.Unsafe<WireValue>(Type.Unknown()),
  }),
  packed: { value: localField },
  unversioned: unpackLocal,
});

const thing = { name: 'a', count: 1_704_164_645_678, tags: ['x', 'y'], value: null };

test('a row is unchanged after writing and reading', (t) => {
  const row = { ...thing, blob: Uint8Array.of(1, 2, 255) };
  const read = thingRow.decode({ key, value: thingRow.encode(row) });
  t.deepEqual({ ...read, blob: new Uint8Array(read.blob ?? []) }, row);
});

test('values of the wire are stored exactly', (t) => {
  const odd = emptyWireMap();
  Object.defineProperty(odd, '__proto__', { value: 1, enumerable: true });
  const values: WireValue[] = [
    'text',
    7,
    -1.5,
    true,
    2n ** 63n,
    -(2n ** 63n),
    new WireDateTime('2024-01-02T03:04:05.678901'),
    new WireExtension(5, Uint8Array.of(1, 2)),
    new Map<WireValue, WireValue>([[1, 'one']]),
    [null, [['deep']]],
    odd,
  ];
  for (const value of values) {
    const read = thingRow.decode({ key, value: thingRow.encode({ ...thing, value }) });
    t.deepEqual(packLocal(read.value), packLocal(value));
    t.deepEqual(unpackLocal(packLocal(read.value)), unpackLocal(packLocal(value)));
  }
});

test('a row without a version is read, and written with a version', (t) => {
  const read = thingRow.decode({ key, value: packLocal({ ...thing, tags: [...thing.tags] }) });
  t.deepEqual({ ...read }, thing);
  t.deepEqual([...thingRow.encode(read).subarray(0, 2)], [0xc1, 1]);
});

test('each upgrade changes a row by one version', (t) => {
  const first = defineRow({
    name: 'thing',
    schema: Type.Object({ name: Type.String() }),
    unversioned: fromJson,
  });
  const third = defineRow({
    name: 'thing',
    schema: Type.Object({ title: Type.String(), size: Type.Number() }),
    unversioned: fromJson,
    upgrades: [
      ({ name, ...rest }: OldRow): OldRow => ({ ...rest, title: name }),
      (old: OldRow): OldRow => ({ ...old, size: String(old.title).length }),
    ],
  });
  const upgraded = { title: 'four', size: 4 };
  t.is(third.version, 3);
  t.deepEqual(third.decode({ key, value: first.encode({ name: 'four' }) }), upgraded);
  t.deepEqual(third.decode({ key, value: Buffer.from('{"name":"four"}') }), upgraded);
  t.deepEqual(third.decode({ key, value: third.encode(upgraded) }), upgraded);
  const error = t.throws(() => first.decode({ key, value: third.encode(upgraded) }), {
    code: 'ERR_STORE_VERSION',
  });
  t.regex(error?.message ?? '', /things\/one has version 3; .* up to 1/);
});

test('a damaged row is refused with its key', (t) => {
  const whole = thingRow.encode({ ...thing, value: [1] });
  const deep = Buffer.concat([Buffer.of(0xc1, 1), Buffer.alloc(100, 0x91), Buffer.of(0xc0)]);
  const long = Buffer.of(0xc1, 1, 0xdd, 0xff, 0xff, 0xff, 0xff);
  const records = Buffer.of(0xc1, 1, 0xd4, 0x72, 0x40);
  const damaged = [
    whole.subarray(0, -1),
    Buffer.concat([whole, Buffer.of(0)]),
    Buffer.of(0xc1, 0),
    Buffer.of(0xc1),
    Buffer.of(),
    Buffer.from('{"name":'),
    packLocal({ name: 'a' }),
    deep,
    long,
    records,
  ];
  for (const value of damaged) {
    const error = t.throws(() => thingRow.decode({ key, value }), { code: 'ERR_STORE_CORRUPT' });
    t.is(error?.message, 'the thing in row things/one is damaged');
  }
});

test('an undefined field is absent, and a large one leaves no large buffer behind', (t) => {
  const blob = Buffer.alloc(100_000, 7);
  const large = thingRow.encode({ ...thing, value: blob });
  const small = thingRow.encode({ ...thing, blob: undefined } as typeof thing);
  t.true(small.buffer.byteLength < 100_000);
  const read = thingRow.decode({ key, value: small });
  t.is(read.blob, undefined);
  const { value } = thingRow.decode({ key, value: large });
  t.true(value instanceof Uint8Array && blob.equals(value));
});

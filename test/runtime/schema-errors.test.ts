/** Mistakes in large values are described with little work. */
import test from 'ava';
import Type from 'typebox';
import { Compile } from 'typebox/schema';
import { compileJsonSchema } from '#acl/data-schema.ts';
import { compileSchema } from '#runtime';

const schema = Type.Object(
  {
    names: Type.Array(Type.String(), { uniqueItems: true, maxItems: 50_000 }),
    more: Type.Optional(Type.Record(Type.String(), Type.Array(Type.Number(), { minItems: 2 }))),
  },
  { additionalProperties: false },
);
const ids = Array.from({ length: 40_000 }, (_, at) => `web${at}`);

/** Returns a list that counts how often an entry is read. */
function countingList<T>(items: readonly T[]): {
  readonly list: T[];
  readonly reads: () => number;
} {
  let reads = 0;
  const list = new Proxy([...items], {
    get: (target, key, receiver) => {
      if (typeof key === 'string' && /^\d/.test(key)) reads += 1;
      return Reflect.get(target, key, receiver);
    },
  });
  return { list, reads: () => reads };
}

test('mistakes beside a long list are described without a visit to each of its entries', (t) => {
  const { list, reads } = countingList(ids);
  const [first] = compileSchema(schema).Errors({ names: list, other: 1 });
  t.like(first, { keyword: 'boolean', instancePath: '/other' });
  // The check itself reads each entry, and TypeBox's description reads them again.
  const check = countingList(ids);
  Compile(schema).Check({ names: check.list, other: 1 });
  t.true(reads() <= check.reads() + 1000, `${reads()} and ${check.reads()}`);
});

test('mistakes at the beginning of a long list or map are described in detail', (t) => {
  const check = compileSchema(schema);
  t.like(check.Errors({ names: [1, ...ids] })[0], { keyword: 'type', instancePath: '/names/0' });
  const [repeated] = check.Errors({ names: Array(40_000).fill('a') });
  t.like(repeated, { keyword: 'uniqueItems', instancePath: '/names' });
  t.throws(() => check.Parse({ names: Array(40_000).fill('a') }), {
    message: /\/names: must not have duplicate items/,
  });
  const unknown = Object.fromEntries(ids.map((id) => [id, 1]));
  t.is(check.Errors({ ...unknown, names: [] })[0]?.keyword, 'boolean');
});

test('a mistake far behind in a long list, or too many entries, is described by the list', (t) => {
  const check = compileSchema(schema);
  for (const names of [
    [...ids, 1],
    [...ids, 'web0'],
    [...ids, ...ids.map((id) => `${id}x`)],
  ]) {
    const [first, ...others] = check.Errors({ names });
    t.is(first?.instancePath, '/names');
    t.regex(first?.message ?? '', new RegExp(`\\(it has ${names.length}\\)`));
    t.deepEqual(others, []);
  }
});

test('the beginning of a list is not said to lack entries that the whole has', (t) => {
  const long = Type.Object({ names: Type.Array(Type.String(), { minItems: 100 }) });
  const [first] = compileSchema(long).Errors({ names: [...ids, 1] });
  t.regex(first?.message ?? '', /only valid entries/);
});

test('a value that matches has no mistakes, and small values are described by TypeBox', (t) => {
  const check = compileSchema(schema);
  t.deepEqual(check.Errors({ names: ids, more: { a: [1, 2] } }), []);
  const small = { names: ['a', 'a', 1], more: { a: [1] }, other: 1 };
  t.deepEqual(check.Errors(small), Compile(schema).Errors(small)[1]);
});

test('data of events are described in the same way', (t) => {
  const names = { type: 'array', items: { type: 'string' } };
  const problemOf = compileJsonSchema({ type: 'object', properties: { names } }, () => () => true);
  t.deepEqual(problemOf({ names: [1, ...ids] }), { path: 'names/0', expected: 'must be string' });
  t.is(problemOf({ names: [...ids, 1] })?.path, 'names');
});

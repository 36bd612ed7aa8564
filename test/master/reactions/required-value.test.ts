import test from 'ava';
import fc from 'fast-check';
import { compileDataSchema } from '../../../acl/data-schema.ts';
import { policySyntax } from '../../../master/config/policy-rules.ts';
import { requiredTypes } from '../../../master/config/reactions.ts';

const syntax = {
  ...policySyntax,
  target: () => ({ isEntitled: () => false, claims: () => false, mayMean: () => false }),
};

test('a value is vouched for only where each step says that it is there', (t) => {
  const leaf = { type: ['string', 'null'] };
  for (const [schema, types] of [
    [{ type: 'object', required: ['a'], properties: { a: { type: 'integer' } } }, ['number']],
    [
      { type: 'object', required: ['a'], properties: { a: { enum: ['x', 1] } } },
      ['string', 'number'],
    ],
    [{ type: 'object', required: ['a'], properties: { a: { const: true } } }, ['boolean']],
    [{ required: ['a'], properties: { a: { type: 'string' } } }, undefined],
    [{ type: 'object', properties: { a: { type: 'string' } } }, undefined],
    [{ type: 'object', required: ['a'] }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: leaf } }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: { enum: [[]] } } }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: {} } }, undefined],
    [true, undefined],
  ] as const) {
    const found = requiredTypes(schema, ['a']);
    t.deepEqual(found && [...found], types && [...types], JSON.stringify(schema));
  }
});

const plain = fc.constantFrom<unknown>('x', '', 1, true, null);
const types = fc.constantFrom('string', 'integer', 'boolean', 'null', 'object', 'array');
const leaf = fc.oneof(
  fc.record({ type: types }),
  fc.record({ enum: fc.array(plain, { minLength: 1, maxLength: 2 }) }),
);

/** Mostly a step on the way, sometimes one that is broken. */
function step(inner: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.record({
    type: fc.oneof({ weight: 4, arbitrary: fc.constant('object') }, types),
    required: fc.oneof({ weight: 4, arbitrary: fc.constant(['a']) }, fc.constant(['b'])),
    properties: fc.oneof(
      { weight: 4, arbitrary: fc.record({ a: inner }) },
      fc.record({ b: inner }),
    ),
  });
}

const schemas = fc.oneof(leaf, step(leaf), step(step(leaf)));
const within = (inner: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 3, arbitrary: fc.record({ a: inner }) }, fc.record({ b: inner }), plain);
const value = fc.oneof(plain, within(plain), within(within(plain)));

function at(data: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, step) =>
      Object.hasOwn(Object(inner), step) ? Reflect.get(Object(inner), step) : undefined,
    data,
  );
}

test('what is vouched for is there in all data that fit', (t) => {
  let vouched = 0;
  const path = fc.constantFrom(['a'], ['a', 'a']);
  fc.assert(
    fc.property(schemas, path, value, (schema, steps, data) => {
      const found = requiredTypes(schema, steps);
      if (found === undefined) return;
      const fits = compileDataSchema(schema, syntax, { rule: 'r', field: 'schema' });
      if (!fits(data)) return;
      vouched += 1;
      if (!found.has(typeof at(data, steps)))
        throw new Error(JSON.stringify({ schema, steps, data }));
    }),
    { numRuns: 3000 },
  );
  t.true(vouched > 0);
});

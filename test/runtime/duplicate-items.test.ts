/** Lists with many duplicates are reported quickly. */
import test from 'ava';
import Type from 'typebox';
import { compileJsonSchema } from '#acl/data-schema.ts';
import { compileSchema, pathOfManyDuplicates } from '#runtime';

const many = { names: Array.from({ length: 30_000 }, () => 'a') };
const schema = Type.Object({ names: Type.Array(Type.String(), { uniqueItems: true }) });

test('30,000 duplicates in a list are reported in linear time', (t) => {
  const before = process.cpuUsage();
  const check = compileSchema(schema);
  const [first] = check.Errors(many);
  t.like(first, { keyword: 'uniqueItems', instancePath: '/names' });
  t.throws(() => check.Parse(many), { message: /\/names: must not have duplicate items/ });
  const plain = { type: 'object', properties: { names: { type: 'array', uniqueItems: true } } };
  const problem = compileJsonSchema(plain, () => () => true)(many);
  t.deepEqual(problem, { path: 'names', expected: 'must not have duplicate items' });
  const { user } = process.cpuUsage(before);
  // TypeBox takes longer than this limit.
  t.true(user < 5_000_000, `${user} microseconds`);
});

test('few duplicates, and duplicates that a schema permits, are reported as before', (t) => {
  const [first] = compileSchema(schema).Errors({ names: ['a', 'a'] });
  t.is(first?.keyword, 'uniqueItems');
  const lenient = compileSchema(Type.Object({ names: Type.Array(Type.String()) }));
  t.deepEqual(lenient.Errors(many), []);
  t.is(pathOfManyDuplicates({ a: [[1, 1], { b: 2 }] }), undefined);
});

/** JSON Schema over what minions say: the operator's own, in plain JSON. */
import test from 'ava';
import { allow, decide, PolicyError } from '../../acl/index.ts';
import { policyOf } from '../helpers/policies.ts';

function fits(schema: unknown): (data: unknown) => boolean {
  const policy = policyOf([
    allow('shaped', {
      subject: { minion: '*' },
      action: 'signal',
      resource: { tag: 'x/y', schema },
    }),
  ]);
  return (data) =>
    decide(
      {
        subject: { kind: 'minion', id: 'web1' },
        action: 'signal',
        resource: { tag: 'x/y', data, wasPublishedToSubject: () => false },
      },
      policy,
    ).effect === 'allow';
}

const deployment = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['env', 'count'],
  properties: {
    env: { enum: ['test', 'live'] },
    count: { type: 'integer', minimum: 1, maximum: 9 },
    host: { $ref: '#/$defs/host' },
    tags: {
      type: 'array',
      items: { type: 'string', maxLength: 3 },
      uniqueItems: true,
      maxItems: 2,
    },
  },
  additionalProperties: false,
  $defs: { host: { type: 'string', pattern: '^[a-z]+$' } },
};

test('data that the schema describes pass, and others do not', (t) => {
  const check = fits(deployment);
  const good = { env: 'test', count: 1 };
  t.true(check(good));
  t.true(check({ ...good, host: 'web', tags: ['a', 'b'] }));
  t.true(check(Object.assign(Object.create(null), good)));
  for (const bad of [
    undefined,
    null,
    [],
    'text',
    { env: 'test' },
    { ...good, env: 'other' },
    { ...good, count: 10 },
    { ...good, count: 1.5 },
    { ...good, count: '1' },
    { ...good, more: 1 },
    { ...good, host: 'Web' },
    { ...good, tags: ['a', 'a'] },
    { ...good, tags: ['long'] },
  ]) {
    t.false(check(bad), JSON.stringify(bad));
  }
});

test('a pattern means the end where it says so, not the place before a line break', (t) => {
  const check = fits({ type: 'string', pattern: '^[a-z$]+$' });
  t.true(check('ab$'));
  t.false(check('ab\n'));
});

test('what JSON cannot say fits no schema', (t) => {
  const check = fits({});
  t.true(check({ a: [1, 'x', null, true] }));
  for (const odd of [new Map(), new Uint8Array(1), 1n, Number.NaN, { a: new Map() }]) {
    t.false(check(odd));
  }
});

for (const [name, schema] of Object.entries({
  'a misspelt keyword': { type: 'object', require: ['env'] },
  'an unknown type': { type: 'strin' },
  'a keyword deep inside that is unknown': { properties: { a: { items: { typ: 'string' } } } },
  'a reference to elsewhere': { $ref: 'https://example.org/schema' },
  'a pattern that may explode': { pattern: '(a+)+(?=b)' },
  'a broken pattern': { pattern: '(' },
  'patterns for names': { patternProperties: { '^x': {} } },
  'a check of ours': { '~refine': [] },
})) {
  test(`a schema with ${name} is refused`, (t) => {
    t.is(t.throws(() => fits(schema), { instanceOf: PolicyError })?.code, 'ERR_POLICY_PATTERN');
  });
}

test('an expression that explodes elsewhere is answered at once', (t) => {
  const check = fits({ type: 'string', pattern: '^(a+)+$' });
  t.false(check(`${'a'.repeat(50_000)}!`));
});

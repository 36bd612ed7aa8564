/** Work of comparing texts from outside the master with the patterns of a schema. */
import test from 'ava';
import { compileJsonSchema } from '#acl';
import { compileDataSchema } from '#acl/data-schema.ts';
import { policySyntax } from '#config';
import { compileParameters } from '#heat-bridge/commands/parameters.ts';

const word = '^(?:[a-z0-9]+-?)+$';
const texts = { type: 'array', items: { type: 'string', pattern: word } };
/** Text whose comparison with `word` exceeds the limit. */
const long = 'a'.repeat(1_000_000);

test('a text that is too long for the pattern of a schema does not match the schema', (t) => {
  const fits = compileDataSchema(texts, policySyntax, { rule: 'r', field: 'schema' });
  t.true(fits(['a-b']));
  t.false(fits(['a-b', long]));
  t.true(fits(['a-b']), 'each value has a limit of its own');
  const refused = compileDataSchema({ not: { type: 'string', pattern: word } }, policySyntax, {
    rule: 'r',
    field: 'schema',
  });
  t.true(refused('!'));
  t.false(refused(long));
});

test('the texts of one value together have a limit, and the problem names it', (t) => {
  const problemOf = compileJsonSchema(texts, policySyntax.search);
  const short = 'a'.repeat(50_000);
  t.is(problemOf([short]), undefined);
  t.regex(problemOf(Array(20).fill(short))?.expected ?? '', /fewer or shorter texts/);
  t.is(problemOf(['!'])?.expected, `must match the pattern ${word}`);
});

test('the parameters of a command have no patterns that need backtracking', (t) => {
  const schema = (pattern: string) => ({
    type: 'object',
    properties: { host: { type: 'string', pattern } },
  });
  t.throws(() => compileParameters('c', schema('^(?!-)(?:[a-z0-9]+-?)+$')), {
    code: 'ERR_CATALOG',
    message: /lookaround and back-references are not supported/,
  });
  t.notThrows(() => compileParameters('c', schema(word)));
});

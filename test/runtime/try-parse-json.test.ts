import test from 'ava';
import fc from 'fast-check';
import { tryParseJson } from '#runtime';

test('JSON of at most 256 levels is parsed', (t) => {
  const nested = (levels: number): string =>
    `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;
  t.truthy(tryParseJson(nested(256)));
  t.is(tryParseJson(nested(258)), undefined);
  t.is(tryParseJson('['.repeat(1_000_000)), undefined);
  t.truthy(tryParseJson(`[${'[],{},'.repeat(1_000)}1]`));
});

test('brackets in texts do not count as levels', (t) => {
  const text = fc.stringMatching(/^["\\[{a]*$/, { maxLength: 40 });
  const value = fc.array(fc.oneof(text, fc.dictionary(text, text)));
  fc.assert(
    fc.property(value, (given) => {
      const brackets = '[{'.repeat(500);
      const written = JSON.stringify([brackets, ...given, `\\${brackets}`]);
      t.deepEqual(tryParseJson(written), JSON.parse(written));
    }),
  );
  t.is(tryParseJson('"\\'), undefined);
});

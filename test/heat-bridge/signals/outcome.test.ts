/** What services say, read in time that grows with its length alone. */
import test from 'ava';
import { wordsOf } from '../../../heat-bridge/signals/outcome.ts';

const length = 1_048_576;

const answers: readonly (readonly [string, string])[] = [
  ['tags that never end', '<'.repeat(length)],
  ['codes that never end', '<Code>'.repeat(length / 6)],
  ['messages that never end', '<Message>a'.repeat(length / 10)],
  ['blanks', ' '.repeat(length)],
  ['JSON that is none', `{${'"'.repeat(length)}`],
  ['marks that cannot be seen', '\u200b'.repeat(length)],
];

for (const [what, body] of answers) {
  test(`an answer of ${what} is read in no time`, (t) => {
    const begun = performance.now();
    const words = wordsOf({ kind: 'answer', status: 500, headers: {}, body });
    const milliseconds = performance.now() - begun;
    t.true(words.startsWith('answered 500'));
    t.true(words.length < 400);
    // Quadratic reading takes minutes.
    t.true(milliseconds < 2_000, `${milliseconds} ms`);
  });
}

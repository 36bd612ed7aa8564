/** What services say, read in time that grows with its length alone. */
import test, { type ExecutionContext } from 'ava';
import { errorTextOf } from '../../../heat-bridge/signals/transports.ts';

const length = 65_536;

function readsQuickly(t: ExecutionContext, body: string): void {
  const begun = performance.now();
  const words = errorTextOf({ kind: 'answer', status: 500, headers: {}, body });
  const milliseconds = performance.now() - begun;
  t.true(words.startsWith('answered 500'));
  t.true(words.length < 400);
  // Quadratic reading takes more than a second.
  t.true(milliseconds < 700, `${milliseconds} ms`);
}

test('an answer of tags that never end is read in no time', (t) => {
  readsQuickly(t, '<'.repeat(length));
});

const answers: readonly (readonly [string, string])[] = [
  ['codes that never end', '<Code>'.repeat(length / 6)],
  ['messages that never end', '<Message>a'.repeat(length / 10)],
  ['blanks', ' '.repeat(length)],
  ['JSON that is none', `{${'"'.repeat(length)}`],
  ['marks that cannot be seen', '\u200b'.repeat(length)],
];

for (const [what, body] of answers) {
  test(`an answer of ${what} is read as quickly`, (t) => readsQuickly(t, body));
}

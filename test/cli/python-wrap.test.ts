/** Lines as Python 3.11's `textwrap.TextWrapper(width=80, …).fill` breaks them. */
import test from 'ava';
import { wrapText } from '../../cli/output/python.ts';

const blanks = ' '.repeat(14);

test('lines are broken at blanks and behind hyphens', (t) => {
  const text =
    'The function module.run is using its deprecated version and will expire in a ' +
    'well-known-version, so please-do update this state at your-convenience now ok';
  t.deepEqual(wrapText(text, 80, 14).split('\n'), [
    `${blanks}The function module.run is using its deprecated version and will`,
    `${blanks}expire in a well-known-version, so please-do update this state at`,
    `${blanks}your-convenience now ok`,
  ]);
});

test('what is longer than a line is cut', (t) => {
  const lengths = wrapText('x'.repeat(150), 80, 14)
    .split('\n')
    .map((line) => line.trim().length);
  t.deepEqual(lengths, [66, 66, 18]);
});

test('breaks become blanks, several blanks inside a line stay', (t) => {
  t.is(wrapText('a  b\nc', 80, 0), 'a  b c');
});

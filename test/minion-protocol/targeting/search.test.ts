import test from 'ava';
import { compileSearchPattern } from '../../../minion-protocol/index.ts';

/** What Python 3.11 says of `re.search(pattern, text)`. */
const cases: readonly (readonly [pattern: string, text: string, isFound: boolean])[] = [
  ['/\\.git($|/)', 'a/.git/config', true],
  ['/\\.git($|/)', '.git/config', false],
  ['eb1', 'web1', true],
  ['^eb1', 'web1', false],
  ['(?i)SWP$', 'a.swp', true],
  ['(?<=_)test', 'b_test.py', true],
  ['(?<=_)test', 'btest.py', false],
  ['(a)\\1', 'xaax', true],
  ['(?i)(A)\\1', 'xaAx', true],
];

for (const [pattern, text, isFound] of cases) {
  test(`${pattern} is ${isFound ? '' : 'not '}found in ${text}`, (t) => {
    const search = compileSearchPattern(pattern);
    t.is(search(text), isFound);
    t.is(search(text), isFound, 'the second time too');
  });
}

test('an expression that cannot be read is refused', (t) => {
  for (const pattern of ['(', '[a', '(?<=a']) {
    t.throws(() => compileSearchPattern(pattern), { instanceOf: SyntaxError });
  }
});

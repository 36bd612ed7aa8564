import test from 'ava';
import { compilePattern } from '../../../minion-protocol/index.ts';

/** As the worker thread of a master runs it. */
function matches(pattern: string, text: string): boolean {
  const compiled = compilePattern(pattern);
  if (compiled.kind === 'linear') return compiled.test(text);
  return RegExp(compiled.source, compiled.flags).test(text);
}

/** What Python 3.11 says of `re.match(pattern, text)`. */
const linear: readonly (readonly [pattern: string, text: string, isMatch: boolean])[] = [
  ['eb1', 'web1', false],
  ['web', 'web1', true],
  ['a|b', 'bc', true],
  ['a|b', 'cb', false],
  ['web$', 'web\n', true],
  ['web\\Z', 'web\n', false],
  ['web\\Z', 'web', true],
  ['(?m)a$', 'a\nb', true],
  ['(?m:^a\\n^b$)', 'a\nb\nc', true],
  ['a$', 'a\nb', false],
  ['a.b', 'a\nb', false],
  ['a.b', 'a\rb', true],
  ['(?s)a.b', 'a\nb', true],
  ['(?s:a.)b.', 'a\nb\n', false],
  ['(?i)WEB', 'web', true],
  ['(?i:W)eb', 'web', true],
  ['(?i:W)eb', 'wEb', false],
  ['(?x) w e # comment\n b', 'web', true],
  ['(?#comment)web', 'web', true],
  ['(?P<name>w)eb', 'web', true],
  ['a{,2}$', 'aaa', false],
  ['a{,2}$', 'aa', true],
  ['a{2}$', 'aa', true],
  ['a{x}', 'a{x}', true],
  ['{}', '{}', true],
  ['[]a]+$', ']a', true],
  ['[^]a]', 'b', true],
  ['[a\\]]+$', 'a]', true],
  ['[[:alpha:]]', ':]', true],
  ['[\\d-]+$', '1-2', true],
  ['[a-c\\-]+$', 'b-', true],
  ['\\d', '\u0663', true],
  ['\\w', 'ä', true],
  ['\\W', 'ä', false],
  ['\\s', '\u2003', true],
  ['\\x41\\u0042\\103', 'ABC', true],
  ['\\-\\_\\/', '-_/', true],
  ['[\\b]', '\b', true],
  ['\\bweb\\b', 'web-1', true],
  ['a*?b', 'aab', true],
  ['\u{1f600}.$', '\u{1f600}\u{1f600}', true],
];

for (const [pattern, text, isMatch] of linear) {
  test(`re.match(${JSON.stringify(pattern)}, ${JSON.stringify(text)}) is ${isMatch}`, (t) => {
    t.is(compilePattern(pattern).kind, 'linear');
    t.is(matches(pattern, text), isMatch);
  });
}

const backtracking: readonly (readonly [pattern: string, text: string, isMatch: boolean])[] = [
  ['(?!db)[a-z]+', 'web', true],
  ['(?!web)[a-z]+', 'web', false],
  ['web(?=1)', 'web1', true],
  ['.*(?<!prod)$', 'web.prod', false],
  ['(?=a)[^]]\\n$', 'a\n', true],
  ['(\\w)\\1', 'ww', true],
  ['(\\w)\\1', 'wx', false],
  ['(?P<n>w)(?P=n)\\Z', 'ww', true],
  ['(?i)(?!WEB)x', 'X', true],
  ['(?=eb)', 'web', false],
  ['(?=a).b', 'a\rb', false],
  ['(?m)(?=a)a$', 'a\nb', true],
  ['(?=a)a$', 'a\n', true],
];

for (const [pattern, text, isMatch] of backtracking) {
  test(`${JSON.stringify(pattern)} backtracks, and on ${JSON.stringify(text)} gives ${isMatch}`, (t) => {
    t.is(compilePattern(pattern).kind, 'backtracking');
    t.is(matches(pattern, text), isMatch);
  });
}

const unreadable = [
  '(',
  ')',
  'a)',
  '[a',
  'a**',
  'a|*',
  '+',
  'x{2,1}',
  '\\',
  '\\q',
  '\\z',
  '\\Qa\\E',
  '\\pL',
  '[z-a]',
  '(?<n>a)',
  '(?>a)',
  '(?(1)a)',
  'a++',
  'a(?i)b',
  '(?L)a',
  '(?=a',
  '(?P=n)',
  '\\1',
  '\\U00110000',
];

for (const pattern of unreadable) {
  test(`${JSON.stringify(pattern)} is refused as an expression`, (t) => {
    t.throws(() => compilePattern(pattern), { instanceOf: SyntaxError });
  });
}

test('nested repetition without lookaround costs no more than the text is long', (t) => {
  t.false(matches('(a+)+$', `${'a'.repeat(20_000)}!`));
});

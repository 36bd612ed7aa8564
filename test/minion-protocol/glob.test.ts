import test from 'ava';
import fc from 'fast-check';
import { compileGlob } from '../../minion-protocol/targeting/pattern.ts';

const cases: readonly (readonly [pattern: string, text: string, matches: boolean])[] = [
  ['', '', true],
  ['', 'a', false],
  ['*', '', true],
  ['*', '.hidden/x\n', true],
  ['web*', 'web', true],
  ['web*', 'aweb', false],
  ['*.example', 'a.b.example', true],
  ['*.example', 'a.example.', false],
  ['?', 'a', true],
  ['?', '', false],
  ['?', '\u{1f600}', true],
  ['[abc]1', 'b1', true],
  ['[abc]1', 'd1', false],
  ['[a-c]', 'b', true],
  ['[c-a]', 'b', false],
  ['[!a-c]', 'b', false],
  ['[!a-c]', 'd', true],
  ['[^a]', 'a', true],
  ['[^a]', 'b', false],
  ['[]a]', ']', true],
  ['[!]a]', ']', false],
  ['[a-]', '-', true],
  ['[a', '[a', true],
  ['[!]', '[!]', true],
  ['a\\*', 'a\\b', true],
  ['WEB', 'web', false],
  ['[a-c-e]', 'd', false],
  ['[a-c-e]', '-', true],
];

for (const [pattern, text, wanted] of cases) {
  test(`${JSON.stringify(pattern)} ${wanted ? 'matches' : 'does not match'} ${JSON.stringify(text)}`, (t) => {
    t.is(compileGlob(pattern)(text), wanted);
  });
}

test('stars and question marks match what the plain definition says', (t) => {
  const characters = fc.constantFrom('a', 'b', '*', '?', '.');
  const pattern = fc.string({ unit: characters, maxLength: 8 });
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 10 });
  fc.assert(
    fc.property(pattern, text, (glob, value) => {
      t.is(compileGlob(glob)(value), plain(glob, value));
    }),
    { numRuns: 2000 },
  );
});

test('a pattern that would make a backtracking matcher explode is answered', (t) => {
  t.false(compileGlob(`${'*a'.repeat(40)}b`)('a'.repeat(500)));
});

function plain(glob: string, text: string): boolean {
  if (glob === '') return text === '';
  const rest = glob.slice(1);
  if (glob.startsWith('*')) return plain(rest, text) || (text !== '' && plain(glob, text.slice(1)));
  const isSame = glob.startsWith('?') || glob[0] === text[0];
  return text !== '' && isSame && plain(rest, text.slice(1));
}

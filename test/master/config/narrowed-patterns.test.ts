/** What is warned of, because Salt takes the beginning of a text where this master wants all of it. */
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import { loadMasterConfig } from '../../../master/config/load.ts';
import { warnOfNarrowed } from '../../../master/config/narrowed-patterns.ts';
import type { Settings } from '../../../master/config/option-kinds.ts';
import { configDirectory } from './files.ts';

const origin = { file: 'master', line: 1, key: 'peer' };

function isWarnedOf(pattern: string): boolean {
  const given: Settings = new Map([['.*', { value: [pattern], origin }]]);
  const settings: Settings = new Map([['peer', { value: given, origin }]]);
  const config = { peer: { '.*': [pattern] }, peerRun: {}, mineGet: null };
  return warnOfNarrowed(config, settings).length > 0;
}

for (const [pattern, isNarrowed] of [
  ['test', true],
  ['test.*', false],
  ['.*', false],
  ['', true],
  ['test.ping$', false],
  ['test.ping\\Z', false],
  ['test.ping\\$', true],
  ['test.ping\\\\$', false],
  ['test\\.*', true],
  ['a.*|b', true],
  ['a.*|b$', false],
  ['(a|b).*', false],
  ['web(1|2)', true],
  ['web(1|2.*)', true],
  ['web(?:1$|2.*)', false],
  ['(?P<x>web.*)', false],
  ['.*|web', false],
  ['[|]a$', false],
  ['[]|]a', true],
  ['a\\|b$', false],
] as const) {
  test(`${pattern || 'nothing'} ${isNarrowed ? 'is' : 'is not'} warned of`, (t) => {
    t.is(isWarnedOf(pattern), isNarrowed);
  });
}

const expression = fc.letrec<{ whole: string; sequence: string; atom: string }>((tie) => ({
  atom: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('a', 'b', '.', '$', '[ab]', '\\.', '\\$', '\\|', '[|]', 'a*', 'b?', '.*', '.+'),
    tie('whole').map((inner) => `(${inner})`),
    tie('whole').map((inner) => `(?:${inner})?`),
  ),
  sequence: fc.array(tie('atom'), { maxLength: 3 }).map((atoms) => atoms.join('')),
  whole: fc.array(tie('sequence'), { minLength: 1, maxLength: 3 }).map((list) => list.join('|')),
})).whole;

test('what is not warned of means the same by its beginning and as a whole', (t) => {
  const texts = fc.array(fc.constantFrom('a', 'b', '.', '$', '|'), { maxLength: 5 });
  fc.assert(
    fc.property(expression, fc.array(texts, { minLength: 20, maxLength: 20 }), (pattern, all) => {
      fc.pre(!isWarnedOf(pattern));
      for (const text of all.map((characters) => characters.join(''))) {
        const byBeginning = new RegExp(`^(?:${pattern})`).test(text);
        t.is(new RegExp(`^(?:${pattern})$`).test(text), byBeginning, `${pattern} on ${text}`);
      }
    }),
    { numRuns: 500 },
  );
});

test('a start warns once for each id, with its line and what would be wider', async (t) => {
  const directory = configDirectory(t, {
    master: [
      'peer:',
      '  web.*:',
      '    - test.ping',
      "    - 'network.*'",
      '  db1|db2:',
      "    - {'G@role:web': [{grains.get: {args: [role, '.*'], kwargs: {default: x}}}]}",
      "peer_run: {'.*': ['manage.*']}",
      "mine_get: {'.*': [a, b, c, d, e, f, g$]}",
    ].join('\n'),
  });
  const { warnings } = await loadMasterConfig(directory);
  const file = path.join(directory, 'master');
  const meaning =
    'must mean a whole id, function or argument here, in Salt only its beginning: write';
  const end = 'where that was meant, or end it with $';
  t.deepEqual(
    warnings.map(({ kind, message }) => [kind, message]),
    [
      ['narrowed', `${file}:2: peer: test.ping ${meaning} test.ping.* ${end}`],
      [
        'narrowed',
        `${file}:5: peer: db1|db2, grains.get, role, x ${meaning} ` +
          `(?:db1|db2).*, grains.get.*, role.*, x.* ${end}`,
      ],
      [
        'narrowed',
        `${file}:8: mine_get: a, b, c, d, e and 1 more ${meaning} a.*, b.*, c.*, d.*, e.* ${end}`,
      ],
    ],
  );
});

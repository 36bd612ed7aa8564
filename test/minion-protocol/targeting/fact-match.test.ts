import test from 'ava';
import fc from 'fast-check';
import {
  compileGlob,
  compileTarget,
  factsOf,
  type TargetCandidate,
  type TargetType,
  type WireMap,
  type WireValue,
} from '../../../minion-protocol/index.ts';
import { type Plain, subdictMatch } from './plain-match.ts';

function isMeant(
  tgtType: TargetType,
  tgt: string,
  data: WireMap | Map<WireValue, WireValue>,
  delimiter = ':',
): boolean {
  const facts = factsOf(data);
  const candidate: TargetCandidate = { id: 'web1', facts: { grains: facts, pillar: facts } };
  return compileTarget({ tgtType, tgt, delimiter }).test(candidate) === 'yes';
}

const word = fc.constantFrom('a', 'b', 'c', 'A', '0', '1', 'ab', '');
const { value: plainValue } = fc.letrec<{ value: Plain }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'medium', withCrossShrink: true },
    word,
    fc.dictionary(word, tie('value'), { maxKeys: 4, noNullPrototype: true }),
    fc.array(tie('value'), { maxLength: 3 }),
  ),
}));
const plainMap = fc.dictionary(word, plainValue, { maxKeys: 4, noNullPrototype: true });
const part = fc.constantFrom('a', 'b', 'c', 'A', '0', '1', 'ab', '*', '?', 'a*', '');

/** The same as the wire has it. */
function toWire(value: Plain): WireValue {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(toWire);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toWire(item)]));
}

test('a compiled grain target says what the plain matcher says', (t) => {
  fc.assert(
    fc.property(
      plainMap,
      fc.array(part, { minLength: 1, maxLength: 6 }),
      fc.constantFrom(':', '|'),
      (data, parts, delimiter) => {
        const tgt = parts.join(delimiter);
        const plain = subdictMatch(data, tgt, delimiter, (pattern, value) =>
          compileGlob(pattern.toLowerCase())(value.toLowerCase()),
        );
        const wire = toWire(data) as WireMap; // a map was given
        t.is(isMeant('grain', tgt, wire, delimiter), plain, tgt);
      },
    ),
    { numRuns: 3000 },
  );
});

test('an expression that is as deep as hostile grains ends', (t) => {
  let grains: WireMap = { a: 'x' };
  for (let depth = 0; depth < 60; depth += 1) grains = { a: grains };
  t.false(isMeant('grain', `${'a:'.repeat(60)}y`, grains));
  t.false(isMeant('grain', `${'*:'.repeat(60)}y`, grains));
});

test('more parts than anybody names are refused', (t) => {
  t.throws(() => isMeant('grain', 'a:'.repeat(100), {}), { instanceOf: SyntaxError });
});

test('values are compared as Python writes them', (t) => {
  const written: readonly (readonly [WireValue, string])[] = [
    [true, 'True'],
    [null, 'None'],
    [5, '5'],
    [1.5, '1.5'],
    [1e-7, '1e-07'],
    [2n ** 60n, '1152921504606846976'],
    [[['x', 1]], "['x', 1]"],
    [[{ k: "it's" }], `{'k': "it's"}`],
    [Buffer.from([0xff]), "b'\\xff'"],
  ];
  for (const [value, text] of written)
    t.true(isMeant('pillar_exact', `v:${text}`, { v: value }), text);
});

test('a key that is a number is found by its text', (t) => {
  t.true(isMeant('pillar', 'ports:80:web', { ports: new Map([[80, 'web']]) }));
  t.true(isMeant('pillar', '80:web', new Map([[80, 'web']])));
});

test('a list is stepped into by number, from the end too', (t) => {
  t.true(isMeant('grain', 'disks:1:name:sdb', { disks: [{ name: 'sda' }, { name: 'sdb' }] }));
  t.true(isMeant('grain', 'disks:-1:name:sdb', { disks: [{ name: 'sda' }, { name: 'sdb' }] }));
});

test('names that objects inherit are no grains', (t) => {
  t.false(isMeant('grain', 'constructor:*', {}));
  t.false(isMeant('grain', 'os:constructor', { os: { name: 'Debian' } }));
});

test('a regular expression over values is lowered as a whole, as Salt does', (t) => {
  t.true(isMeant('grain_pcre', 'os:DEB', { os: 'Debian' }));
  t.true(isMeant('grain_pcre', 'os:\\S', { os: ' x' }));
});

test('an empty map is nothing, but in a list it is a map', (t) => {
  t.false(isMeant('grain', 'a:*', { a: {} }));
  t.false(isMeant('grain', 'a:*:*', { a: {} }));
  t.true(isMeant('grain', 'a:*', { a: [{}] }));
  t.true(isMeant('grain', 'a:*:*', { a: [{}] }));
});

test('an expression with a delimiter in it is read where one of the ways to cut it can be', (t) => {
  t.true(isMeant('grain_pcre', 'url:(http|https://x)', { url: 'https://x' }));
  t.throws(() => isMeant('grain_pcre', 'url:(http', {}), { instanceOf: SyntaxError });
});

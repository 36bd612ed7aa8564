import test from 'ava';
import fc from 'fast-check';
import {
  compilePattern,
  compileSearchPattern,
  compileTarget,
  factsOf,
  type PublicationLoad,
  type TargetCandidate,
  type TargetExpression,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { isMinionTargeted } from '#minion-protocol/minion/own-target.ts';
import { splitTargetWords } from '#minion-protocol/targeting/compound.ts';
import {
  expandCompound,
  expandNodegroup,
  findNodegroupLoop,
} from '#minion-protocol/targeting/nodegroups.ts';
import type { TargetType } from '#minion-protocol/targeting/target.ts';
import { compileGlob } from '#template/python/fnmatch.ts';
import { tries } from '../../helpers/effort.ts';
import {
  candidateOf,
  minionNodegroups,
  targetCases,
  unknownMinion,
  vectorMinions,
} from '../../helpers/target-vectors.ts';
import { type Plain, subdictMatch } from './plain-match.ts';

function candidate(id: string, grains?: WireMap): TargetCandidate {
  const facts = grains === undefined ? undefined : factsOf(grains);
  return { id, facts: { grains: facts, pillar: facts } };
}

function compound(tgt: string | string[], who: TargetCandidate): string {
  return compileTarget({ tgtType: 'compound', tgt }).test(who);
}

const broken = [
  '',
  'web1 )',
  '( web1',
  'web1 or ( )',
  'web1 ( web1 )',
  'web1 and',
  'not',
  'not and web1',
  'web1 or or web1',
  'R@%cluster or web1',
  'N@group or web1',
  `${'( '.repeat(101)}web1${' )'.repeat(101)}`,
];

for (const tgt of broken) {
  test(`the broken expression ${JSON.stringify(tgt.slice(0, 20))} matches no minion and gives a reason`, (t) => {
    const compiled = compileTarget({ tgtType: 'compound', tgt });
    t.is(compiled.test(candidate('web1', {})), 'no');
    t.false(compiled.isPossible(candidate('web1')));
    t.truthy(compiled.problem);
  });
}

test('a term followed by not is joined with and', (t) => {
  t.is(compound('web* not web2', candidate('web1', {})), 'yes');
  t.is(compound('web* not web2', candidate('web2', {})), 'no');
});

test('a letter may have its own delimiter', (t) => {
  const who = candidate('web1', { nested: { a: { b: 'x' } } });
  t.is(compound('G|@nested|a|b|x', who), 'yes');
  t.is(compound('G@@nested@a@b@x', who), 'yes');
  t.is(compound('P|@nested|a|b|[wx]', who), 'yes');
  t.is(compound('I|@nested|a|b|x and J|@nested|a|b|x', who), 'yes');
  t.is(compound('G:nested|a|b|x', who), 'no');
});

test('a different delimiter of a publication does not apply inside compounds', (t) => {
  const compiled = compileTarget({ tgtType: 'compound', tgt: 'G@os:x', delimiter: '|' });
  t.is(compiled.test(candidate('web1', { os: 'x' })), 'yes');
});

test('a condition on unknown facts is undecided, unless its value cannot affect the result', (t) => {
  const who = candidate('web1');
  t.is(compound('G@os:x', who), 'unknown');
  t.is(compound('not G@os:x', who), 'unknown');
  t.is(compound('G@os:x or web1', who), 'yes');
  t.is(compound('G@os:x and db1', who), 'no');
});

test('not excludes minions without known facts, as in Salt', (t) => {
  const isPossible = (tgt: string): boolean =>
    compileTarget({ tgtType: 'compound', tgt }).isPossible(candidate('web1'));
  t.true(isPossible('G@os:x'));
  t.false(isPossible('* and not G@os:x'));
});

test('the ids of lists are returned, except excluded ones', (t) => {
  const ids = (tgt: string): readonly string[] =>
    compileTarget({ tgtType: 'compound', tgt }).terms.flatMap((term) => term.ids);
  t.deepEqual(ids('L@web1,,nope or not L@gone'), ['web1', 'nope']);
});

test('an address target parses networks as Python does', (t) => {
  const who = candidate('web1', {
    ipv4: ['10.1.2.3', 'nonsense'],
    ipv6: ['fd00::5', '::ffff:1.2.3.4'],
  });
  const verdict = (tgt: string): string => compileTarget({ tgtType: 'ipcidr', tgt }).test(who);
  const meant = ['10.1.2.3', '10.1.2.3/32', '10.0.0.0/255.0.0.0', '10.0.0.0/0.255.255.255'];
  const meant6 = ['fd00::5', 'FD00:0:0:0:0:0:0:5', 'fd00::/64', '::/0', '::ffff:1.2.3.0/120'];
  for (const tgt of [...meant, ...meant6, '0.0.0.0/0', '0.0.0.0/0.0.0.0'])
    t.is(verdict(tgt), 'yes', tgt);
  const none = ['10.1.2.3/8', '10.01.2.3', '10.1.2', '10.1.2.3/33', '10.0.0.0/255.0.255.0', 'x/8'];
  const none6 = [
    'fd00::5::',
    'fd00:::5',
    '1:2:3:4:5:6:7:8:9',
    'fd00::/129',
    '1:2:3:4:5:6:7::8',
    '',
  ];
  for (const tgt of [...none, ...none6]) t.is(verdict(tgt), 'no', tgt);
});

test('an invalid address matches no minion, even if its facts are unknown', (t) => {
  t.is(compileTarget({ tgtType: 'ipcidr', tgt: '10.1.2' }).test(candidate('web1')), 'no');
  t.is(compileTarget({ tgtType: 'ipcidr', tgt: '10.1.2.3' }).test(candidate('web1')), 'unknown');
});

const groups = {
  words: 'web1 or web2',
  ids: ['web1', 'web2'],
  text: 'web1,web2',
  expression: 'web[12]',
  typed: 'L@web1,web2',
  outer: 'N@words and not N@ids',
  twice: ['N@outer', 'or', 'db*'],
};

test('a nodegroup is expanded to the words that Salt makes of it', (t) => {
  t.deepEqual(expandNodegroup('words', groups), ['web1', 'or', 'web2']);
  t.deepEqual(expandNodegroup('ids', groups), ['L@web1,web2']);
  t.deepEqual(expandNodegroup('text', groups), ['L@web1,web2']);
  t.deepEqual(expandNodegroup('expression', groups), ['E@web[12]']);
  t.deepEqual(expandNodegroup('typed', groups), ['L@web1,web2']);
});

test('a nodegroup inside another one is put in parentheses', (t) => {
  const inner = ['(', 'web1', 'or', 'web2', ')', 'and', 'not', '(', 'L@web1,web2', ')'];
  t.deepEqual(expandNodegroup('outer', groups), inner);
  t.deepEqual(expandNodegroup('twice', groups), ['(', ...inner, ')', 'or', 'db*']);
  t.is(compound(expandCompound(['*', 'and', 'not', 'N@words'], groups), candidate('web2')), 'no');
});

test('a nodegroup that contains itself is refused, and the error names the cycle', (t) => {
  const nodegroups = { a: 'N@b', b: ['N@c'], c: 'web1 or N@a', d: 'N@a' };
  t.throws(() => expandNodegroup('a', nodegroups), { message: /a > b > c > a/ });
  t.deepEqual(findNodegroupLoop(nodegroups), ['a', 'b', 'c', 'a']);
  t.is(findNodegroupLoop(groups), undefined);
});

test('nodegroups that multiply are refused', (t) => {
  const nodegroups: Record<string, string> = { g0: 'web1 or web2' };
  for (let level = 1; level < 40; level += 1)
    nodegroups[`g${level}`] = `N@g${level - 1} or N@g${level - 1}`;
  t.is(findNodegroupLoop(nodegroups), undefined);
  t.throws(() => expandNodegroup('g39', nodegroups), { instanceOf: SyntaxError });
});

test('an undefined nodegroup is refused, including names from Object.prototype', (t) => {
  t.throws(() => expandNodegroup('nope', groups), { instanceOf: SyntaxError });
  t.throws(() => expandNodegroup('constructor', groups), { instanceOf: SyntaxError });
});

test('T@ matches minions by the resources that they manage, and grants no right', (t) => {
  const resources = new Map([['switch', new Set(['sw1', 'a:b'])]]);
  const who = { ...candidate('web1'), resources };
  t.is(compound('T@switch', who), 'yes');
  t.is(compound('T@switch:sw1 and web1', who), 'yes');
  t.is(compound('T@switch:a:b', who), 'yes');
  t.is(compound('T@switch:sw2 or T@router', who), 'no');
  t.is(compound('T@switch', candidate('web1')), 'no');
  const entitles = (tgt: string) => compileTarget({ tgtType: 'compound', tgt }).isEntitled(who);
  t.deepEqual(['T@switch', 'T@switch or db1', 'web1 and T@switch'].map(entitles), [
    false,
    false,
    true,
  ]);
});

/** An expression as a tree, from which its meaning can be computed directly. */
type Tree =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'not'; readonly of: Tree }
  | { readonly kind: 'and' | 'or'; readonly left: Tree; readonly right: Tree };

const ids = ['a', 'b', 'c'];

const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'medium', withCrossShrink: true },
    fc.record({ kind: fc.constant('id' as const), id: fc.constantFrom(...ids) }),
    fc.record({ kind: fc.constant('not' as const), of: tie('tree') }),
    fc.record({
      kind: fc.constantFrom('and' as const, 'or' as const),
      left: tie('tree'),
      right: tie('tree'),
    }),
  ),
}));

function means(expression: Tree, id: string): boolean {
  switch (expression.kind) {
    case 'id':
      return expression.id === id;
    case 'not':
      return !means(expression.of, id);
    case 'and':
      return means(expression.left, id) && means(expression.right, id);
    case 'or':
      return means(expression.left, id) || means(expression.right, id);
  }
}

const strength = { or: 1, and: 2, not: 3, id: 4 } as const;

/** Writes the expression with parentheses only where Python needs them. */
function words(expression: Tree): string[] {
  switch (expression.kind) {
    case 'id':
      return [expression.id];
    case 'not':
      return ['not', ...enclosed(expression.of, strength.id)];
    default: {
      const { kind, left, right } = expression;
      return [...enclosed(left, strength[kind]), kind, ...enclosed(right, strength[kind])];
    }
  }
}

function enclosed(expression: Tree, least: number): string[] {
  const inner = words(expression);
  return strength[expression.kind] < least ? ['(', ...inner, ')'] : inner;
}

const nothing = { grains: undefined, pillar: undefined };

test('a compound expression has the result of its tree, as text and as a list', (t) => {
  fc.assert(
    fc.property(tree, (expression) => {
      const list = words(expression);
      for (const tgt of [list, list.join(' ')]) {
        const compiled = compileTarget({ tgtType: 'compound', tgt });
        const meant = ids.filter((id) => compiled.test({ id, facts: nothing }) === 'yes');
        t.deepEqual(
          meant,
          ids.filter((id) => means(expression, id)),
          list.join(' '),
        );
      }
    }),
    tries(125),
  );
});

test('any list of words is either an expression or a syntax error', (t) => {
  const word = fc.constantFrom('a', 'not', 'and', 'or', '(', ')', 'G@', 'L@a', 'S@x', 'R@a', '@');
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (tgt) => {
      const compiled = compileTarget({ tgtType: 'compound', tgt });
      const verdict = compiled.test({ id: 'a', facts: nothing });
      t.true(compiled.problem === undefined || verdict === 'no');
    }),
    tries(200),
  );
});

test('an expression with the maximum number of words is parsed', (t) => {
  const compiled = compileTarget({ tgtType: 'compound', tgt: `${'a or '.repeat(12_000)}b` });
  t.is(compiled.test({ id: 'b', facts: nothing }), 'yes');
});

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

/** Converts the value to its wire form. */
function toWire(value: Plain): WireValue {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(toWire);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toWire(item)]));
}

test('a compiled grain target agrees with the reference matcher', (t) => {
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
    tries(300),
  );
});

test('matching an expression as deep as hostile grains terminates', (t) => {
  let grains: WireMap = { a: 'x' };
  for (let depth = 0; depth < 60; depth += 1) grains = { a: grains };
  t.false(isMeant('grain', `${'a:'.repeat(60)}y`, grains));
  t.false(isMeant('grain', `${'*:'.repeat(60)}y`, grains));
});

test('an excessive number of parts is refused', (t) => {
  t.throws(() => isMeant('grain', 'a:'.repeat(100), {}), { instanceOf: SyntaxError });
});

test("values are compared in Python's text form", (t) => {
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

test('a numeric key is found by its text', (t) => {
  t.true(isMeant('pillar', 'ports:80:web', { ports: new Map([[80, 'web']]) }));
  t.true(isMeant('pillar', '80:web', new Map([[80, 'web']])));
});

test('an element of a list is found by its index, also from the end', (t) => {
  t.true(isMeant('grain', 'disks:1:name:sdb', { disks: [{ name: 'sda' }, { name: 'sdb' }] }));
  t.true(isMeant('grain', 'disks:-1:name:sdb', { disks: [{ name: 'sda' }, { name: 'sdb' }] }));
});

test('names from Object.prototype are not grains', (t) => {
  t.false(isMeant('grain', 'constructor:*', {}));
  t.false(isMeant('grain', 'os:constructor', { os: { name: 'Debian' } }));
});

test('a regular expression over values is converted to lower case as a whole, as in Salt', (t) => {
  t.true(isMeant('grain_pcre', 'os:DEB', { os: 'Debian' }));
  t.true(isMeant('grain_pcre', 'os:\\S', { os: ' x' }));
});

test('an empty map has no values, but in a list it counts as a map', (t) => {
  t.false(isMeant('grain', 'a:*', { a: {} }));
  t.false(isMeant('grain', 'a:*:*', { a: {} }));
  t.true(isMeant('grain', 'a:*', { a: [{}] }));
  t.true(isMeant('grain', 'a:*:*', { a: [{}] }));
});

test('an expression that contains the delimiter is tried with each possible split', (t) => {
  t.true(isMeant('grain_pcre', 'url:(http|https://x)', { url: 'https://x' }));
  t.throws(() => isMeant('grain_pcre', 'url:(http', {}), { instanceOf: SyntaxError });
});

/** Matches a pattern like the worker thread of a master. */
function matches(pattern: string, text: string): boolean {
  const compiled = compilePattern(pattern);
  if (compiled.kind === 'linear') return compiled.test(text);
  return RegExp(compiled.source, compiled.flags).test(text);
}

/** Results of `re.match(pattern, text)` in Python 3.11. */
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
  test(`${JSON.stringify(pattern)} is matched by backtracking, and ${JSON.stringify(text)} gives ${isMatch}`, (t) => {
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
  test(`${JSON.stringify(pattern)} is not accepted as an expression`, (t) => {
    t.throws(() => compilePattern(pattern), { instanceOf: SyntaxError });
  });
}

test('nested repetition without lookaround takes linear time', (t) => {
  t.false(matches('(a+)+$', `${'a'.repeat(20_000)}!`));
});

/** Results of `re.search(pattern, text)` in Python 3.11. */
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

test('an invalid expression is refused', (t) => {
  for (const pattern of ['(', '[a', '(?<=a']) {
    t.throws(() => compileSearchPattern(pattern), { instanceOf: SyntaxError });
  }
});

/** Expands nodegroups like a minion that has them in its configuration. */
function expanded(target: TargetExpression): TargetExpression {
  if (target.tgtType !== 'compound') return target;
  return { ...target, tgt: expandCompound(splitTargetWords(target.tgt), minionNodegroups) };
}

function publicationTo({ tgtType, tgt }: TargetExpression): PublicationLoad {
  const recipients = typeof tgt === 'string' ? tgt : [...tgt];
  return {
    fun: 'test.ping',
    arg: [],
    jid: '20240102030405678901',
    tgt: recipients,
    tgt_type: tgtType,
  };
}

for (const { title, target, minionSide } of targetCases) {
  test(`the minions of the vectors run a publication for ${title}`, (t) => {
    const load = publicationTo(expanded(target));
    const verdicts = vectorMinions.map((minion) => {
      return [minion.id, isMinionTargeted(candidateOf(minion), load)] as const;
    });
    t.deepEqual(new Map(verdicts), minionSide);
  });
}

for (const { title, target, minions } of targetCases) {
  test(`the candidates for ${title} are those of a real master`, (t) => {
    const compiled = compileTarget(target);
    const unknown = { id: unknownMinion, facts: { grains: undefined, pillar: undefined } };
    const candidates = [...vectorMinions.map(candidateOf), unknown];
    const possible = candidates.filter((candidate) => compiled.isPossible(candidate));
    t.deepEqual(possible.map(({ id }) => id).sort(), minions);
  });
}

test('a target that the embedded minion cannot parse or bound matches no minion', (t) => {
  const [minion] = vectorMinions;
  if (minion === undefined) return t.fail();
  const isMeant = (tgtType: string, tgt: string, delimiter = ':'): boolean => {
    const load = { ...publicationTo({ tgtType: 'glob', tgt }), tgt_type: tgtType, delimiter };
    return isMinionTargeted(candidateOf(minion), load);
  };
  t.true(isMeant('glob', '*'));
  t.false(isMeant('range', '*'));
  t.false(isMeant('nodegroup', '*'));
  t.false(isMeant('pcre', '('));
  t.false(isMeant('pcre', '(?!x).*'));
  t.false(isMeant('grain', 'os:*', ''));
  t.true(isMeant('grain', 'os|*', '|'));
});

const globCases: readonly (readonly [pattern: string, text: string, matches: boolean])[] = [
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

for (const [pattern, text, wanted] of globCases) {
  test(`${JSON.stringify(pattern)} ${wanted ? 'matches' : 'does not match'} ${JSON.stringify(text)}`, (t) => {
    t.is(compileGlob(pattern)(text), wanted);
  });
}

test('stars and question marks agree with the reference definition', (t) => {
  const characters = fc.constantFrom('a', 'b', '*', '?', '.');
  const pattern = fc.string({ unit: characters, maxLength: 8 });
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 10 });
  fc.assert(
    fc.property(pattern, text, (glob, value) => {
      t.is(compileGlob(glob)(value), plain(glob, value));
    }),
    tries(200),
  );
});

test('a pattern that would make a backtracking matcher explode gets an answer', (t) => {
  t.false(compileGlob(`${'*a'.repeat(40)}b`)('a'.repeat(500)));
});

function plain(glob: string, text: string): boolean {
  if (glob === '') return text === '';
  const rest = glob.slice(1);
  if (glob.startsWith('*')) return plain(rest, text) || (text !== '' && plain(glob, text.slice(1)));
  const isSame = glob.startsWith('?') || glob[0] === text[0];
  return text !== '' && isSame && plain(rest, text.slice(1));
}

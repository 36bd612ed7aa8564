import test from 'ava';
import {
  compileTarget,
  expandCompound,
  expandNodegroup,
  factsOf,
  findNodegroupLoop,
  type TargetCandidate,
  type WireMap,
} from '../../../minion-protocol/index.ts';

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
  test(`the broken expression ${JSON.stringify(tgt.slice(0, 20))} means nobody and says why`, (t) => {
    const compiled = compileTarget({ tgtType: 'compound', tgt });
    t.is(compiled.test(candidate('web1', {})), 'no');
    t.false(compiled.isPossible(candidate('web1')));
    t.truthy(compiled.problem);
  });
}

test('a term and not after it are joined by and', (t) => {
  t.is(compound('web* not web2', candidate('web1', {})), 'yes');
  t.is(compound('web* not web2', candidate('web2', {})), 'no');
});

test('a letter takes a delimiter of its own', (t) => {
  const who = candidate('web1', { nested: { a: { b: 'x' } } });
  t.is(compound('G|@nested|a|b|x', who), 'yes');
  t.is(compound('G@@nested@a@b@x', who), 'yes');
  t.is(compound('P|@nested|a|b|[wx]', who), 'yes');
  t.is(compound('I|@nested|a|b|x and J|@nested|a|b|x', who), 'yes');
  t.is(compound('G:nested|a|b|x', who), 'no');
});

test('a publication of another delimiter does not reach inside compounds', (t) => {
  const compiled = compileTarget({ tgtType: 'compound', tgt: 'G@os:x', delimiter: '|' });
  t.is(compiled.test(candidate('web1', { os: 'x' })), 'yes');
});

test('what facts would decide is unknown without them, and decided where it cannot matter', (t) => {
  const who = candidate('web1');
  t.is(compound('G@os:x', who), 'unknown');
  t.is(compound('not G@os:x', who), 'unknown');
  t.is(compound('G@os:x or web1', who), 'yes');
  t.is(compound('G@os:x and db1', who), 'no');
});

test('not takes away those of whom nothing is known, as in Salt', (t) => {
  const isPossible = (tgt: string): boolean =>
    compileTarget({ tgtType: 'compound', tgt }).isPossible(candidate('web1'));
  t.true(isPossible('G@os:x'));
  t.false(isPossible('* and not G@os:x'));
});

test('the ids of lists are told, but not those that are taken away', (t) => {
  const ids = (tgt: string): readonly string[] =>
    compileTarget({ tgtType: 'compound', tgt }).terms.flatMap((term) => term.ids);
  t.deepEqual(ids('L@web1,,nope or not L@gone'), ['web1', 'nope']);
});

test('an address target reads networks as Python does', (t) => {
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

test('an address that is none means nobody, also of those whose facts are not known', (t) => {
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

test('a nodegroup becomes the words that Salt makes of it', (t) => {
  t.deepEqual(expandNodegroup('words', groups), ['web1', 'or', 'web2']);
  t.deepEqual(expandNodegroup('ids', groups), ['L@web1,web2']);
  t.deepEqual(expandNodegroup('text', groups), ['L@web1,web2']);
  t.deepEqual(expandNodegroup('expression', groups), ['E@web[12]']);
  t.deepEqual(expandNodegroup('typed', groups), ['L@web1,web2']);
});

test('a nodegroup inside of another is put in parentheses', (t) => {
  const inner = ['(', 'web1', 'or', 'web2', ')', 'and', 'not', '(', 'L@web1,web2', ')'];
  t.deepEqual(expandNodegroup('outer', groups), inner);
  t.deepEqual(expandNodegroup('twice', groups), ['(', ...inner, ')', 'or', 'db*']);
  t.is(compound(expandCompound(['*', 'and', 'not', 'N@words'], groups), candidate('web2')), 'no');
});

test('a nodegroup that contains itself is refused, and the way is named', (t) => {
  const nodegroups = { a: 'N@b', b: ['N@c'], c: 'web1 or N@a', d: 'N@a' };
  t.throws(() => expandNodegroup('a', nodegroups), { message: /a > b > c > a/ });
  t.deepEqual(findNodegroupLoop(nodegroups), ['a', 'b', 'c', 'a']);
  t.is(findNodegroupLoop(groups), undefined);
});

test('nodegroups that multiply are stopped', (t) => {
  const nodegroups: Record<string, string> = { g0: 'web1 or web2' };
  for (let level = 1; level < 40; level += 1)
    nodegroups[`g${level}`] = `N@g${level - 1} or N@g${level - 1}`;
  t.is(findNodegroupLoop(nodegroups), undefined);
  t.throws(() => expandNodegroup('g39', nodegroups), { instanceOf: SyntaxError });
});

test('a nodegroup that nobody defined is refused, also with a name that objects inherit', (t) => {
  t.throws(() => expandNodegroup('nope', groups), { instanceOf: SyntaxError });
  t.throws(() => expandNodegroup('constructor', groups), { instanceOf: SyntaxError });
});

test('T@ means minions by the resources that they manage, and gives no right', (t) => {
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

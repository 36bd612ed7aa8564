/** Decisions in words, and rules that do nothing. */
import test from 'ava';
import fc from 'fast-check';
import {
  allow,
  decide,
  deny,
  explain,
  lintPolicy,
  type PolicyRule,
  type Question,
} from '../../acl/index.ts';
import { globsOverlap } from '../../acl/lint.ts';
import { compileGlob } from '../../minion-protocol/index.ts';
import { policyOf } from '../helpers/policies.ts';

const puppet: PolicyRule = allow('puppet', {
  subject: { minion: 'jenkins-*' },
  action: 'signal',
  resource: { tag: 'infra/puppet/requested', schema: { required: ['env'], type: 'object' } },
  rate: '1/day',
  origin: { file: '/etc/salt/master', line: 5 },
});
const other = allow('other', {
  subject: { minion: 'web*' },
  action: 'signal',
  resource: { tag: 'my/*', bytes: 10 },
});

function signal(id: string, tag: string, data?: unknown): Question {
  const resource = { tag, data, wasPublishedToSubject: () => false };
  return { subject: { kind: 'minion', id }, action: 'signal', resource };
}

test('an explanation is the decision, and uses up nothing', (t) => {
  const policy = policyOf([puppet]);
  const question = signal('jenkins-1', 'infra/puppet/requested', { env: 'test' });
  for (let round = 0; round < 3; round += 1) {
    t.is(explain(question, policy).decision.effect, 'allow');
  }
  t.is(decide(question, policy).effect, 'allow');
  t.is(decide(question, policy).effect, 'deny');
  t.deepEqual(explain(question, policy).nearest, [
    { rule: 'puppet', origin: puppet.origin, obstacles: ['its rate is used up'] },
  ]);
});

test('the rules that lack least are named, with what they lack', (t) => {
  const policy = policyOf([puppet, other]);
  const nearest = (question: Question): unknown =>
    explain(question, policy).nearest.map(({ rule, obstacles }) => [rule, ...obstacles]);
  t.deepEqual(nearest(signal('jenkins-1', 'infra/puppet/requested', {})), [
    ['puppet', 'its data do not fit the schema'],
  ]);
  t.deepEqual(nearest(signal('db1', 'infra/puppet/requested', { env: 1 })), [
    ['puppet', 'it is about others'],
  ]);
  t.deepEqual(nearest(signal('web1', 'my/')), []);
});

test('a decision that a rule made needs no other rule to explain it', (t) => {
  const no = deny('no', { subject: { minion: '*' }, action: 'signal', resource: { tag: 'my/*' } });
  const { decision, nearest } = explain(signal('web1', 'my/tag'), policyOf([other, no]));
  t.is(decision.rule, 'no');
  t.deepEqual(nearest, []);
});

function lint(rules: readonly PolicyRule[], ids?: readonly string[]): readonly string[][] {
  return lintPolicy(policyOf(rules), ids).map(({ kind, rule }) => [kind, rule]);
}

const all = { subject: { minion: '*' }, action: 'signal' } as const;

test('rules that have an effect are not named', (t) => {
  t.deepEqual(lint([puppet, other], ['jenkins-1', 'web1']), []);
  t.deepEqual(lint([puppet, other]), []);
});

test('rules without an effect are named', (t) => {
  const wide = allow('wide', { ...all, resource: { tag: 'my/*' } });
  t.deepEqual(lint([other], ['db1']), [['matches-no-minion', 'other']]);
  t.deepEqual(lint([wide, other]), [['redundant', 'other']]);
  t.deepEqual(lint([wide, { ...wide, name: 'again' }]), [['redundant', 'again']]);
  t.deepEqual(lint([deny('no', { ...all, resource: { tag: '*' } }), other]), [
    ['unreachable', 'other'],
  ]);
  t.deepEqual(lint([{ ...wide, expires: '1969-01-01' }]), [['expired', 'wide']]);
  for (const tag of ['salt/auth', 'salt/job/*', 'salt/auth/*', 'key']) {
    t.deepEqual(lint([allow('own', { ...all, resource: { tag } })]), [['unreachable', 'own']], tag);
  }
  t.deepEqual(lint([allow('wide', { ...all, resource: { tag: 'salt/*' } })]), []);
});

test('a rule that another one takes part of away is named', (t) => {
  const wide = allow('wide', { ...all, resource: { tag: 'my/*' } });
  const cut = (tag: string, minion = '*') =>
    deny('no', { action: 'signal', subject: { minion }, resource: { tag } });
  t.deepEqual(lint([wide, cut('my/secret/*')]), [['overlapping', 'wide']]);
  t.deepEqual(lint([wide, cut('*/secret')]), [['overlapping', 'wide']]);
  const ofSender = `my/\${minion.id}`;
  t.deepEqual(lint([wide, cut(ofSender, 'web*')]), [['overlapping', 'wide']]);
  t.deepEqual(lint([wide, cut('your/*')]), []);
  const ofWeb = { ...wide, subject: { minion: 'web*' } };
  t.deepEqual(lint([ofWeb, cut('my/secret', 'db*')]), []);
});

test('globs that match a common text meet', (t) => {
  const piece = fc.constantFrom('a', 'b', '/', '?', '*', '[ab]');
  const glob = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
  const text = fc.array(fc.constantFrom('a', 'b', '/'), { maxLength: 6 }).map((it) => it.join(''));
  fc.assert(
    fc.property(glob, glob, text, (left, right, it) => {
      const isCommon = compileGlob(left)(it) && compileGlob(right)(it);
      return !isCommon || globsOverlap(left, right);
    }),
    { numRuns: 5000 },
  );
  for (const [left, right] of [
    ['a*', 'b*'],
    ['*a', '*b'],
    ['a', 'ab'],
    ['', 'a*'],
    ['a?', 'a'],
  ]) {
    t.false(globsOverlap(left ?? '', right ?? ''), `${left} ${right}`);
  }
});

test('a rule with a condition does not make another one needless', (t) => {
  const limited = allow('limited', { ...all, resource: { tag: 'my/*' }, rate: '1/day' });
  const small = allow('small', { ...all, resource: { tag: 'my/*', bytes: 5 } });
  const pillar = allow('pillar', { ...all, subject: { pillar: 'a:b' }, resource: { tag: 'my/*' } });
  const plain = { ...other, name: 'plain' };
  for (const rule of [limited, small, pillar]) t.deepEqual(lint([rule, plain]), [], rule.name);
});

import test from 'ava';
import {
  allow,
  deny,
  isUnlimited,
  type PolicyRule,
  rightsOfUser,
  type UserSubject,
} from '../../acl/index.ts';
import { policySyntax } from '../../master/config/policy-rules.ts';
import { policyOf } from '../helpers/policies.ts';

const fred: UserSubject = { kind: 'user', name: 'fred', groups: ['ops'], eauth: 'pam' };
const now = Date.parse('2026-01-01');

function may(...rules: PolicyRule[]): boolean {
  return isUnlimited(fred, policyOf(rules, { now: () => now }));
}

const base = { subject: { user: 'fred' }, action: 'publish' } as const;
const all = allow('all', { ...base, resource: { fun: '*' } });

test('who may publish everything everywhere is unlimited', (t) => {
  t.true(may(all));
  t.true(may(allow('all', { ...base, resource: { fun: { regex: '.*' } } })));
  t.true(may(allow('group', { ...base, subject: { group: 'ops' }, resource: { fun: '*' } })));
});

test('any condition on a rule, and any rule that denies, is a limit', (t) => {
  t.false(may());
  t.false(may(allow('some', { ...base, resource: { fun: { regex: 'test.*' } } })));
  t.false(may(allow('within', { ...base, resource: { fun: '*', within: 'web*' } })));
  t.false(
    may(allow('arguments', { ...base, resource: { fun: '*', arguments: [{ args: ['a'] }] } })),
  );
  t.false(may(allow('environment', { ...base, resource: { fun: '*', environment: 'dev' } })));
  t.false(may(allow('rate', { ...base, resource: { fun: '*' }, rate: '1/minute' })));
  t.false(may(allow('over', { ...base, resource: { fun: '*' }, expires: '2025-01-01' })));
  t.false(may(allow('other', { ...base, subject: { user: 'ann' }, resource: { fun: '*' } })));
  t.false(may(all, deny('no', { ...base, resource: { fun: 'cmd.run' } })));
  t.true(may(all, deny('no', { ...base, subject: { user: 'ann' }, resource: { fun: 'cmd.run' } })));
});

test('who may publish everything may not therefore call runners or wheel functions', (t) => {
  const may = (action: 'runner' | 'wheel', ...rules: PolicyRule[]): boolean =>
    isUnlimited(fred, policyOf(rules, { now: () => now }), action);
  const runners = allow('runners', { ...base, action: 'runner', resource: { fun: '*' } });
  t.false(may('runner', all));
  t.true(may('runner', all, runners));
  t.false(may('wheel', all, runners));
  const one = { ...base, action: 'runner', resource: { fun: 'jobs.*' } } as const;
  t.false(may('runner', allow('jobs', one)));
  t.false(may('runner', runners, deny('no', one)));
  t.false(isUnlimited(fred, policyOf([runners], { now: () => now })));
});

test('the entries of a user are those of name, groups, and * where nobody else is meant', (t) => {
  const pam = {
    '^option': ['never'],
    fred: ['b', { m: ['c'] }],
    'fr*': ['a', 'b', { m: ['c'] }],
    'ops%': ['d'],
    'dev%': ['e'],
    '*': ['f'],
  };
  const of = (name: string, permissiveAcl = false): readonly unknown[] =>
    rightsOfUser({ externalAuth: { pam }, permissiveAcl }, { ...fred, name }, policySyntax);
  t.deepEqual(of('fred'), ['a', 'b', 'd', { m: ['c'] }]);
  t.deepEqual(of('ann'), ['d', 'f']);
  t.deepEqual(of('fred', true), ['a', 'b', 'd', 'f', { m: ['c'] }]);
  const elsewhere = { ...fred, eauth: 'constructor' };
  t.deepEqual(
    rightsOfUser({ externalAuth: { pam }, permissiveAcl: true }, elsewhere, policySyntax),
    [],
  );
});

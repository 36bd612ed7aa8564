/** Rules about those who act for a project of Keystone's. */
import test from 'ava';
import {
  allow,
  decide,
  deny,
  explain,
  lintPolicy,
  type PolicyRule,
  type ProjectSubject,
  parseRule,
  type Question,
  type SubjectPattern,
} from '../../acl/index.ts';
import { policyOf } from '../helpers/policies.ts';

const inDefault = { id: 'default', name: 'Default' };
const trove: ProjectSubject = {
  kind: 'project',
  project: { id: '3f2a', name: 'databases', domain: inDefault },
  user: { id: '77b0', name: 'trove', domain: inDefault },
  roles: ['member', 'trove-admin'],
};
const elsewhere = { id: 'e1', name: 'elsewhere' };

function command(subject: ProjectSubject): Question {
  const call = { fun: 'mysql.create', args: [], kwargs: new Map() };
  return { subject, action: 'command', resource: { call, minions: ['db1'] } };
}

function rule(subject: SubjectPattern): PolicyRule {
  return allow('databases', { subject, action: 'command', resource: { fun: 'mysql.*' } });
}

function isPermitted(pattern: SubjectPattern, subject = trove): boolean {
  return decide(command(subject), policyOf([rule(pattern)])).effect === 'allow';
}

test('a project is meant by its id or its name, with one of its roles', (t) => {
  t.true(isPermitted({ project: 'databases' }));
  t.true(isPermitted({ project: '3f2a' }));
  t.true(isPermitted({ project: 'data*', role: 'trove-*' }));
  t.true(isPermitted({ role: ['admin', 'trove-admin'] }));
  t.false(isPermitted({ project: 'databases', role: 'admin' }));
  t.false(isPermitted({ project: 'web' }));
  t.false(isPermitted({ project: 'databases', except: '3f2a' }));
  t.false(isPermitted({ role: 'member', except: 'data*' }));
});

test('a name of another domain is another one, for projects and for users', (t) => {
  const foreign = { ...trove, project: { ...trove.project, domain: elsewhere } };
  const guest = { ...trove, user: { ...trove.user, domain: elsewhere } };
  t.false(isPermitted({ project: 'databases' }, foreign));
  t.false(isPermitted({ role: 'trove-admin' }, foreign));
  t.true(isPermitted({ project: 'databases', domain: 'elsewhere' }, foreign));
  t.true(isPermitted({ project: 'databases', domain: 'e1' }, foreign));
  t.false(isPermitted({ project: 'databases', domain: 'elsewhere' }));
  t.true(isPermitted({ project: 'databases', user: 'trove' }));
  t.true(isPermitted({ project: 'databases', user: '77b0' }));
  t.false(isPermitted({ project: 'databases', user: 'nova' }));
  t.false(isPermitted({ project: 'databases', user: 'trove' }, guest));
  t.true(isPermitted({ project: 'databases' }, guest));
});

test('a rule that denies is about every domain that it does not leave out', (t) => {
  const foreign = { ...trove, project: { ...trove.project, domain: elsewhere } };
  const everybody = rule({ domain: '*' });
  const no = (subject: SubjectPattern): PolicyRule =>
    deny('no', { subject, action: 'command', resource: { fun: '*' } });
  const effect = (denying: SubjectPattern): string =>
    decide(command(foreign), policyOf([everybody, no(denying)])).effect;
  t.is(effect({ role: 'member' }), 'deny');
  t.is(effect({ role: 'member', domain: 'Default' }), 'allow');
});

test('rules about users and services are not about projects, nor the other way', (t) => {
  t.false(isPermitted({ user: '*' }));
  t.false(isPermitted({ user: 'trove' }));
  t.false(isPermitted({ service: '*' }));
  const fred = { kind: 'user', name: 'trove', groups: [], eauth: 'keystone' } as const;
  const { resource } = command(trove) as Extract<Question, { action: 'command' }>;
  const policy = policyOf([rule({ domain: '*' })]);
  t.is(decide({ subject: fred, action: 'command', resource }, policy).effect, 'deny');
});

test('a rule is about one kind of subject', (t) => {
  const form = { code: 'ERR_POLICY_FORM' } as const;
  for (const subject of [
    { project: 'a', service: 'b' },
    { project: 'a', group: 'b' },
    { role: 'a', eauth: 'pam' },
    { domain: 'a', minion: 'b' },
  ]) {
    t.throws(() => policyOf([rule(subject)]), form);
  }
  const parsed = parseRule('a', {
    subject: { project: ['x', { regex: 'y.*' }], role: 'z', domain: 'd', user: 'u' },
    action: 'command',
    resource: { fun: '*' },
  });
  t.notThrows(() => policyOf([parsed]));
});

test('a rate counts who acts, whichever roles they come with', (t) => {
  const policy = policyOf([{ ...rule({ project: 'databases' }), rate: '1/day' }]);
  t.is(decide(command(trove), policy).effect, 'allow');
  t.is(decide(command({ ...trove, roles: ['member'] }), policy).effect, 'deny');
  const nova = { ...trove, user: { ...trove.user, id: 'n1', name: 'nova' } };
  t.is(decide(command(nova), policy).effect, 'allow');
});

test('what is remembered of a subject is not taken for one with other roles', (t) => {
  const policy = policyOf([rule({ role: 'trove-admin' })]);
  t.is(decide(command({ ...trove, roles: [] }), policy).effect, 'deny');
  t.is(decide(command(trove), policy).effect, 'allow');
  t.is(decide(command({ ...trove, roles: ['member'] }), policy).effect, 'deny');
});

test('an explanation names the project, and what a near rule lacks', (t) => {
  const policy = policyOf([rule({ project: 'databases', role: 'admin' })]);
  const { decision, nearest } = explain(command(trove), policy);
  t.regex(decision.reason, /project databases/);
  t.deepEqual(nearest, [{ rule: 'databases', obstacles: ['it is about others'] }]);
  const allowed = explain(command({ ...trove, roles: ['admin'] }), policy).decision;
  t.is(allowed.reason, 'project databases, role admin has command mysql.*');
});

test('rules about projects that do nothing are found', (t) => {
  const found = (rules: readonly PolicyRule[]): unknown =>
    lintPolicy(policyOf(rules), []).map(({ kind, rule: name }) => [kind, name]);
  const named = (name: string, subject: SubjectPattern): PolicyRule => ({ ...rule(subject), name });
  const wide = named('wide', { domain: '*' });
  t.deepEqual(found([wide, named('narrow', { project: 'databases' })]), [['redundant', 'narrow']]);
  t.deepEqual(found([named('a', { project: 'a' }), named('b', { project: 'b' })]), []);
  const no = deny('no', {
    subject: { project: 'data*' },
    action: 'command',
    resource: { fun: 'mysql.*' },
  });
  t.deepEqual(found([named('a', { project: 'databases' }), no]), [['overlapping', 'a']]);
});

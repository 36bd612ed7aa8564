import test from 'ava';
import fc from 'fast-check';
import {
  allow,
  type Call,
  type Decision,
  decide,
  deny,
  explain,
  isUnlimited,
  type KeystoneEntity,
  lintPolicy,
  mayCallCommand,
  type Policy,
  type PolicyRule,
  type ProjectSubject,
  parseRule,
  type Question,
  reachOf,
  rightsOfUser,
  type Subject,
  type SubjectPattern,
  type TextPatterns,
  type UserSubject,
} from '#acl';
import { globsOverlap } from '#acl/rule-overlap.ts';
import { policySyntax } from '#config';
import { compileWholePattern } from '#minion-protocol';
import { compileGlob } from '#template/python/fnmatch.ts';
import { tries } from '../helpers/effort.ts';
import { policyOf } from '../helpers/policies.ts';

const jid = '20240102030405678000';

function signal(id: string, tag: string, publishedJids: readonly string[] = []): Decision {
  return decide({
    subject: { kind: 'minion', id },
    action: 'signal',
    resource: { tag, wasPublishedToSubject: (asked) => publishedJids.includes(asked) },
  });
}

for (const tag of [
  'salt/minion/web1/start',
  'minion_start',
  'minion_ping',
  '_salt_error',
  'salt/beacon/web1/inotify//etc/hosts',
]) {
  test(`a minion may emit its own ${tag}`, (t) => {
    t.is(signal('web1', tag).effect, 'allow');
  });
}

for (const tag of [
  'salt/minion/web2/start',
  'salt/minion/web1/start/',
  'salt/beacon/web2/load',
  'salt/beacon/web1/',
  'salt/beacon/web1',
  'salt/auth',
  'salt/key',
  'key',
  'salt/run/20240102030405678000/new',
  'salt/wheel/20240102030405678000/ret',
  `salt/job/${jid}/ret/web1`,
  `salt/job/${jid}/new`,
  'salt/presence/change',
  'resource/refresh/web1',
  'Salt/minion/web1/start',
  'salt//minion/web1/start',
  'minion_start\n\nsalt/auth',
  '',
  'my/site/tag',
]) {
  test(`a minion may not emit ${JSON.stringify(tag)}`, (t) => {
    t.is(signal('web1', tag, [jid]).effect, 'deny');
  });
}

test('progress is permitted only to a minion of the job', (t) => {
  t.is(signal('web1', `salt/job/${jid}/prog/web1/0`, [jid]).effect, 'allow');
  t.is(signal('web1', `salt/job/${jid}/prog/web1/0`).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/prog/web2/0`, [jid]).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/prog/web1/x`, [jid]).effect, 'deny');
});

test('the start of a job is permitted only to a minion of the job', (t) => {
  t.is(signal('web1', `salt/job/${jid}/start/web1`, [jid]).rule, 'own-job-start');
  t.is(signal('web1', `salt/job/${jid}_4711/start/web1`, [`${jid}_4711`]).effect, 'allow');
  t.is(signal('web1', `salt/job/${jid}/start/web1`).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/start/web2`, [jid]).effect, 'deny');
  t.is(signal('web1', `salt/job/${jid}/start/`, [jid]).effect, 'deny');
});

test('beacon tags with control characters are denied', (t) => {
  const decision = signal('web1', 'salt/beacon/web1/x\nsalt/auth');
  t.is(decision.effect, 'deny');
  t.is(decision.rule, 'well-formed-tag');
});

test('a tag without the sender is permitted only if it is one of the three plain tags', (t) => {
  const plain = ['minion_start', 'minion_ping', '_salt_error'];
  const anyTag = fc.string({ unit: 'binary', maxLength: 60 });
  const property = fc.property(anyTag, (tag) => {
    fc.pre(!tag.includes('a-very-particular-id') && !plain.includes(tag));
    return signal('a-very-particular-id', tag, [jid]).effect === 'deny';
  });
  t.notThrows(() => fc.assert(property));
});

function returning(id: string, fun: string | string[], minions: string[] | undefined): Decision {
  return decide({
    subject: { kind: 'minion', id },
    action: 'return',
    resource: {
      jid,
      fun,
      job: minions === undefined ? undefined : { minions: new Set(minions), fun: 'test.ping' },
    },
  });
}

test('a return is permitted for a job that was published to the sender', (t) => {
  t.is(returning('web1', 'test.ping', ['web1', 'web2']).effect, 'allow');
});

test('a return is denied for a job of others, an unknown job and another function', (t) => {
  t.is(returning('web1', 'test.ping', ['web2']).rule, 'addressee-only');
  t.is(returning('web1', 'test.ping', undefined).rule, 'known-job');
  t.is(returning('web1', 'test.pong', ['web1']).rule, 'published-function');
  t.is(returning('web1', ['test.ping', 'cmd.run'], ['web1']).rule, 'published-function');
});

test('a self-made job needs no publication', (t) => {
  const decision = decide({
    subject: { kind: 'minion', id: 'web1' },
    action: 'return',
    resource: { jid: 'req', fun: 'state.apply', job: undefined },
  });
  t.is(decision.effect, 'allow');
});

// Tests of rules about named commands.

const grant = allow('databases', {
  subject: { service: 'trove' },
  action: 'command',
  resource: { fun: 'mysql.*', within: 'db*', arguments: [{ kwargs: { name: 'app_*' } }] },
});

function ask(
  rules: readonly PolicyRule[],
  { fun = 'mysql.create-user', name = 'app_1', minion = 'db1', service = 'trove' } = {},
): string {
  const question: Question = {
    subject: { kind: 'service', name: service },
    action: 'command',
    resource: {
      call: { fun, args: [], kwargs: new Map([['name', name]]) },
      minions: [minion],
    },
  };
  const { effect, rule } = decide(question, policyOf(rules));
  return `${effect} ${rule}`;
}

test('a command is permitted by name, arguments and target together', (t) => {
  t.is(ask([grant]), 'allow databases');
  t.is(ask([grant], { fun: 'redis.flush' }), 'deny default-deny');
  t.is(ask([grant], { name: 'root' }), 'deny default-deny');
  t.is(ask([grant], { minion: 'web1' }), 'deny default-deny');
  t.is(ask([grant], { service: 'sahara' }), 'deny default-deny');
  t.is(ask([]), 'deny default-deny');
});

test('a right to publish a function does not include a command of that name', (t) => {
  const publish = allow('jobs', {
    subject: { service: 'trove' },
    action: 'publish',
    resource: { fun: '*' },
  });
  t.is(ask([publish]), 'deny default-deny');
});

test('a rule in a file may use the key within', (t) => {
  const value = {
    subject: { service: 'trove' },
    action: 'command',
    resource: { fun: 'mysql.*', within: 'db*' },
  };
  t.is(ask([parseRule('file', value)]), 'allow file');
  t.is(ask([parseRule('file', value)], { minion: 'web1' }), 'deny default-deny');
});

test('a caller may call commands that some rule permits and none denies', (t) => {
  const subject = { service: 'trove' };
  const denial = (name: string, more: object) =>
    deny(name, { subject, action: 'command', resource: { fun: 'mysql.drop', ...more } });
  const may = (fun: string, ...more: readonly PolicyRule[]): boolean =>
    mayCallCommand({ kind: 'service', name: 'trove' }, fun, policyOf([grant, ...more]));
  t.true(may('mysql.drop'));
  t.false(may('redis.flush'));
  t.false(may('mysql.drop', denial('never', {})));
  t.true(may('mysql.drop', denial('there', { within: 'db1' })));
  t.true(may('mysql.drop', denial('so', { arguments: [{ kwargs: { name: 'app_1' } }] })));
  t.false(mayCallCommand({ kind: 'service', name: 'sahara' }, 'mysql.drop', policyOf([grant])));
});

// Tests of rules about users who act for a project of Keystone.

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
  const project = subject.project.id;
  return { subject, action: 'command', resource: { call, minions: ['db1'], project } };
}

function rule(subject: SubjectPattern): PolicyRule {
  return allow('databases', { subject, action: 'command', resource: { fun: 'mysql.*' } });
}

function isPermitted(pattern: SubjectPattern, subject = trove): boolean {
  return decide(command(subject), policyOf([rule(pattern)])).effect === 'allow';
}

test('a rule names a project by id or name, with one of its roles', (t) => {
  t.true(isPermitted({ project: 'databases' }));
  t.true(isPermitted({ project: '3f2a' }));
  t.true(isPermitted({ project: 'data*', role: 'trove-*' }));
  t.true(isPermitted({ role: ['admin', 'trove-admin'] }));
  t.false(isPermitted({ project: 'databases', role: 'admin' }));
  t.false(isPermitted({ project: 'web' }));
  t.false(isPermitted({ project: 'databases', except: '3f2a' }));
  t.false(isPermitted({ role: 'member', except: 'data*' }));
});

test('a project refers to its own guests, and to minions that `within` names', (t) => {
  const owners: Record<string, string> = { db1: '3f2a', web1: 'b7c1' };
  const call = { fun: 'mysql.create', args: [], kwargs: new Map() };
  const policy = (within?: string): Policy => {
    const resource = { fun: 'mysql.*', ...(within === undefined ? {} : { within }) };
    const it = allow('databases', { subject: { project: '*' }, action: 'command', resource });
    return policyOf([it], { projectOf: (id) => owners[id] });
  };
  const may = (minions: readonly string[], within?: string): boolean =>
    decide({ subject: trove, action: 'command', resource: { call, minions } }, policy(within))
      .effect === 'allow';
  t.true(may(['db1']));
  t.false(may(['web1']));
  t.false(may(['db1', 'web1']));
  // It was never enrolled, so it belongs to no project.
  t.false(may(['metal1']));
  t.true(may(['web1'], 'web*'));
  t.true(may(['metal1'], '*'));
  const reach = reachOf({ subject: trove, action: 'command', calls: [call] }, policy());
  t.deepEqual(
    ['db1', 'web1', 'metal1'].map((id) => reach.includes(id)),
    [true, false, false],
  );
  t.false(reach.covers('*'));
  const all = allow('all', {
    subject: { project: '*' },
    action: 'command',
    resource: { fun: '*' },
  });
  t.false(isUnlimited(trove, policyOf([all]), 'command'));
});

test('the same name in another domain means another project or user', (t) => {
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

test("a name that could be another project's id gives no right, but can deny one", (t) => {
  const id = 'c0ffee'.padEnd(32, '0');
  const namesake = { ...trove, project: { ...trove.project, name: id } };
  const impostor = { ...trove, user: { ...trove.user, name: id } };
  const real = { ...trove, project: { ...trove.project, id } };
  t.true(isPermitted({ project: id }, real));
  t.false(isPermitted({ project: id }, namesake));
  t.false(isPermitted({ project: 'c0ffee*' }, namesake));
  t.true(isPermitted({ project: '3f2a' }, namesake));
  t.false(isPermitted({ project: 'databases', user: id }, impostor));
  const no = deny('no', { subject: { project: id }, action: 'command', resource: { fun: '*' } });
  const rules = policyOf([rule({ project: '3f2a' }), no]);
  t.is(decide(command(namesake), rules).effect, 'deny');
});

test('a rule that denies applies to all domains unless it names one', (t) => {
  const foreign = { ...trove, project: { ...trove.project, domain: elsewhere } };
  const everybody = rule({ domain: '*' });
  const no = (subject: SubjectPattern): PolicyRule =>
    deny('no', { subject, action: 'command', resource: { fun: '*' } });
  const effect = (denying: SubjectPattern): string =>
    decide(command(foreign), policyOf([everybody, no(denying)])).effect;
  t.is(effect({ role: 'member' }), 'deny');
  t.is(effect({ role: 'member', domain: 'Default' }), 'allow');
});

test('rules about users and services do not apply to projects, and vice versa', (t) => {
  t.false(isPermitted({ user: '*' }));
  t.false(isPermitted({ user: 'trove' }));
  t.false(isPermitted({ service: '*' }));
  const fred = { kind: 'user', name: 'trove', groups: [], eauth: 'keystone' } as const;
  const { resource } = command(trove) as Extract<Question, { action: 'command' }>;
  const policy = policyOf([rule({ domain: '*' })]);
  t.is(decide({ subject: fred, action: 'command', resource }, policy).effect, 'deny');
});

test('a rule applies to one kind of subject', (t) => {
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

test('a rate counts the subject, regardless of its roles', (t) => {
  const policy = policyOf([{ ...rule({ project: 'databases' }), rate: '1/day' }]);
  t.is(decide(command(trove), policy).effect, 'allow');
  t.is(decide(command({ ...trove, roles: ['member'] }), policy).effect, 'deny');
  const nova = { ...trove, user: { ...trove.user, id: 'n1', name: 'nova' } };
  t.is(decide(command(nova), policy).effect, 'allow');
});

test('a cached decision is not reused for the same subject with other roles', (t) => {
  const policy = policyOf([rule({ role: 'trove-admin' })]);
  t.is(decide(command({ ...trove, roles: [] }), policy).effect, 'deny');
  t.is(decide(command(trove), policy).effect, 'allow');
  t.is(decide(command({ ...trove, roles: ['member'] }), policy).effect, 'deny');
});

test('an explanation names the project, and the missing conditions of a near rule', (t) => {
  const policy = policyOf([rule({ project: 'databases', role: 'admin' })]);
  const { decision, nearest } = explain(command(trove), policy);
  t.regex(decision.reason, /project databases/);
  t.deepEqual(nearest, [{ rule: 'databases', obstacles: ['the rule applies to other subjects'] }]);
  const allowed = explain(command({ ...trove, roles: ['admin'] }), policy).decision;
  t.is(allowed.reason, 'project databases, role admin is allowed command mysql.*');
});

test('rules about projects without an effect are found', (t) => {
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

/** Rules that allow as many tags as possible: all tags with one of these first letters. */
const everything: PolicyRule[] = ['s*', 'm*', 'k*', 'n*', 'c*', '2*'].map((tag) =>
  allow('everything', {
    subject: { minion: '*', except: 'db1' },
    action: 'signal',
    resource: { tag },
  }),
);

function decideSignal(id: string, tag: string, rules: readonly PolicyRule[]): Decision {
  return decide(
    {
      subject: { kind: 'minion', id },
      action: 'signal',
      resource: { tag, wasPublishedToSubject: () => false },
    },
    policyOf(rules),
  );
}

test('a grant permits its tag to its minions, and is named in the decision', (t) => {
  const decision = decideSignal('web1', 'my/site/tag', everything);
  t.is(decision.effect, 'allow');
  t.is(decision.rule, 'everything');
  t.is(decideSignal('db1', 'my/site/tag', everything).rule, 'default-deny');
  t.is(decideSignal('web1', 'my/site/tag', []).rule, 'default-deny');
});

for (const tag of [
  'salt/auth',
  'salt/key',
  'key',
  'salt/run/20240102030405678000/new',
  'salt/wheel/20240102030405678000/ret',
  'salt/job/20240102030405678000/ret/web1',
  'salt/job/20240102030405678000/prog/web1/0',
  '20240102030405678000',
  'new_job',
  'salt/presence/change',
  'salt/cloud/web1/destroyed',
  'salt/netapi/hook/deploy',
  'salt/minion/web2/start',
  'salt/beacon/web2/load',
  'minion/refresh/web2',
]) {
  test(`no grant permits a minion to emit the master's ${tag}`, (t) => {
    t.is(decideSignal('web1', tag, everything).rule, 'masters-own-tags');
  });
}

test('names that only share a prefix with those of the master can be granted', (t) => {
  for (const tag of ['salt/keys', 'salt/jobs/x', 'clusters', 'salt/engines/docker_events/start']) {
    t.is(decideSignal('web1', tag, everything).effect, 'allow', tag);
  }
});

test('results of states are granted to their own minion', (t) => {
  t.is(decideSignal('web1', 'salt/state_result/web1/nginx', everything).effect, 'allow');
  t.is(decideSignal('web1', 'salt/state_result/web2/nginx', everything).rule, 'own-state-results');
});

test('a malformed tag is denied despite any grant', (t) => {
  t.is(decideSignal('web1', 'my/tag\n\nsalt/auth', everything).rule, 'well-formed-tag');
});

const fred: UserSubject = { kind: 'user', name: 'fred', groups: ['ops'], eauth: 'pam' };
const now = Date.parse('2026-01-01');

function may(...rules: PolicyRule[]): boolean {
  return isUnlimited(fred, policyOf(rules, { now: () => now }));
}

const base = { subject: { user: 'fred' }, action: 'publish' } as const;
const all = allow('all', { ...base, resource: { fun: '*' } });

test('a subject that may publish everything everywhere is unlimited', (t) => {
  t.true(may(all));
  t.true(may(allow('all', { ...base, resource: { fun: { regex: '.*' } } })));
  t.true(may(allow('group', { ...base, subject: { group: 'ops' }, resource: { fun: '*' } })));
});

test('any condition on a rule, and any rule that denies, makes a subject limited', (t) => {
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

test('the right to publish everything does not include runners or wheel functions', (t) => {
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

test('the entries of a user are those of its name, its groups, and * if no other applies', (t) => {
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

// Tests of explanations, and of rules that have no effect.

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

function signalQuestion(id: string, tag: string, data?: unknown): Question {
  const resource = { tag, data, wasPublishedToSubject: () => false };
  return { subject: { kind: 'minion', id }, action: 'signal', resource };
}

test('an explanation equals the decision, and uses up no rate', (t) => {
  const policy = policyOf([puppet]);
  const question = signalQuestion('jenkins-1', 'infra/puppet/requested', { env: 'test' });
  for (let round = 0; round < 3; round += 1) {
    t.is(explain(question, policy).decision.effect, 'allow');
  }
  t.is(decide(question, policy).effect, 'allow');
  t.is(decide(question, policy).effect, 'deny');
  t.deepEqual(explain(question, policy).nearest, [
    {
      rule: 'puppet',
      origin: puppet.origin,
      obstacles: ['the rate limit of the rule is exhausted'],
    },
  ]);
});

test('the nearest rules are named, with their missing conditions', (t) => {
  const policy = policyOf([puppet, other]);
  const nearest = (question: Question): unknown =>
    explain(question, policy).nearest.map(({ rule, obstacles }) => [rule, ...obstacles]);
  t.deepEqual(nearest(signalQuestion('jenkins-1', 'infra/puppet/requested', {})), [
    ['puppet', 'the data of the event does not match the schema'],
  ]);
  t.deepEqual(nearest(signalQuestion('db1', 'infra/puppet/requested', { env: 1 })), [
    ['puppet', 'the rule applies to other subjects'],
  ]);
  t.deepEqual(nearest(signalQuestion('web1', 'my/')), []);
});

test('a decision by a rule needs no other rule as explanation', (t) => {
  const no = deny('no', { subject: { minion: '*' }, action: 'signal', resource: { tag: 'my/*' } });
  const { decision, nearest } = explain(signalQuestion('web1', 'my/tag'), policyOf([other, no]));
  t.is(decision.rule, 'no');
  t.deepEqual(nearest, []);
});

function lint(rules: readonly PolicyRule[], ids?: readonly string[]): readonly string[][] {
  return lintPolicy(policyOf(rules), ids).map(({ kind, rule }) => [kind, rule]);
}

const anySignal = { subject: { minion: '*' }, action: 'signal' } as const;

test('rules with an effect are not named', (t) => {
  t.deepEqual(lint([puppet, other], ['jenkins-1', 'web1']), []);
  t.deepEqual(lint([puppet, other]), []);
});

test('rules without an effect are named', (t) => {
  const wide = allow('wide', { ...anySignal, resource: { tag: 'my/*' } });
  t.deepEqual(lint([other], ['db1']), [['matches-no-minion', 'other']]);
  t.deepEqual(lint([wide, other]), [['redundant', 'other']]);
  t.deepEqual(lint([wide, { ...wide, name: 'again' }]), [['redundant', 'again']]);
  t.deepEqual(lint([deny('no', { ...anySignal, resource: { tag: '*' } }), other]), [
    ['unreachable', 'other'],
  ]);
  t.deepEqual(lint([{ ...wide, expires: '1969-01-01' }]), [['expired', 'wide']]);
  for (const tag of ['salt/auth', 'salt/job/*', 'salt/auth/*', 'key']) {
    t.deepEqual(
      lint([allow('own', { ...anySignal, resource: { tag } })]),
      [['unreachable', 'own']],
      tag,
    );
  }
  t.deepEqual(lint([allow('wide', { ...anySignal, resource: { tag: 'salt/*' } })]), []);
});

test('a rule that is partly denied by another one is named', (t) => {
  const wide = allow('wide', { ...anySignal, resource: { tag: 'my/*' } });
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

test('globs that match a common text intersect', (t) => {
  const piece = fc.constantFrom('a', 'b', '/', '?', '*', '[ab]');
  const glob = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
  const text = fc.array(fc.constantFrom('a', 'b', '/'), { maxLength: 6 }).map((it) => it.join(''));
  fc.assert(
    fc.property(glob, glob, text, (left, right, it) => {
      const isCommon = compileGlob(left)(it) && compileGlob(right)(it);
      return !isCommon || globsOverlap(left, right);
    }),
    tries(500),
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

test('a rule with a condition does not make another one redundant', (t) => {
  const limited = allow('limited', { ...anySignal, resource: { tag: 'my/*' }, rate: '1/day' });
  const small = allow('small', { ...anySignal, resource: { tag: 'my/*', bytes: 5 } });
  const pillar = allow('pillar', {
    ...anySignal,
    subject: { pillar: 'a:b' },
    resource: { tag: 'my/*' },
  });
  const plain = { ...other, name: 'plain' };
  for (const rule of [limited, small, pillar]) t.deepEqual(lint([rule, plain]), [], rule.name);
});

// Properties of every policy: the optimized decision equals the plain one, and a rule that denies
// never permits more.

const names = ['web1', 'web2', 'db1', 'w', ''];
const funs = ['test.ping', 'test.echo', 'cmd.run', 'state.apply', 'testXping'];
const tags = [
  'my/tag',
  'my/other',
  'my',
  'infra/web1/done',
  'infra/web2/done',
  'infra/web1/app17/failed',
  'infra/web2/app18/failed',
  'x',
  'm[y/tag',
];

const roles = ['member', 'admin'];
const domains = ['Default', 'web1'];

const name = fc.constantFrom(...names);
const somePatterns = (texts: readonly string[]): fc.Arbitrary<TextPatterns> => {
  const one = fc.oneof(
    fc.constantFrom(...texts),
    fc.constantFrom('*', 'w*', 't*', 'test.*', '*.run', 'my/*', '*1', 'te?t.ping', '[cs]*'),
    fc.constantFrom('.*', 'test\\..*', 'test.ping', 'w.*|db1', 'x').map((regex) => ({ regex })),
  );
  return fc.oneof(one, fc.array(one, { minLength: 1, maxLength: 3 }));
};

const subjectPattern = fc.oneof(
  fc.record({ minion: somePatterns(names) }),
  fc.record({ minion: somePatterns(names), except: somePatterns(names) }),
  fc.record({ user: somePatterns(names) }),
  fc.record({ group: somePatterns(['ops', 'dev']) }),
  fc.record({ service: somePatterns(names) }),
  fc.record(
    {
      project: somePatterns(names),
      role: somePatterns(roles),
      domain: somePatterns(domains),
      user: somePatterns(names),
      except: somePatterns(names),
    },
    { requiredKeys: ['role'] },
  ),
);

const argumentPattern = fc.record({
  args: fc.array(fc.constantFrom(null, 'a', '*', { regex: 'a|b' }), { maxLength: 2 }),
});

const publishRule = fc
  .record({
    effect: fc.constantFrom('allow', 'deny'),
    subject: subjectPattern,
    fun: somePatterns(funs),
    conditions: fc.option(fc.array(argumentPattern, { minLength: 1, maxLength: 2 })),
    within: fc.option(fc.constantFrom('web*', 'db*')),
  })
  .map(({ effect, subject, fun, conditions, within }): PolicyRule => {
    const resource = {
      fun,
      ...(conditions === null ? {} : { arguments: conditions }),
      ...(within === null ? {} : { within }),
    };
    const rule = { subject, action: 'publish', resource } as const;
    return effect === 'allow' ? allow('a', rule) : deny('d', rule);
  });

const signalRule = fc
  .record({
    effect: fc.constantFrom('allow', 'deny'),
    subject: subjectPattern,
    tag: fc.constantFrom(
      ...tags.filter((tag) => !tag.includes('[')),
      ...['my/*', 'm*', '*a*', '*/done', '*app1?*', '*[/]app17/*', '*/app17/failed', 'm[!/]/*'],
      ...['m[y/*', 'm[[]y*', 'm[]]y/tag', 'm[y]/t*', '?nfra/*/*/*', '*infra*failed*'],
      ...[`infra/\${minion.id}/*`, `\${minion.id}x`, `infra/\${minion.id}/app17/*`],
      ...[`infra/\${minion.id}/app1[78]/failed`, `infra/\${minion.id}/done`],
    ),
  })
  .map(({ effect, subject, tag }): PolicyRule => {
    const rule = { subject, action: 'signal', resource: { tag } } as const;
    return effect === 'allow' ? allow('a', rule) : deny('d', rule);
  });

const rules = fc.array(fc.oneof(publishRule, signalRule), { maxLength: 12 });

/** Generates entities of Keystone whose ids may match patterns. */
const entity: fc.Arbitrary<KeystoneEntity> = fc
  .record({ id: fc.constantFrom('0a', 'x'), name, domain: fc.constantFrom(...domains) })
  .map(({ domain, ...it }) => ({ ...it, domain: { id: domain.toLowerCase(), name: domain } }));

const subject: fc.Arbitrary<Subject> = fc.oneof(
  name.map((id): Subject => ({ kind: 'minion', id })),
  fc
    .record({ name, groups: fc.subarray(['ops', 'dev']) })
    .map((user): Subject => ({ kind: 'user', ...user })),
  name.map((it): Subject => ({ kind: 'service', name: it })),
  fc
    .record({ project: entity, user: entity, roles: fc.subarray(roles) })
    .map((it): Subject => ({ kind: 'project', ...it })),
);

const call: fc.Arbitrary<Call> = fc
  .record({
    fun: fc.constantFrom(...funs),
    args: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 2 }),
  })
  .map((it) => ({ ...it, kwargs: new Map() }));

const question: fc.Arbitrary<Question> = fc.oneof(
  fc
    .record({
      subject,
      calls: fc.array(call, { maxLength: 3 }),
      minions: fc.subarray(['web1', 'db1', 'x1']),
    })
    .map(
      ({ calls, minions, ...it }): Question => ({
        ...it,
        action: 'publish',
        resource: { calls, minions },
      }),
    ),
  fc.record({ subject, tag: fc.constantFrom(...tags) }).map(
    ({ tag, ...it }): Question => ({
      ...it,
      action: 'signal',
      resource: { tag, wasPublishedToSubject: () => false },
    }),
  ),
);

/** Returns the decision without any index or cache. */
function plainEffect(all: readonly PolicyRule[], asked: Question): 'allow' | 'deny' {
  const applies = (rule: PolicyRule, one: Call | string, on: string | undefined): boolean =>
    rule.action === asked.action && isAbout(rule, asked.subject) && meets(rule, asked, one, on);
  const things: readonly (Call | string)[] =
    asked.action === 'publish'
      ? asked.resource.calls
      : asked.action === 'signal'
        ? [asked.resource.tag]
        : [];
  const minions = asked.action === 'publish' ? (asked.resource.minions ?? []) : [undefined];
  const has = (effect: string, one: Call | string, on: string | undefined): boolean =>
    all.some((rule) => rule.effect === effect && applies(rule, one, on));
  const isPermitted = things.every((one) =>
    minions.every((on) => !has('deny', one, on) && has('allow', one, on)),
  );
  return things.length > 0 && minions.length > 0 && isPermitted ? 'allow' : 'deny';
}

function isAbout({ effect, subject: pattern }: PolicyRule, asked: Subject): boolean {
  const { minion, user, group, service, except } = pattern;
  if (asked.kind === 'project') return isAboutProject(effect, pattern, asked);
  const own = asked.kind === 'minion' ? asked.id : asked.name;
  if (except !== undefined && matches(except, own)) return false;
  if (asked.kind === 'minion') return minion !== undefined && matches(minion, own);
  if (asked.kind === 'service') return service !== undefined && matches(service, own);
  if (asked.kind !== 'user' || pattern.role !== undefined) return false;
  if (user !== undefined) return matches(user, own);
  return group !== undefined && asked.groups.some((it) => matches(group, it));
}

function isAboutProject(
  effect: PolicyRule['effect'],
  { project = '*', role, user, domain, except = [] }: PolicyRule['subject'],
  asked: ProjectSubject,
): boolean {
  const domains = domain ?? (effect === 'deny' ? '*' : 'Default');
  const means = (patterns: TextPatterns, it: { readonly id: string; readonly name: string }) =>
    matches(patterns, it.id) || matches(patterns, it.name);
  const isUser = (patterns: TextPatterns): boolean =>
    means(patterns, asked.user) && means(domains, asked.user.domain);
  return (
    role !== undefined &&
    asked.roles.some((it) => matches(role, it)) &&
    means(project, asked.project) &&
    means(domains, asked.project.domain) &&
    (user === undefined || isUser(user)) &&
    !means(except, asked.project)
  );
}

function meets(
  rule: PolicyRule,
  asked: Question,
  one: Call | string,
  on: string | undefined,
): boolean {
  if (rule.action === 'signal' && typeof one === 'string') {
    const { tag } = rule.resource;
    if (!tag.includes('$')) return matches(tag, one);
    if (asked.subject.kind !== 'minion' || asked.subject.id === '') return false;
    // The ids in this test contain no wildcards.
    return matches(tag.replaceAll(`\${minion.id}`, asked.subject.id), one);
  }
  if (rule.action !== 'publish' || asked.action !== 'publish' || typeof one === 'string')
    return false;
  const { fun, within, arguments: conditions } = rule.resource;
  const isMet = ({ args = [] }: { readonly args?: readonly unknown[] }): boolean =>
    args.every((pattern, index) => {
      const given = one.args[index];
      return given !== undefined && (pattern === null || matches(pattern as TextPatterns, given));
    });
  return (
    matches(fun, one.fun) &&
    (within === undefined || matches(within, on ?? '')) &&
    (conditions === undefined || conditions.some(isMet))
  );
}

function matches(patterns: TextPatterns, text: string): boolean {
  return [patterns]
    .flat()
    .some((pattern) =>
      typeof pattern === 'string'
        ? compileGlob(pattern)(text)
        : compileWholePattern((pattern as { readonly regex: string }).regex)(text),
    );
}

const manyTries = tries(300);

test('the fast decision equals the reference decision', (t) => {
  const property = fc.property(rules, fc.array(question, { maxLength: 4 }), (all, questions) => {
    const policy = policyOf(all);
    for (const asked of questions) t.is(decide(asked, policy).effect, plainEffect(all, asked));
  });
  fc.assert(property, manyTries);
});

test('adding a rule that denies, or removing one that allows, never permits more', (t) => {
  const property = fc.property(rules, fc.nat(), question, (all, at, asked) => {
    const full = decide(asked, policyOf(all)).effect;
    const chosen = all[at % Math.max(1, all.length)];
    const without = policyOf(all.filter((rule) => rule !== chosen));
    const fewer = decide(asked, without).effect;
    if (chosen?.effect === 'allow' && full === 'deny') t.is(fewer, 'deny');
    if (chosen?.effect === 'deny' && full === 'allow') t.is(fewer, 'allow');
  });
  fc.assert(property, manyTries);
});

test('decisions depend neither on the order of rules nor on earlier requests', (t) => {
  const property = fc.property(rules, fc.array(question, { maxLength: 6 }), (all, questions) => {
    const [forwards, backwards] = [policyOf(all), policyOf([...all].reverse())];
    for (const asked of [...questions, ...questions.reverse()]) {
      t.is(decide(asked, forwards).effect, decide(asked, backwards).effect);
    }
  });
  fc.assert(property, tries(100));
});

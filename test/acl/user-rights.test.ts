/** `publisher_acl`, `publisher_acl_blacklist` and `external_auth` as rules. */
import test from 'ava';
import {
  type Call,
  decide,
  type Question,
  readUserRights,
  type Subject,
  type UserRightOptions,
} from '../../acl/index.ts';
import { compileWholePattern } from '../../minion-protocol/index.ts';
import { policyOf } from '../helpers/policies.ts';

const none: UserRightOptions = {
  publisherAcl: {},
  publisherAclBlacklist: {},
  externalAuth: {},
  permissiveAcl: false,
};

interface Asked {
  readonly action?: 'publish' | 'runner' | 'wheel';
  readonly args?: readonly string[];
  readonly on?: readonly string[];
}

function asker(options: Partial<UserRightOptions>) {
  const { rules } = readUserRights({ ...none, ...options }, compileWholePattern);
  const policy = policyOf(rules);
  return (
    subject: Subject,
    fun: string,
    { action = 'publish', args = [], on = ['db1'] }: Asked = {},
  ) => {
    const calls = fun.split(',').map((one): Call => ({ fun: one, args, kwargs: new Map() }));
    const [first = { fun: '', args: [], kwargs: new Map() }] = calls;
    const question: Question =
      action === 'publish'
        ? { subject, action, resource: { calls, minions: on } }
        : { subject, action, resource: { call: first } };
    return decide(question, policy).effect;
  };
}

function user(name: string, eauth?: string, ...groups: readonly string[]): Subject {
  return { kind: 'user', name, groups, ...(eauth === undefined ? {} : { eauth }) };
}

test('functions are permitted anywhere, or on minions that a target means', (t) => {
  const ask = asker({
    publisherAcl: {
      fred: [
        'test\\..*',
        { 'web*': ['state.apply', { 'service.restart': [{ args: ['nginx'] }] }] },
      ],
    },
  });
  const fred = user('fred');
  t.is(ask(fred, 'test.ping'), 'allow');
  t.is(ask(fred, 'state.apply'), 'deny');
  t.is(ask(fred, 'state.apply', { on: ['web1'] }), 'allow');
  t.is(ask(fred, 'service.restart', { on: ['web1'], args: ['nginx'] }), 'allow');
  t.is(ask(fred, 'service.restart', { on: ['web1'], args: ['sshd'] }), 'deny');
  t.is(ask(user('ann'), 'test.ping'), 'deny');
  t.is(ask({ kind: 'minion', id: 'fred' }, 'test.ping'), 'deny');
});

test('expressions mean whole functions, and each of several must be permitted', (t) => {
  const ask = asker({ publisherAcl: { fred: ['test.ping'] } });
  t.is(ask(user('fred'), 'test.ping'), 'allow');
  t.is(ask(user('fred'), 'test.ping_all'), 'deny');
  t.is(ask(user('fred'), 'test.ping,cmd.run'), 'deny');
});

test('a function that runs any other is permitted by its name, and by no pattern', (t) => {
  const single = (...granted: readonly unknown[]): string => {
    const ask = asker({ externalAuth: { pam: { fred: granted } } });
    return ask(user('fred', 'pam'), 'state.orchestrate_single', { action: 'runner' });
  };
  t.is(single('.*', '@runner', '@wheel'), 'deny');
  t.is(single('@state'), 'deny');
  t.is(single({ '@runner': ['state.*', 'state.orchestrate_singl.'] }), 'deny');
  t.is(single({ '@runner': ['state.orchestrate_single'] }), 'allow');
  t.is(single({ '@state': ['orchestrate_single'] }), 'allow');
  const ask = asker({ externalAuth: { pam: { fred: ['@runner'] } } });
  t.is(ask(user('fred', 'pam'), 'state.orchestrate', { action: 'runner' }), 'allow');
});

test('what is named in place of a user is a pattern, and what a user is named is none', (t) => {
  const ask = asker({ publisherAcl: { 'ops-.*': ['test.ping'], 'dev?': ['test.ping'] } });
  t.is(ask(user('ops-ann'), 'test.ping'), 'allow');
  t.is(ask(user('dev1'), 'test.ping'), 'allow');
  t.is(ask(user('.*'), 'test.ping'), 'deny');
  t.is(ask(user('*'), 'test.ping'), 'deny');
});

test('the blacklist forbids what others permit', (t) => {
  const ask = asker({
    publisherAcl: { '.*': ['.*'] },
    publisherAclBlacklist: { users: ['root', '*_'], modules: ['cmd.*', 'test.fib'] },
  });
  t.is(ask(user('fred'), 'test.ping'), 'allow');
  t.is(ask(user('root'), 'test.ping'), 'deny');
  t.is(ask(user('fred'), 'cmd.run'), 'deny');
  t.is(ask(user('fred'), 'test.ping,test.fib'), 'deny');
});

test('what is forbidden by an expression that cannot be read is forbidden to all', (t) => {
  const publisherAcl = { fred: ['.*'] };
  for (const publisherAclBlacklist of [
    { users: ['^(?!sudo_).*$'] },
    { modules: ['(?!test)'] },
    { users: ['('] },
  ]) {
    const { warnings } = readUserRights({ ...none, publisherAclBlacklist }, compileWholePattern);
    t.is(warnings.length, 1);
    t.is(asker({ publisherAcl, publisherAclBlacklist })(user('fred'), 'test.ping'), 'deny');
  }
  const externalAuth = { pam: { '^(?!sudo_)': ['test.ping'], '(?!x)y': [], '*': ['test.echo'] } };
  t.is(asker({ externalAuth })(user('fred', 'pam'), 'test.echo'), 'deny');
});

test('runners and wheel functions need entries of their own', (t) => {
  const ask = asker({
    externalAuth: {
      pam: {
        fred: ['.*', '@jobs', { '@runner': ['manage.up'] }, { '@wheel': ['key\\.list.*'] }],
        ann: ['@runner', { '@cache': ['grains', 'pill.*'] }],
      },
    },
  });
  const runner = { action: 'runner' } as const;
  const wheel = { action: 'wheel' } as const;
  const fred = user('fred', 'pam');
  t.is(ask(fred, 'manage.up', runner), 'allow');
  t.is(ask(fred, 'manage.down', runner), 'deny');
  t.is(ask(fred, 'jobs.list_jobs', runner), 'allow');
  t.is(ask(fred, 'jobs2.list_jobs', runner), 'deny');
  t.is(ask(fred, 'key.list_all', wheel), 'allow');
  t.is(ask(fred, 'key.delete', wheel), 'deny');
  const ann = user('ann', 'pam');
  t.is(ask(ann, 'anything.at_all', runner), 'allow');
  t.is(ask(ann, 'key.delete', wheel), 'deny');
  t.is(ask(ann, 'cache.grains', wheel), 'allow');
  t.is(ask(ann, 'cache.pillar', wheel), 'allow');
  t.is(ask(ann, 'cache.grains2', wheel), 'deny');
  t.is(ask(ann, 'test.ping'), 'deny');
});

test('grants hold for whom that back end has authenticated, and for groups that it vouches for', (t) => {
  const ask = asker({ externalAuth: { pam: { fred: ['test.ping'], 'ops%': ['cmd.run'] } } });
  t.is(ask(user('fred', 'pam'), 'test.ping'), 'allow');
  t.is(ask(user('fred', 'ldap'), 'test.ping'), 'deny');
  t.is(ask(user('fred'), 'test.ping'), 'deny');
  t.is(ask(user('fred', 'pam', 'ops'), 'cmd.run'), 'allow');
  t.is(ask(user('ops', 'pam'), 'cmd.run'), 'deny');
});

test('what is granted to * is for those without grants of their own, unless permissive_acl', (t) => {
  const externalAuth = { pam: { fred: ['test.ping'], '*': ['test.echo'] } };
  for (const permissiveAcl of [false, true]) {
    const ask = asker({ externalAuth, permissiveAcl });
    t.is(ask(user('ann', 'pam'), 'test.echo'), 'allow');
    t.is(ask(user('fred', 'pam'), 'test.ping'), 'allow');
    t.is(ask(user('fred', 'pam'), 'test.echo'), permissiveAcl ? 'allow' : 'deny');
  }
});

test('what cannot be read permits nothing and is told, and the rest holds', (t) => {
  const externalAuth = {
    pam: { fred: ['(', 7, { a: ['x'], b: ['y'] }, '@no.module', 'test.ping'], '^filename': '/u' },
    ldap: ['fred'],
  };
  const { warnings, rules } = readUserRights({ ...none, externalAuth }, compileWholePattern);
  t.deepEqual(
    warnings.map(({ path }) => path.join(':')),
    [...Array(4).fill('external_auth:pam:fred'), 'external_auth:ldap'],
  );
  t.is(rules.length, 1);
  t.is(asker({ externalAuth })(user('fred', 'pam'), 'test.ping'), 'allow');
});

test('a runner entry without a list is told', (t) => {
  const publisherAcl = { fred: ['@runner', '@wheel', '@jobs'] };
  const { warnings } = readUserRights({ ...none, publisherAcl }, compileWholePattern);
  t.is(warnings.length, 2);
  t.regex(warnings[0]?.text ?? '', /@runner without a list permits every runner/);
});

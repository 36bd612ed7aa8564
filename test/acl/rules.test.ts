/** Tests of the policy language: the meaning of rules, and the rules that are rejected. */

import test from 'ava';
import {
  allow,
  type Call,
  type Decision,
  decide,
  deny,
  type Grant,
  grantRules,
  type MinionTest,
  type Policy,
  PolicyError,
  type PolicyRule,
  parseGrants,
  parseRule,
  type Question,
  reachOf,
  readUserRights,
  type Subject,
  type UserRightOptions,
} from '#acl';
import { resolveMasterConfig, rulesOf } from '#config';
import { compileWholePattern } from '#minion-protocol';
import { type PolicyFixture, policyOf } from '../helpers/policies.ts';

interface Signal {
  readonly subject?: Subject;
  readonly data?: unknown;
  readonly bytes?: number;
}

const web1: Subject = { kind: 'minion', id: 'web1' };

function asker(rules: readonly PolicyRule[], world: PolicyFixture = {}) {
  const policy = policyOf(rules, world);
  return (tag: string, { subject = web1, data, bytes = 0 }: Signal = {}): Decision =>
    decide(
      {
        subject,
        action: 'signal',
        resource: { tag, data, bytes: () => bytes, wasPublishedToSubject: () => false },
      },
      policy,
    );
}

function minion(id: string): { readonly subject: Subject } {
  return { subject: { kind: 'minion', id } };
}

const ask = { subject: { minion: 'web*' }, action: 'signal', resource: { tag: 'my/*' } } as const;

test('a rule that denies overrides all that allow, in any order', (t) => {
  const never = deny('never', { ...ask, resource: { tag: 'my/secret' } });
  for (const rules of [
    [never, allow('may', ask)],
    [allow('may', ask), never],
  ]) {
    const signal = asker(rules);
    t.is(signal('my/secret').rule, 'never');
    t.is(signal('my/other').rule, 'may');
  }
});

test('a rule that denies also overrides default permissions', (t) => {
  const silent = deny('silent', { ...ask, resource: { tag: '*' } });
  t.is(asker([silent])('minion_ping').rule, 'silent');
  t.is(asker([silent])('minion_ping', minion('db1')).effect, 'allow');
});

test('a rule names the place of its definition', (t) => {
  const origin = { file: '/etc/salt/master', line: 7 };
  const rule = parseRule('may', ask, origin);
  t.deepEqual(asker([rule])('my/tag').origin, origin);
});

test('a denial states the condition that a matching rule does not meet', (t) => {
  const rule = allow('small', { ...ask, resource: { tag: 'my/*', bytes: 10 } });
  const { effect, reason } = asker([rule])('my/tag', { bytes: 11 });
  t.is(effect, 'deny');
  t.regex(reason, /small: the event is larger than 10 bytes/);
  t.is(asker([rule])('my/tag', { bytes: 10 }).effect, 'allow');
});

test('a placeholder is replaced by the id of the sender, which is never a pattern', (t) => {
  const tag = `deploy/\${minion.id}/*`;
  const signal = asker([allow('own', { ...ask, subject: { minion: '*' }, resource: { tag } })]);
  t.is(signal('deploy/web1/done').effect, 'allow');
  t.is(signal('deploy/web2/done').effect, 'deny');
  t.is(signal('deploy/web2/done', minion('*')).effect, 'deny');
  t.is(signal('deploy/*/done', minion('*')).effect, 'allow');
  t.is(signal('deploy/web1').effect, 'deny');
});

test('a placeholder is replaced by a text in the pillar of the sender, and matches nothing without one', (t) => {
  const tag = `infra/\${pillar:stack:name}/\${minion.id}`;
  const world = { pillar: { web1: { 'stack:name': 'blue' }, web2: { 'stack:name': '' } } };
  const signal = asker([allow('stack', { ...ask, resource: { tag } })], world);
  t.is(signal('infra/blue/web1').effect, 'allow');
  t.is(signal('infra/red/web1').effect, 'deny');
  t.is(signal('infra//web2', minion('web2')).effect, 'deny');
  t.is(signal('infra/undefined/web3', minion('web3')).effect, 'deny');
});

test('a rate applies to each minion separately, and refills', (t) => {
  let now = 0;
  const rule = allow('rarely', { ...ask, rate: '2/minute' });
  const signal = asker([rule], { now: () => now });
  const effects = (): string[] => ['my/a', 'my/b', 'my/c'].map((tag) => signal(tag).effect);
  t.deepEqual(effects(), ['allow', 'allow', 'deny']);
  t.is(signal('my/a', minion('web2')).effect, 'allow');
  now = 30_000;
  t.deepEqual(effects(), ['allow', 'deny', 'deny']);
});

test('a repeated question neither counts towards a rate, nor is denied because of it', (t) => {
  const policy = policyOf([allow('once', { ...ask, rate: '1/minute' })]);
  const resource = { tag: 'my/a', wasPublishedToSubject: () => false };
  const effect = (isRepeated?: boolean): string => {
    const question = { subject: web1, action: 'signal', resource } as const;
    return decide(isRepeated === undefined ? question : { ...question, isRepeated }, policy).effect;
  };
  t.deepEqual([true, undefined, true, false, true].map(effect), [
    ...['allow', 'allow', 'allow'],
    ...['deny', 'allow'],
  ]);
});

test('a query of the mine counts once towards a rate, for any number of minions', (t) => {
  const rule = allow('once', {
    subject: { minion: '*' },
    action: 'mine',
    resource: { fun: 'network.*' },
    rate: '1/minute',
  });
  const policy = policyOf([rule]);
  const ask = (owner?: string): string => {
    const resource = { fun: 'network.ip_addrs', ...(owner === undefined ? {} : { owner }) };
    return decide({ subject: web1, action: 'mine', resource }, policy).effect;
  };
  t.deepEqual([undefined, 'web2', 'web3'].map(ask), ['allow', 'allow', 'allow']);
  const asked = { subject: web1, action: 'mine', fun: 'network.ip_addrs' } as const;
  t.true(reachOf(asked, policy).includes('web2'));
  t.is(ask(), 'deny');
});

test('a rate counts each function of a job', (t) => {
  const rule = allow('once', {
    subject: { minion: '*' },
    action: 'publish',
    resource: { fun: 'test.*' },
    rate: '1/minute',
  });
  const call = (fun: string): Call => ({ fun, args: [], kwargs: new Map() });
  const publish = (...funs: readonly string[]): string => {
    const resource = { calls: funs.map(call), minions: ['web2'] };
    return decide({ subject: web1, action: 'publish', resource }, policyOf([rule])).effect;
  };
  t.is(publish('test.ping'), 'allow');
  t.is(publish('test.ping', 'test.echo'), 'deny');
});

test('the decision names the first of several rules that permit', (t) => {
  const named = (tag: string, minion: string): PolicyRule =>
    allow(`${tag} ${minion}`, { ...ask, subject: { minion }, resource: { tag } });
  const rules = ['my/tag', 'my/*', 'm*'].flatMap((tag) =>
    ['*', 'web*'].map((it) => named(tag, it)),
  );
  for (const [index, { name }] of rules.entries()) {
    t.is(asker([...rules.slice(index), ...rules.slice(0, index)])('my/tag').rule, name);
  }
});

test('a rule about the mine of one minion does not apply to others', (t) => {
  const mine = { subject: { minion: '*' }, action: 'mine' } as const;
  const read = (rules: readonly PolicyRule[], owner?: string): string => {
    const resource = { fun: 'test.id', ...(owner === undefined ? {} : { owner }) };
    return decide({ subject: web1, action: 'mine', resource }, policyOf(rules)).effect;
  };
  const some = [allow('db', { ...mine, resource: { fun: '*', owner: 'db*' } })];
  t.deepEqual([read(some), read(some, 'db1'), read(some, 'web2')], ['allow', 'allow', 'deny']);
  const notDb = [
    allow('all', { ...mine, resource: { fun: '*' } }),
    deny('no db', { ...mine, resource: { fun: '*', owner: 'db*' } }),
  ];
  t.deepEqual([read(notDb), read(notDb, 'db1'), read(notDb, 'web2')], ['allow', 'deny', 'allow']);
});

test('a rule expires at its time', (t) => {
  let now = Date.parse('2026-12-31T23:59:59Z');
  const rule = allow('until', { ...ask, expires: '2027-01-01' });
  const signal = asker([rule], { now: () => now });
  t.is(signal('my/tag').effect, 'allow');
  now += 1000;
  t.is(signal('my/tag').effect, 'deny');
});

const grainsOf: Readonly<Record<string, string>> = { web1: 'os:Debian', web2: 'os:Fedora' };

/**
 * Compiles a target. Minions report their grains themselves. `front` is a nodegroup with web1.
 * Nothing is known about web3.
 */
function target(tgt: string, tgtType: string): MinionTest {
  const says = (id: string): boolean =>
    tgtType === 'grain' ? grainsOf[id] === tgt : id === 'web1';
  return {
    isEntitled: (id) => tgtType !== 'grain' && says(id),
    claims: says,
    mayMean: (id) => says(id) || (tgtType === 'grain' && grainsOf[id] === undefined),
  };
}

test('grains restrict a rule that allows', (t) => {
  const subject = { minion: 'web*', grain: 'os:Debian' };
  const signal = asker([allow('debian', { ...ask, subject })], { target });
  t.is(signal('my/tag').effect, 'allow');
  t.is(signal('my/tag', minion('web2')).effect, 'deny');
  t.is(signal('my/tag', minion('web3')).effect, 'deny');
});

test('a minion without reported grains cannot escape a rule that denies', (t) => {
  const no = deny('not on Fedora', { ...ask, subject: { grain: 'os:Fedora' } });
  const signal = asker([allow('may', ask), no], { target });
  t.is(signal('my/tag').effect, 'allow');
  t.is(signal('my/tag', minion('web2')).rule, 'not on Fedora');
  t.is(signal('my/tag', minion('web3')).rule, 'not on Fedora');
});

test('pillar and nodegroups give rights', (t) => {
  const signal = asker([allow('front', { ...ask, subject: { nodegroup: 'front' } })], { target });
  t.is(signal('my/tag').effect, 'allow');
  t.is(signal('my/tag', minion('web2')).effect, 'deny');
});

test('a rule about users does not apply to a minion of that name, and vice versa', (t) => {
  const subject: Subject = { kind: 'user', name: 'web1', groups: ['ops'], eauth: 'pam' };
  const forUsers = asker([allow('user', { ...ask, subject: { user: 'web*' } })]);
  t.is(forUsers('my/tag').effect, 'deny');
  t.is(forUsers('my/tag', { subject }).effect, 'allow');
  t.is(asker([allow('minion', ask)])('my/tag', { subject }).effect, 'deny');
  const byGroup = asker([allow('ops', { ...ask, subject: { group: 'ops', eauth: 'pam' } })]);
  t.is(byGroup('my/tag', { subject }).effect, 'allow');
  t.is(byGroup('my/tag', { subject: { ...subject, eauth: 'ldap' } }).effect, 'deny');
  t.is(byGroup('my/tag', { subject: { ...subject, groups: ['dev'] } }).effect, 'deny');
});

test('services and tokens are distinguished', (t) => {
  const signal = asker([allow('heat', { ...ask, subject: { service: 'heat' } })]);
  t.is(signal('my/tag', { subject: { kind: 'service', name: 'heat' } }).effect, 'allow');
  t.is(signal('my/tag', { subject: { kind: 'token', name: 'heat' } }).effect, 'deny');
});

for (const [name, rule] of Object.entries({
  'an unknown field': { ...ask, tag: 'my/tag' },
  'an unknown field of the resource': { ...ask, resource: { tag: 'my/tag', fun: 'x' } },
  'no action': { subject: ask.subject, resource: ask.resource },
  'an unknown action': { ...ask, action: 'singal' },
  'a number for a tag': { ...ask, resource: { tag: 7 } },
  'no map': ['my/tag'],
})) {
  test(`a rule with ${name} is refused`, (t) => {
    const error = t.throws(() => parseRule('bad', rule), { instanceOf: PolicyError });
    t.is(error?.code, 'ERR_POLICY_FORM');
    t.is(error?.rule, 'bad');
  });
}

for (const [code, name, rule] of [
  ['ERR_POLICY_FORM', 'nobody', { ...ask, subject: {} }],
  ['ERR_POLICY_FORM', 'users and minions', { ...ask, subject: { minion: '*', user: '*' } }],
  ['ERR_POLICY_FORM', 'a rate on what it denies', { ...ask, effect: 'deny', rate: '1/day' }],
  ['ERR_POLICY_UNTRUSTED', 'grains alone', { ...ask, subject: { grain: 'os:Debian' } }],
  ['ERR_POLICY_PATTERN', 'every tag', { ...ask, resource: { tag: '*' } }],
  [
    'ERR_POLICY_PATTERN',
    'a wildcard before a placeholder',
    { ...ask, resource: { tag: `*/\${minion.id}` } },
  ],
  [
    'ERR_POLICY_PATTERN',
    'an unknown placeholder',
    { ...ask, resource: { tag: `my/\${grain:os}` } },
  ],
  ['ERR_POLICY_PATTERN', 'an unreadable rate', { ...ask, rate: 'often' }],
  ['ERR_POLICY_PATTERN', 'an unreadable time', { ...ask, expires: 'tomorrow' }],
  ['ERR_POLICY_PATTERN', 'a broken expression', { ...ask, subject: { minion: { regex: '(' } } }],
  ['ERR_POLICY_PATTERN', 'lookaround', { ...ask, subject: { minion: { regex: 'a(?!b)' } } }],
] as const) {
  test(`a rule with ${name} is refused before it applies`, (t) => {
    const parse = (): unknown => policyOf([parseRule('bad', rule)]);
    t.is(t.throws(parse, { instanceOf: PolicyError })?.code, code);
  });
}

// Tests of grants in `peer`, `peer_run` and `mine_get`.

function grants(value: unknown, mapKey: 'function' | 'target' = 'target'): Grant[] {
  return parseGrants(value, { compile: compileWholePattern, mapKey });
}

function granted(option: 'peer' | 'peer_run', value: unknown): Policy {
  const [action, mapKey] =
    option === 'peer' ? (['publish', 'target'] as const) : (['runner', 'function'] as const);
  return policyOf(grantRules(option, action, grants(value, mapKey)));
}

function call(fun: string, args: string[] = [], kwargs: Record<string, string> = {}): Call {
  return { fun, args, kwargs: new Map(Object.entries(kwargs)) };
}

function publish(
  peer: unknown,
  calls: readonly Call[],
  { id = 'web1', on = ['other1'] }: { id?: string; on?: readonly string[] } = {},
): Decision {
  return decide(
    {
      subject: { kind: 'minion', id },
      action: 'publish',
      resource: { calls, minions: on },
    },
    granted('peer', peer),
  );
}

test('a minion may publish nothing unless a rule permits it', (t) => {
  t.is(publish({}, [call('test.ping')]).effect, 'deny');
  t.is(publish({ '.*': [] }, [call('test.ping')]).effect, 'deny');
  t.is(publish({ 'web.*': ['test.*'] }, [call('test.ping')]).effect, 'allow');
});

test('every function of a list must be permitted', (t) => {
  const peer = { 'web.*': ['test.*'] };
  t.is(publish(peer, [call('test.ping'), call('test.echo')]).effect, 'allow');
  t.is(publish(peer, [call('test.ping'), call('cmd.run')]).effect, 'deny');
  t.is(publish(peer, []).effect, 'deny');
});

test('expressions match whole ids and functions', (t) => {
  t.is(publish({ web1: ['test.ping'] }, [call('test.ping')]).effect, 'allow');
  t.is(publish({ web1: ['test.ping'] }, [call('test.ping')], { id: 'web10' }).effect, 'deny');
  t.is(publish({ web1: ['test.ping'] }, [call('test.ping_all')]).effect, 'deny');
  t.is(publish({ web1: ['a|test.ping'] }, [call('test.pings')]).effect, 'deny');
});

test('publish functions are never published, despite any rule', (t) => {
  const decision = publish({ '.*': ['.*'] }, [call('test.ping'), call('publish.publish')]);
  t.is(decision.effect, 'deny');
  t.is(decision.rule, 'no-publishing-of-publishing');
});

test('conditions on arguments apply to the named position or keyword', (t) => {
  const peer = {
    web1: [
      { 'L@db1': [{ 'service.restart': { args: ['nginx|redis'], kwargs: { no_block: null } } }] },
    ],
  };
  const allowed = { on: ['db1'] };
  const named = { no_block: 'True' };
  t.is(publish(peer, [call('service.restart', ['nginx'], named)], allowed).effect, 'allow');
  t.is(publish(peer, [call('service.restart', ['nginx'])], allowed).effect, 'deny');
  t.is(publish(peer, [call('service.restart', ['sshd'], named)], allowed).effect, 'deny');
  t.is(publish(peer, [call('service.restart', ['nginx2'], named)], allowed).effect, 'deny');
  t.is(publish(peer, [call('service.restart', [], named)], allowed).effect, 'deny');
});

test('a target in a rule limits the minions of the job', (t) => {
  const peer = { web1: [{ 'db*': ['test.ping'] }] };
  t.is(publish(peer, [call('test.ping')], { on: ['db2'] }).effect, 'allow');
  t.is(publish(peer, [call('test.ping')]).effect, 'deny');
});

test('one of several conditions is sufficient', (t) => {
  const peer_run = { web1: [{ 'jobs.lookup_jid': [{ args: ['1'] }, { args: ['2'] }] }] };
  const run = (text: string): string =>
    decide(
      {
        subject: { kind: 'minion', id: 'web1' },
        action: 'runner',
        resource: { call: call('jobs.lookup_jid', [text]) },
      },
      granted('peer_run', peer_run),
    ).effect;
  t.deepEqual(['1', '2', '3'].map(run), ['allow', 'allow', 'deny']);
});

test('without mine_get every minion reads the mine, and otherwise only the minions that it names', (t) => {
  const read = (id: string, fun: string, mineGet?: Record<string, unknown>): string =>
    decide(
      { subject: { kind: 'minion', id }, action: 'mine', resource: { fun } },
      policyOf(rulesOf(resolveMasterConfig(mineGet === undefined ? {} : { mineGet }))),
    ).effect;
  t.is(read('web1', 'grains.items'), 'allow');
  const option = { 'web.*': ['network.*'] };
  t.is(read('web1', 'network.ip_addrs', option), 'allow');
  t.is(read('web1', 'grains.items', option), 'deny');
  t.is(read('db1', 'network.ip_addrs', option), 'deny');
  const conditional = { 'web.*': [{ 'network.*': [{ args: ['eth0'] }] }] };
  t.is(read('web1', 'network.ip_addrs', conditional), 'deny');
});

for (const [what, value] of Object.entries({
  'no map': ['.*'],
  'an expression that has an error': { '(': ['.*'] },
  lookaround: { '.*': ['(?!cmd).*'] },
  'two targets in one map': { '.*': [{ a: ['x'], b: ['y'] }] },
  'a function without its conditions': { '.*': [{ a: [{ 'x.y': [] }] }] },
  'an unknown kind of condition': { '.*': [{ a: [{ 'x.y': { arg: ['1'] } }] }] },
  'a number for a function': { '.*': [1] },
})) {
  test(`${what} is refused when rules are read`, (t) => {
    t.throws(() => grants(value), { instanceOf: SyntaxError });
  });
}

// Tests of rules from `publisher_acl`, `publisher_acl_blacklist` and `external_auth`.

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

function userRightsAsker(options: Partial<UserRightOptions>) {
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

test('functions are permitted anywhere, or on minions of a target', (t) => {
  const ask = userRightsAsker({
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

test('publisher_acl grants nothing to users of a backend with the name of an account', (t) => {
  const ask = userRightsAsker({
    publisherAcl: { fred: ['.*', '@runner'], '*': ['test.ping'] },
    publisherAclBlacklist: { modules: ['cmd.*'] },
    externalAuth: { pam: { fred: ['test.version', 'cmd.run'] } },
  });
  t.is(ask(user('fred'), 'test.version'), 'allow');
  t.is(ask(user('fred', 'pam'), 'test.version'), 'allow');
  for (const name of ['fred', 'ann']) {
    t.is(ask(user(name), 'test.ping'), 'allow');
    for (const eauth of ['pam', 'ldap', 'sharedsecret'])
      t.is(ask(user(name, eauth), 'test.ping'), 'deny', eauth);
  }
  t.is(ask(user('fred', 'ldap'), 'jobs.list_jobs', { action: 'runner' }), 'deny');
  t.is(ask(user('fred', 'pam'), 'cmd.run'), 'deny');
});

test('expressions match whole functions, and each of several must be permitted', (t) => {
  const ask = userRightsAsker({ publisherAcl: { fred: ['test.ping'] } });
  t.is(ask(user('fred'), 'test.ping'), 'allow');
  t.is(ask(user('fred'), 'test.ping_all'), 'deny');
  t.is(ask(user('fred'), 'test.ping,cmd.run'), 'deny');
});

test('a function that can run any other is permitted only by its exact name', (t) => {
  const single = (...granted: readonly unknown[]): string => {
    const ask = userRightsAsker({ externalAuth: { pam: { fred: granted } } });
    return ask(user('fred', 'pam'), 'state.orchestrate_single', { action: 'runner' });
  };
  t.is(single('.*', '@runner', '@wheel'), 'deny');
  t.is(single('@state'), 'deny');
  t.is(single({ '@runner': ['state.*', 'state.orchestrate_singl.'] }), 'deny');
  t.is(single({ '@runner': ['state.orchestrate_single'] }), 'allow');
  t.is(single({ '@state': ['orchestrate_single'] }), 'allow');
  const ask = userRightsAsker({ externalAuth: { pam: { fred: ['@runner'] } } });
  t.is(ask(user('fred', 'pam'), 'state.orchestrate', { action: 'runner' }), 'allow');
});

test('a function that changes the states of minions is permitted only by its exact name', (t) => {
  const write = (...granted: readonly unknown[]): string => {
    const ask = userRightsAsker({ externalAuth: { pam: { fred: granted } } });
    return ask(user('fred', 'pam'), 'file_roots.write', { action: 'wheel' });
  };
  t.is(write('.*', '@runner', '@wheel'), 'deny');
  t.is(write({ '@wheel': ['file_roots.*'] }), 'deny');
  t.is(write({ '@wheel': ['file_roots.write'] }), 'allow');
});

test('user names in the configuration are patterns, and the names of users are not', (t) => {
  const ask = userRightsAsker({ publisherAcl: { 'ops-.*': ['test.ping'], 'dev?': ['test.ping'] } });
  t.is(ask(user('ops-ann'), 'test.ping'), 'allow');
  t.is(ask(user('dev1'), 'test.ping'), 'allow');
  t.is(ask(user('.*'), 'test.ping'), 'deny');
  t.is(ask(user('*'), 'test.ping'), 'deny');
});

test('the blacklist overrides permissions', (t) => {
  const ask = userRightsAsker({
    publisherAcl: { '.*': ['.*'] },
    publisherAclBlacklist: { users: ['root', '*_'], modules: ['cmd.*', 'test.fib'] },
  });
  t.is(ask(user('fred'), 'test.ping'), 'allow');
  t.is(ask(user('root'), 'test.ping'), 'deny');
  t.is(ask(user('fred'), 'cmd.run'), 'deny');
  t.is(ask(user('fred'), 'test.ping,test.fib'), 'deny');
});

test('an invalid expression in a blacklist denies everything that it guards', (t) => {
  const publisherAcl = { fred: ['.*'] };
  for (const publisherAclBlacklist of [
    { users: ['^(?!sudo_).*$'] },
    { modules: ['(?!test)'] },
    { users: ['('] },
  ]) {
    const { warnings } = readUserRights({ ...none, publisherAclBlacklist }, compileWholePattern);
    t.is(warnings.length, 1);
    t.is(
      userRightsAsker({ publisherAcl, publisherAclBlacklist })(user('fred'), 'test.ping'),
      'deny',
    );
  }
  const externalAuth = { pam: { '^(?!sudo_)': ['test.ping'], '(?!x)y': [], '*': ['test.echo'] } };
  t.is(userRightsAsker({ externalAuth })(user('fred', 'pam'), 'test.echo'), 'deny');
});

test('runners and wheel functions require their own entries', (t) => {
  const ask = userRightsAsker({
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

test('grants apply to users that the back end authenticated, and to groups that it reports', (t) => {
  const ask = userRightsAsker({
    externalAuth: { pam: { fred: ['test.ping'], 'ops%': ['cmd.run'] } },
  });
  t.is(ask(user('fred', 'pam'), 'test.ping'), 'allow');
  t.is(ask(user('fred', 'ldap'), 'test.ping'), 'deny');
  t.is(ask(user('fred'), 'test.ping'), 'deny');
  t.is(ask(user('fred', 'pam', 'ops'), 'cmd.run'), 'allow');
  t.is(ask(user('ops', 'pam'), 'cmd.run'), 'deny');
});

test('grants to * apply to users without grants of their own, unless permissive_acl is set', (t) => {
  const externalAuth = { pam: { fred: ['test.ping'], '*': ['test.echo'] } };
  for (const permissiveAcl of [false, true]) {
    const ask = userRightsAsker({ externalAuth, permissiveAcl });
    t.is(ask(user('ann', 'pam'), 'test.echo'), 'allow');
    t.is(ask(user('fred', 'pam'), 'test.ping'), 'allow');
    t.is(ask(user('fred', 'pam'), 'test.echo'), permissiveAcl ? 'allow' : 'deny');
  }
});

test('an invalid grant permits nothing and is reported, and the other grants apply', (t) => {
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
  t.is(userRightsAsker({ externalAuth })(user('fred', 'pam'), 'test.ping'), 'allow');
});

test('a runner entry without a list is reported', (t) => {
  const publisherAcl = { fred: ['@runner', '@wheel', '@jobs'] };
  const { warnings } = readUserRights({ ...none, publisherAcl }, compileWholePattern);
  t.is(warnings.length, 2);
  t.regex(warnings[0]?.text ?? '', /@runner without a list grants every runner/);
});

// Tests of JSON Schemas for the data of signals.

function fits(schema: unknown): (data: unknown) => boolean {
  const policy = policyOf([
    allow('shaped', {
      subject: { minion: '*' },
      action: 'signal',
      resource: { tag: 'x/y', schema },
    }),
  ]);
  return (data) =>
    decide(
      {
        subject: { kind: 'minion', id: 'web1' },
        action: 'signal',
        resource: { tag: 'x/y', data, wasPublishedToSubject: () => false },
      },
      policy,
    ).effect === 'allow';
}

const deployment = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['env', 'count'],
  properties: {
    env: { enum: ['test', 'live'] },
    count: { type: 'integer', minimum: 1, maximum: 9 },
    host: { $ref: '#/$defs/host' },
    tags: {
      type: 'array',
      items: { type: 'string', maxLength: 3 },
      uniqueItems: true,
      maxItems: 2,
    },
  },
  additionalProperties: false,
  $defs: { host: { type: 'string', pattern: '^[a-z]+$' } },
};

test('only data that match the schema are accepted', (t) => {
  const check = fits(deployment);
  const good = { env: 'test', count: 1 };
  t.true(check(good));
  t.true(check({ ...good, host: 'web', tags: ['a', 'b'] }));
  t.true(check(Object.assign(Object.create(null), good)));
  for (const bad of [
    undefined,
    null,
    [],
    'text',
    { env: 'test' },
    { ...good, env: 'other' },
    { ...good, count: 10 },
    { ...good, count: 1.5 },
    { ...good, count: '1' },
    { ...good, more: 1 },
    { ...good, host: 'Web' },
    { ...good, tags: ['a', 'a'] },
    { ...good, tags: ['long'] },
  ]) {
    t.false(check(bad), JSON.stringify(bad));
  }
});

test('the end of a pattern is the end of the text, not the place before a line break', (t) => {
  const check = fits({ type: 'string', pattern: '^[a-z$]+$' });
  t.true(check('ab$'));
  t.false(check('ab\n'));
});

test('values without a JSON form match no schema', (t) => {
  const check = fits({});
  t.true(check({ a: [1, 'x', null, true] }));
  for (const odd of [new Map(), new Uint8Array(1), 1n, Number.NaN, { a: new Map() }]) {
    t.false(check(odd));
  }
});

for (const [name, schema] of Object.entries({
  'a misspelt keyword': { type: 'object', require: ['env'] },
  'an unknown type': { type: 'strin' },
  'a keyword deep inside that is unknown': { properties: { a: { items: { typ: 'string' } } } },
  'a reference to elsewhere': { $ref: 'https://example.org/schema' },
  'a pattern that may explode': { pattern: '(a+)+(?=b)' },
  'a broken pattern': { pattern: '(' },
  'patterns for names': { patternProperties: { '^x': {} } },
  'a check of ours': { '~refine': [] },
})) {
  test(`a schema with ${name} is refused`, (t) => {
    t.is(t.throws(() => fits(schema), { instanceOf: PolicyError })?.code, 'ERR_POLICY_PATTERN');
  });
}

test('an expression that explodes elsewhere is evaluated at once', (t) => {
  const check = fits({ type: 'string', pattern: '^(a+)+$' });
  t.false(check(`${'a'.repeat(50_000)}!`));
});

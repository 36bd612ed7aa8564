/** The policy language: what rules mean, and which are refused. */
import test from 'ava';
import {
  allow,
  type Call,
  type Decision,
  decide,
  deny,
  type MinionTest,
  PolicyError,
  type PolicyRule,
  parseRule,
  type Subject,
} from '../../acl/index.ts';
import { policyOf, type World } from '../helpers/policies.ts';

interface Signal {
  readonly subject?: Subject;
  readonly data?: unknown;
  readonly bytes?: number;
}

const web1: Subject = { kind: 'minion', id: 'web1' };

function asker(rules: readonly PolicyRule[], world: World = {}) {
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

test('a rule that denies wins over all that allow, wherever it stands', (t) => {
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

test('a rule that denies also takes away what needs no rule', (t) => {
  const silent = deny('silent', { ...ask, resource: { tag: '*' } });
  t.is(asker([silent])('minion_ping').rule, 'silent');
  t.is(asker([silent])('minion_ping', minion('db1')).effect, 'allow');
});

test('a rule names its place where it was written', (t) => {
  const origin = { file: '/etc/salt/master', line: 7 };
  const rule = parseRule('may', ask, origin);
  t.deepEqual(asker([rule])('my/tag').origin, origin);
});

test('what a rule about it lacks is said', (t) => {
  const rule = allow('small', { ...ask, resource: { tag: 'my/*', bytes: 10 } });
  const { effect, reason } = asker([rule])('my/tag', { bytes: 11 });
  t.is(effect, 'deny');
  t.regex(reason, /small: it is larger than 10 bytes/);
  t.is(asker([rule])('my/tag', { bytes: 10 }).effect, 'allow');
});

test('a placeholder stands for the id of the sender, which is never a pattern', (t) => {
  const tag = `deploy/\${minion.id}/*`;
  const signal = asker([allow('own', { ...ask, subject: { minion: '*' }, resource: { tag } })]);
  t.is(signal('deploy/web1/done').effect, 'allow');
  t.is(signal('deploy/web2/done').effect, 'deny');
  t.is(signal('deploy/web2/done', minion('*')).effect, 'deny');
  t.is(signal('deploy/*/done', minion('*')).effect, 'allow');
  t.is(signal('deploy/web1').effect, 'deny');
});

test('a placeholder stands for a text in the pillar of the sender, and for nothing without one', (t) => {
  const tag = `infra/\${pillar:stack:name}/\${minion.id}`;
  const world = { pillar: { web1: { 'stack:name': 'blue' }, web2: { 'stack:name': '' } } };
  const signal = asker([allow('stack', { ...ask, resource: { tag } })], world);
  t.is(signal('infra/blue/web1').effect, 'allow');
  t.is(signal('infra/red/web1').effect, 'deny');
  t.is(signal('infra//web2', minion('web2')).effect, 'deny');
  t.is(signal('infra/undefined/web3', minion('web3')).effect, 'deny');
});

test('a rate is for each minion by itself, and fills again', (t) => {
  let now = 0;
  const rule = allow('rarely', { ...ask, rate: '2/minute' });
  const signal = asker([rule], { now: () => now });
  const effects = (): string[] => ['my/a', 'my/b', 'my/c'].map((tag) => signal(tag).effect);
  t.deepEqual(effects(), ['allow', 'allow', 'deny']);
  t.is(signal('my/a', minion('web2')).effect, 'allow');
  now = 30_000;
  t.deepEqual(effects(), ['allow', 'deny', 'deny']);
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

test('of several rules that permit, the first one is named', (t) => {
  const named = (tag: string, minion: string): PolicyRule =>
    allow(`${tag} ${minion}`, { ...ask, subject: { minion }, resource: { tag } });
  const rules = ['my/tag', 'my/*', 'm*'].flatMap((tag) =>
    ['*', 'web*'].map((it) => named(tag, it)),
  );
  for (const [index, { name }] of rules.entries()) {
    t.is(asker([...rules.slice(index), ...rules.slice(0, index)])('my/tag').rule, name);
  }
});

test('whose mine it is decides for that one, and not for others', (t) => {
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

test('a rule ends with its time', (t) => {
  let now = Date.parse('2026-12-31T23:59:59Z');
  const rule = allow('until', { ...ask, expires: '2027-01-01' });
  const signal = asker([rule], { now: () => now });
  t.is(signal('my/tag').effect, 'allow');
  now += 1000;
  t.is(signal('my/tag').effect, 'deny');
});

const grainsOf: Readonly<Record<string, string>> = { web1: 'os:Debian', web2: 'os:Fedora' };

/** Minions say their grain; `front` is a nodegroup of web1; of web3 nothing is known. */
function target(tgt: string, tgtType: string): MinionTest {
  const says = (id: string): boolean =>
    tgtType === 'grain' ? grainsOf[id] === tgt : id === 'web1';
  return {
    isEntitled: (id) => tgtType !== 'grain' && says(id),
    claims: says,
    mayMean: (id) => says(id) || (tgtType === 'grain' && grainsOf[id] === undefined),
  };
}

test('grains make a rule that allows narrower', (t) => {
  const subject = { minion: 'web*', grain: 'os:Debian' };
  const signal = asker([allow('debian', { ...ask, subject })], { target });
  t.is(signal('my/tag').effect, 'allow');
  t.is(signal('my/tag', minion('web2')).effect, 'deny');
  t.is(signal('my/tag', minion('web3')).effect, 'deny');
});

test('a minion that does not tell its grains does not escape a rule that denies', (t) => {
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

test('a rule about users is about no minion of that name, nor the other way round', (t) => {
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

test('services and tokens are told from each other', (t) => {
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
  test(`a rule with ${name} is refused before it is in force`, (t) => {
    const parse = (): unknown => policyOf([parseRule('bad', rule)]);
    t.is(t.throws(parse, { instanceOf: PolicyError })?.code, code);
  });
}

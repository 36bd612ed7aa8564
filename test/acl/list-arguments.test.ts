/** Conditions on arguments that contain several names, separated by commas. */

import test from 'ava';
import fc from 'fast-check';
import { allow, decide, deny, type PolicyRule } from '#acl';
import type { ArgumentPattern } from '#acl/rule.ts';
import { callOf } from '#master';
import type { WireMap } from '#minion-protocol';
import { compileGlob } from '#template/python/fnmatch.ts';
import { policyOf } from '../helpers/policies.ts';

const eve = { user: 'eve' } as const;
const subject = { kind: 'user', name: 'eve', groups: [] } as const;

interface Asked {
  readonly action: 'publish' | 'runner' | 'wheel';
  readonly fun: string;
  readonly args?: readonly string[];
  readonly kwargs?: Readonly<Record<string, string>>;
}

function may(
  rules: readonly PolicyRule[],
  { action, fun, args = [], kwargs = {} }: Asked,
): boolean {
  const call = { fun, args, kwargs: new Map(Object.entries(kwargs)) };
  const question =
    action === 'publish'
      ? ({ subject, action, resource: { calls: [call], minions: ['web1'] } } as const)
      : ({ subject, action, resource: { call } } as const);
  return decide(question, policyOf(rules)).effect === 'allow';
}

/** Functions that split an argument at commas, with the names of this argument. */
const functions = [
  ...['accept', 'delete', 'finger', 'name_match', 'print', 'reject'].map(
    (name) => ['wheel', `key.${name}`, 'match', 0] as const,
  ),
  ...['orch', 'orchestrate', 'sls', 'orch_show_sls', 'orchestrate_show_sls'].map(
    (name) => ['runner', `state.${name}`, 'mods', 0] as const,
  ),
  ...['apply', 'sls', 'show_sls', 'show_low_sls', 'sls_exists'].map(
    (name) => ['publish', `state.${name}`, 'mods', 0] as const,
  ),
  ['publish', 'state.sls_id', 'mods', 1] as const,
  ['runner', 'mine.get', 'fun', 1] as const,
  ...['clear_cache', 'clear_lock', 'envs', 'lock', 'update'].map(
    (name) => ['runner', `fileserver.${name}`, 'backend', 0] as const,
  ),
  ...['clear_file_list_cache', 'dir_list', 'empty_dir_list', 'file_list', 'symlink_list'].map(
    (name) => ['runner', `fileserver.${name}`, 'backend', 1] as const,
  ),
  ['runner', 'fileserver.clear_file_list_cache', 'saltenv', 0] as const,
  ['runner', 'jobs.list_jobs', 'search_function', 3] as const,
  ['runner', 'jobs.list_jobs', 'search_target', 4] as const,
  ['runner', 'jobs.last_run', 'function', 3] as const,
  ['runner', 'jobs.last_run', 'target', 4] as const,
  ...['alived', 'allowed', 'joined', 'present', 'reaped'].flatMap((name) => [
    ['runner', `manage.${name}`, 'subset', 0] as const,
    ['runner', `manage.not_${name}`, 'subset', 0] as const,
  ]),
  ['runner', 'manage.list_state', 'subset', 0] as const,
  ['runner', 'manage.list_not_state', 'subset', 0] as const,
  ...['install', 'purge', 'remove'].map((name) => ['publish', `pkg.${name}`, 'name', 0] as const),
];

for (const [action, fun, name, position] of functions) {
  test(`a rule must permit each name in the argument ${name} of ${fun} (${action})`, (t) => {
    const before = new Array<string>(position).fill('an_id');
    const rules = [
      allow('by-name', {
        ...{ subject: eve, action },
        resource: { fun, arguments: [{ kwargs: { [name]: 'web*' } }] },
      }),
      allow('by-position', {
        ...{ subject: eve, action },
        resource: { fun, arguments: [{ args: [...before, { regex: 'web.*' }] }] },
      }),
    ];
    const mayUse = (text: string): readonly boolean[] => [
      may(rules, { action, fun, kwargs: { [name]: text } }),
      may(rules, { action, fun, args: [...before, text] }),
    ];
    for (const text of ['web1', 'web1,web2', 'web1, web2,'])
      t.deepEqual(mayUse(text), [true, true]);
    for (const text of ['web1,db1', 'web1,*', 'web1, *', 'db1']) {
      t.deepEqual(mayUse(text), [false, false], text);
    }
  });
}

test('a rule that denies a name denies each list that contains it', (t) => {
  const anything = allow('all', { subject: eve, action: 'wheel', resource: { fun: 'key.*' } });
  const resource = { fun: 'key.delete', arguments: [{ kwargs: { match: 'db*' } }] };
  const rules = [deny('no-db', { subject: eve, action: 'wheel', resource }), anything];
  const mayDelete = (match: string): boolean =>
    may(rules, { action: 'wheel', fun: 'key.delete', kwargs: { match } });
  t.true(mayDelete('web1,web2'));
  for (const match of ['db1', 'db1,web1', 'web1,db1', 'web1, db1'])
    t.false(mayDelete(match), match);
});

test('a rule must permit each combination of names in two arguments', (t) => {
  const kwargs = { saltenv: 'web*', backend: 'git*' };
  const resource = { fun: 'fileserver.clear_file_list_cache', arguments: [{ kwargs }] };
  const allowed = [allow('web', { subject: eve, action: 'runner', resource })];
  const denied = [
    deny('web', { subject: eve, action: 'runner', resource }),
    allow('all', { subject: eve, action: 'runner', resource: { fun: 'fileserver.*' } }),
  ];
  const permits = (saltenv: string, backend: string): readonly boolean[] =>
    [allowed, denied].map((rules) =>
      may(rules, { action: 'runner', fun: resource.fun, kwargs: { saltenv, backend } }),
    );
  t.deepEqual(permits('web1,web2', 'git1,git2'), [true, false]);
  t.deepEqual(permits('web1,db', 'git1'), [false, false]);
  t.deepEqual(permits('web1', 'git1,roots'), [false, false]);
  t.deepEqual(permits('db,db2', 'git1,git2'), [false, true]);
  const many = Array.from({ length: 40 }, (_, at) => `web${at}`).join();
  t.deepEqual(permits(many, many.replaceAll('web', 'git')), [false, false]);
});

for (const fun of ['key.accept_dict', 'key.delete_dict', 'key.reject_dict']) {
  test(`a rule must permit each id in the lists of ${fun}`, (t) => {
    const resource = { fun: 'key.*', arguments: [{ kwargs: { match: '*-web-*' } }] };
    const allowed = [allow('web', { subject: eve, action: 'wheel', resource })];
    const denied = [
      deny('web', { subject: eve, action: 'wheel', resource }),
      allow('all', { subject: eve, action: 'wheel', resource: { fun: 'key.*' } }),
    ];
    const permits = (match: WireMap): readonly boolean[] =>
      [allowed, denied].map((rules) => {
        const { kwargs } = callOf({ fun, arg: [], kwarg: { match } });
        return may(rules, { action: 'wheel', fun, kwargs: Object.fromEntries(kwargs) });
      });
    const web = ['a-web-1', 'a-web-2'];
    t.deepEqual(permits({ minions: web, minions_pre: web }), [true, false]);
    t.deepEqual(permits({ minions: ['a-web-1', 'db1'] }), [false, false]);
    t.deepEqual(permits({ minions: ['db1'], minions_pre: ['db2'] }), [false, true]);
    for (const odd of ["x'-web-", 'x\\-web-', 'x\n-web-', 'x": ["-web-'])
      t.deepEqual(permits({ minions: [odd, 'db1'] }), [false, false], odd);
    t.deepEqual(permits({ minions: [1, 'a-web-1'] }), [false, false]);
  });
}

test('a rule may contain a whole list', (t) => {
  for (const pattern of ['common,web', { regex: 'common,web' }]) {
    const resource = { fun: 'state.apply', arguments: [{ args: [pattern] }] };
    const rules = [allow('both', { subject: eve, action: 'publish', resource })];
    const mayApply = (...args: readonly string[]): boolean =>
      may(rules, { action: 'publish', fun: 'state.apply', args });
    t.true(mayApply('common,web'));
    for (const text of ['common', 'web', 'web,common', 'common,web,db'])
      t.false(mayApply(text), text);
  }
});

test('a list that one condition contains is not permitted by another condition', (t) => {
  const accept = {
    fun: 'key.accept',
    arguments: [{ args: ['db*'], kwargs: { fingerprint: 'aa' } }, { args: ['db?'] }],
  };
  const rules = [allow('some', { subject: eve, action: 'wheel', resource: accept })];
  const asked = { action: 'wheel', fun: 'key.accept', args: ['db*'] } as const;
  t.false(may(rules, asked));
  t.true(may(rules, { ...asked, kwargs: { fingerprint: 'aa' } }));
  const apply = {
    fun: 'state.apply',
    arguments: [{ args: ['web,db'], kwargs: { test: 'True' } }, { args: ['web*'] }],
  };
  const states = [allow('some', { subject: eve, action: 'publish', resource: apply })];
  const both = { action: 'publish', fun: 'state.apply', args: ['web,db'] } as const;
  t.false(may(states, both));
  t.true(may(states, { ...both, kwargs: { test: 'True' } }));
});

test('a regular expression that ends with .* permits globs, as in external_auth', (t) => {
  for (const [regex, permitted, refused] of [
    ['.*', ['*', 'web*'], []],
    ['web.*', ['web*', 'web?', 'web1,web2*'], ['*', 'w*']],
    ['web\\.a-.*', ['web.a-*', 'web.a-[12]'], ['web*', 'webxa-*', 'web.*']],
    ['web.', ['web1'], ['web*', 'web?']],
    ['web.+', ['web1'], ['web*']],
  ] as const) {
    const resource = { fun: 'key.accept', arguments: [{ args: [{ regex }] }] };
    const rules = [allow('some', { subject: eve, action: 'wheel', resource })];
    const mayAccept = (text: string): boolean =>
      may(rules, { action: 'wheel', fun: 'key.accept', args: [text] });
    for (const text of permitted) t.true(mayAccept(text), `${regex} ${text}`);
    for (const text of refused) t.false(mayAccept(text), `${regex} ${text}`);
  }
});

test('text with commas stays whole for other functions', (t) => {
  const resource = { fun: 'test.echo', arguments: [{ args: ['a*'] }] };
  const rules = [allow('echo', { subject: eve, action: 'publish', resource })];
  t.true(may(rules, { action: 'publish', fun: 'test.echo', args: ['a,b'] }));
});

test('a list may have 1,000 names if a rule has conditions on arguments', (t) => {
  const names = (count: number): string => new Array<string>(count).fill('web1').join(',');
  const resource = { fun: 'key.accept', arguments: [{ kwargs: { match: 'web*' } }] };
  const rules = [allow('web', { subject: eve, action: 'wheel', resource })];
  const mayAccept = (match: string): boolean =>
    may(rules, { action: 'wheel', fun: 'key.accept', kwargs: { match } });
  t.true(mayAccept(names(1000)));
  t.false(mayAccept(names(1001)));
  const noDb = { fun: 'key.accept', arguments: [{ kwargs: { match: 'db*' } }] };
  const denying = [
    deny('no-db', { subject: eve, action: 'wheel', resource: noDb }),
    allow('all', { subject: eve, action: 'wheel', resource: { fun: 'key.accept' } }),
  ];
  const kwargs = { match: `${names(1000)},db1` };
  t.false(may(denying, { action: 'wheel', fun: 'key.accept', kwargs }));
});

const name = fc.string({ unit: fc.constantFrom('a', 'b', ']'), maxLength: 4 });
const glob = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?', '[', ']', '!'), maxLength: 5 });
const ids = fc.uniqueArray(name, { minLength: 20, maxLength: 40 });

test('a rule permits a glob of keys only with everything that the glob matches', (t) => {
  let permitted = 0;
  const check = (pattern: string, given: string, keys: readonly string[]): void => {
    const resource = { fun: 'key.accept', arguments: [{ kwargs: { match: pattern } }] };
    const rules = [allow('some', { subject: eve, action: 'wheel', resource })];
    const kwargs = { match: given };
    if (given === pattern || !may(rules, { action: 'wheel', fun: 'key.accept', kwargs })) return;
    permitted += 1;
    const [isPermitted, isMeant] = [compileGlob(pattern), compileGlob(given)];
    for (const key of keys)
      if (isMeant(key)) t.true(isPermitted(key), `${pattern} ${given} ${key}`);
  };
  fc.assert(fc.property(glob, glob, ids, check), { numRuns: 5000 });
  t.true(permitted > 20, String(permitted));
  const accept = { fun: 'key.accept', arguments: [{ args: ['web?'] }, { args: ['db*'] }] };
  const rules = [allow('some', { subject: eve, action: 'wheel', resource: accept })];
  const mayAccept = (text: string): boolean =>
    may(rules, { action: 'wheel', fun: 'key.accept', args: [text] });
  for (const text of ['web1', 'web?', 'db*', 'db[0-9]', 'db1,db?']) t.true(mayAccept(text), text);
  for (const text of ['web*', '*', 'd*', 'web1,web*', '[d]b*']) t.false(mayAccept(text), text);
});

test('a rule that denies keys denies each glob that can match them', (t) => {
  const check = (pattern: string, given: string, keys: readonly string[]): void => {
    const resource = { fun: 'key.delete', arguments: [{ kwargs: { match: pattern } }] };
    const rules = [
      deny('some', { subject: eve, action: 'wheel', resource }),
      allow('all', { subject: eve, action: 'wheel', resource: { fun: 'key.delete' } }),
    ];
    const [isDenied, isMeant] = [compileGlob(pattern), compileGlob(given)];
    if (!keys.some((key) => isDenied(key) && isMeant(key))) return;
    t.false(may(rules, { action: 'wheel', fun: 'key.delete', args: [given] }), given);
    t.false(may(rules, { action: 'wheel', fun: 'key.delete', kwargs: { match: given } }), given);
  };
  fc.assert(fc.property(glob, glob, ids, check), { numRuns: 2000 });
});

test('a rule that denies an argument denies it by position and by name', (t) => {
  const rulesWith = (condition: ArgumentPattern): readonly PolicyRule[] => [
    deny('some', {
      ...{ subject: eve, action: 'publish' },
      resource: { fun: 'site.set', arguments: [condition] },
    }),
    allow('all', { subject: eve, action: 'publish', resource: { fun: 'site.set' } }),
  ];
  const asked = { action: 'publish', fun: 'site.set' } as const;
  for (const condition of [
    { args: ['a', 'secret*'] },
    { kwargs: { value: 'secret*', key: 'a' } },
  ]) {
    const rules = rulesWith(condition);
    t.false(may(rules, { ...asked, args: ['a', 'secret1'] }));
    t.false(may(rules, { ...asked, args: ['a'], kwargs: { value: 'secret1' } }));
    t.false(may(rules, { ...asked, kwargs: { key: 'a', value: 'secret1' } }));
    t.true(may(rules, { ...asked, args: ['a', 'open'] }));
    t.true(may(rules, { ...asked, kwargs: { key: 'b', value: 'secret1' } }));
  }
  // A pattern for any value says nothing about arguments in the other form.
  for (const pillar of [null, '*', { regex: '.*' }]) {
    t.true(may(rulesWith({ kwargs: { pillar } }), { ...asked, args: ['a'] }));
    t.false(may(rulesWith({ kwargs: { pillar } }), { ...asked, kwargs: { pillar: 'a' } }));
  }
});

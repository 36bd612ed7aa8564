/** Tests of `saltbridge: acl: rules:` from files. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import fc from 'fast-check';
import { ConfigError, checkMasterConfig, loadMasterConfig, resolveMasterConfig } from '#config';
import { warnOfNarrowed } from '#config/narrowed-patterns.ts';
import { rulesOf } from '#config/policy-rules.ts';
import type { Settings } from '#config/settings.ts';
import { tries } from '../../helpers/effort.ts';
import { configDirectory } from './files.ts';

const written = `
saltbridge:
  acl:
    rules:
      jenkins may ask for puppet:
        subject: {minion: 'jenkins-*', except: jenkins-9}
        action: signal
        resource:
          tag: infra/puppet/requested
          schema: {type: object, required: [env]}
        rate: 10/minute
        expires: 2030-01-01
`;

test('rules of several files are merged, each with its place', async (t) => {
  const other =
    "saltbridge:\n  acl:\n    rules:\n      no db:\n        effect: deny\n        subject: {minion: 'db*'}\n        action: mine\n        resource: {fun: '*'}\n";
  const directory = configDirectory(t, { master: written, 'master.d/a.conf': other });
  const { config } = await loadMasterConfig(directory);
  const [first, second] = config.acl.rules;
  t.deepEqual(JSON.parse(JSON.stringify(first)), {
    name: 'jenkins may ask for puppet',
    effect: 'allow',
    subject: { minion: 'jenkins-*', except: 'jenkins-9' },
    action: 'signal',
    resource: {
      tag: 'infra/puppet/requested',
      schema: { type: 'object', required: ['env'] },
    },
    rate: '10/minute',
    expires: '2030-01-01',
    origin: { file: `${directory}/master`, line: 5 },
  });
  t.deepEqual(second?.origin, { file: `${directory}/master.d/a.conf`, line: 4 });
});

test('an invalid rule ends the start, with its line and field', async (t) => {
  for (const [change, field, line] of [
    ['signal', 'action', 7],
    ['infra/puppet/requested', 'resource:tag', 9],
    ['required', 'resource:schema:requird', 10],
    ['10/minute', 'rate', 11],
    ['minion', 'subject:minoin', 6],
  ] as const) {
    const bad =
      { signal: 'singal', required: 'requird', minion: 'minoin' }[change as 'signal'] ?? '*';
    const directory = configDirectory(t, { master: written.replace(change, `'${bad}'`) });
    const error = await t.throwsAsync(loadMasterConfig(directory), { instanceOf: ConfigError });
    t.is(error?.code, 'ERR_OPTION_TYPE', field);
    t.is(error?.line, line, field);
    t.true(error?.message.includes(`${field}`), error?.message);
  }
});

test('an undefined nodegroup is refused, and a defined one is accepted', (t) => {
  const rule = {
    name: 'fronts',
    effect: 'allow',
    subject: { nodegroup: 'front' },
    action: 'signal',
    resource: { tag: 'my/tag' },
  } as const;
  const acl = { rules: [rule] };
  t.throws(() => resolveMasterConfig({ acl }), { instanceOf: ConfigError });
  t.is(resolveMasterConfig({ acl, nodegroups: { front: 'web*' } }).acl.rules.length, 1);
});

test('without options only the mine and pillar environments may be read', (t) => {
  const rules = rulesOf(resolveMasterConfig());
  t.deepEqual(
    rules.map(({ name, action }) => [name, action]),
    [
      ['mine', 'mine'],
      ['pillar', 'pillar'],
    ],
  );
});

// Tests of warnings about expressions that this master matches against a whole text, but Salt only
// against its beginning.

const origin = { file: 'master', line: 1, key: 'peer' };

function isWarnedOf(pattern: string): boolean {
  const given: Settings = new Map([['.*', { value: [pattern], origin }]]);
  const settings: Settings = new Map([['peer', { value: given, origin }]]);
  const config = { peer: { '.*': [pattern] }, peerRun: {}, mineGet: null };
  return warnOfNarrowed(config, settings).length > 0;
}

for (const [pattern, isNarrowed] of [
  ['test', true],
  ['test.*', false],
  ['.*', false],
  ['', true],
  ['test.ping$', false],
  ['test.ping\\Z', false],
  ['test.ping\\$', true],
  ['test.ping\\\\$', false],
  ['test\\.*', true],
  ['a.*|b', true],
  ['a.*|b$', false],
  ['(a|b).*', false],
  ['web(1|2)', true],
  ['web(1|2.*)', true],
  ['web(?:1$|2.*)', false],
  ['(?P<x>web.*)', false],
  ['.*|web', false],
  ['[|]a$', false],
  ['[]|]a', true],
  ['a\\|b$', false],
] as const) {
  test(`${pattern || 'nothing'} ${isNarrowed ? 'causes' : 'does not cause'} a warning`, (t) => {
    t.is(isWarnedOf(pattern), isNarrowed);
  });
}

const expression = fc.letrec<{ whole: string; sequence: string; atom: string }>((tie) => ({
  atom: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('a', 'b', '.', '$', '[ab]', '\\.', '\\$', '\\|', '[|]', 'a*', 'b?', '.*', '.+'),
    tie('whole').map((inner) => `(${inner})`),
    tie('whole').map((inner) => `(?:${inner})?`),
  ),
  sequence: fc.array(tie('atom'), { maxLength: 3 }).map((atoms) => atoms.join('')),
  whole: fc.array(tie('sequence'), { minLength: 1, maxLength: 3 }).map((list) => list.join('|')),
})).whole;

test('an expression without a warning matches the same as a prefix and as a whole', (t) => {
  const texts = fc.array(fc.constantFrom('a', 'b', '.', '$', '|'), { maxLength: 5 });
  fc.assert(
    fc.property(expression, fc.array(texts, { minLength: 20, maxLength: 20 }), (pattern, all) => {
      fc.pre(!isWarnedOf(pattern));
      for (const text of all.map((characters) => characters.join(''))) {
        const byBeginning = new RegExp(`^(?:${pattern})`).test(text);
        t.is(new RegExp(`^(?:${pattern})$`).test(text), byBeginning, `${pattern} on ${text}`);
      }
    }),
    tries(125),
  );
});

test('a start warns once for each id, with its line and the wider meaning', async (t) => {
  const directory = configDirectory(t, {
    master: [
      'peer:',
      '  web.*:',
      '    - test.ping',
      "    - 'network.*'",
      '  db1|db2:',
      "    - {'G@role:web': [{grains.get: {args: [role, '.*'], kwargs: {default: x}}}]}",
      "peer_run: {'.*': ['manage.*']}",
      "mine_get: {'.*': [a, b, c, d, e, f, g$]}",
    ].join('\n'),
  });
  const { warnings } = await loadMasterConfig(directory);
  const file = path.join(directory, 'master');
  const meaning =
    "must match a whole id, function or argument here, but only its beginning in Salt: to keep Salt's meaning, write";
  const end = '; otherwise append $';
  t.deepEqual(
    warnings
      .filter(({ message }) => !message.includes('grains alone grant nothing'))
      .map(({ kind, message }) => [kind, message]),
    [
      ['narrowed', `${file}:2: peer: test.ping ${meaning} test.ping.*${end}`],
      [
        'narrowed',
        `${file}:5: peer: db1|db2, grains.get, role, x ${meaning} ` +
          `(?:db1|db2).*, grains.get.*, role.*, x.*${end}`,
      ],
      [
        'narrowed',
        `${file}:8: mine_get: a, b, c, d, e and 1 more ${meaning} a.*, b.*, c.*, d.*, e.*${end}`,
      ],
    ],
  );
});

test('a start warns about rights that depend only on grains', async (t) => {
  const directory = configDirectory(t, {
    master: [
      'peer:',
      '  .*:',
      "    - {'G@role:db': ['grains.get']}",
      "    - {'web* or P@role:d.': ['grains.get']}",
      "    - {'web* and G@role:db': ['grains.get']}",
      "    - {'N@dbs': ['grains.get']}",
      'external_auth:',
      '  pam:',
      '    fred:',
      "      - {'G@role:db': ['test.*']}",
      "      - {'db*': ['test.*']}",
      'nodegroups: {dbs: G@role:db, all: "*"}',
      'saltbridge:',
      '  acl:',
      '    rules:',
      '      ping:',
      '        action: publish',
      '        subject: {user: ann}',
      "        resource: {fun: test.ping, within: 'not G@role:db'}",
      '      all:',
      '        action: publish',
      '        subject: {user: ann}',
      "        resource: {fun: test.ping, within: 'N@all and not G@role:db'}",
    ].join('\n'),
  });
  const file = path.join(directory, 'master');
  const reason =
    'grains alone grant nothing, because a minion can claim any grain; ' +
    'name minions by id, nodegroup or pillar, or add such a condition with "and"';
  const expected = [
    `${file}:2: peer: .*: G@role:db: ${reason}`,
    `${file}:2: peer: .*: web* or P@role:d.: ${reason}`,
    `${file}:2: peer: .*: N@dbs: ${reason}`,
    `${file}:9: external_auth: pam: fred: G@role:db: ${reason}`,
    `${file}:16: saltbridge: acl: rules: ping: not G@role:db: ${reason}`,
  ];
  for (const { warnings } of [
    await loadMasterConfig(directory),
    await checkMasterConfig(directory),
  ]) {
    const found = warnings.filter(({ message }) => message.includes('grains alone grant nothing'));
    t.deepEqual(
      found.map(({ kind, message }) => [kind, message]),
      expected.map((message) => ['narrowed', message]),
    );
  }
});

test('signal rules of several files are merged', async (t) => {
  const directory = configDirectory(t, {
    master: 'saltbridge: {acl: {signals: [{tag: my/site/*}]}}',
    'master.d/a.conf': 'saltbridge: {acl: {signals: [{tag: deploy/done, minions: web*}]}}',
  });
  const { config } = await loadMasterConfig(directory);
  t.deepEqual(config.acl.signals, [
    { tag: 'my/site/*', minions: '*' },
    { tag: 'deploy/done', minions: 'web*' },
  ]);
});

for (const [name, signals] of [
  ['no list', { tag: 'my/tag' }],
  ['a text', ['my/tag']],
  ['no tag', [{ minions: '*' }]],
  ['another field', [{ tag: 'my/tag', minion: 'web1' }]],
  ['a number for minions', [{ tag: 'my/tag', minions: 1 }]],
  ['wildcards alone', [{ tag: '*' }]],
  ['wildcards and slashes', [{ tag: '*/[a-z]?' }]],
] as const) {
  test(`signal rules with ${name} are refused`, (t) => {
    const acl: object = { signals };
    const error = t.throws(() => resolveMasterConfig({ acl }), { instanceOf: ConfigError });
    t.is(error?.code, 'ERR_OPTION_TYPE');
  });
}

test('a misspelt section of the acl is refused with its line', async (t) => {
  const directory = configDirectory(t, { master: 'saltbridge:\n  acl:\n    signal: []\n' });
  const error = await t.throwsAsync(loadMasterConfig(directory), { instanceOf: ConfigError });
  t.is(error?.code, 'ERR_OPTION_UNKNOWN');
  t.is(error?.line, 3);
});

// Tests that the user rights of a site are loaded, with a warning at the location of each problem.

/** Returns a configuration of about 200 lines, similar to public ones. */
function siteConfig(): string {
  const teams = Array.from({ length: 10 }, (_, index) => `team${index}`);
  const users = teams.flatMap((team) => [
    `    ${team}-lead:`,
    `      - '${team}-*':`,
    '          - state.apply',
    '          - state.highstate',
    '          - test.*',
    '          - service.restart:',
    '            - args: [nginx|redis]',
    "      - '@jobs'",
    "      - '@runner':",
    '        - manage.up',
    '        - cache.*',
  ]);
  return [
    'publisher_acl:',
    ...teams.flatMap((team) => [
      `  ${team}:`,
      '    - test.ping',
      `    - '${team}*':`,
      '      - pkg.*',
    ]),
    '  .*:',
    '    - test.version',
    'publisher_acl_blacklist:',
    '  users: [root, "^(?!sudo_).*$"]',
    '  modules: [cmd.*, test.echo]',
    'client_acl_verify: True',
    'external_auth:',
    '  pam:',
    ...users,
    '    admins%:',
    '      - .*',
    "      - '@wheel'",
    "      - '@runner'",
    '  ldap:',
    '    "*":',
    '      - test.ping',
    'peer:',
    ...teams.flatMap((team) => [`  ${team}-.*:`, '    - test.ping', '    - network.ip_addrs']),
    'peer_run:',
    '  mon.*: [manage.up]',
    'token_expire: 3600',
    'keep_acl_in_token: True',
    '',
  ].join('\n');
}

test('a configuration with 200 lines of rights loads with warnings only', async (t) => {
  const text = siteConfig();
  t.true(text.split('\n').length > 195);
  const directory = configDirectory(t, { master: text });
  const { config, warnings } = await loadMasterConfig(directory);
  t.true(rulesOf(config).length > 100);
  const lines = text.split('\n');
  const rights = warnings.filter(({ kind }) => ['rights', 'no-login'].includes(kind));
  t.deepEqual(
    rights.map(({ line }) => lines[line - 1]?.trim()),
    ['users: [root, "^(?!sudo_).*$"]', 'admins%:', 'admins%:', 'ldap:'],
  );
  t.deepEqual(
    warnings.filter(({ kind }) => kind === 'not-served'),
    [],
  );
  t.is(config.eauth.tokenExpire, 3600);
});

test('an expression that Salt reads as a prefix is reported with its user', async (t) => {
  const master = 'publisher_acl:\n  ann: [test.*]\n  fred: [pkg.list_|pkg.info]\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(
    warnings.filter(({ kind }) => kind === 'rights').map(({ line }) => line),
    [3],
  );
});

// Tests that a complete configuration, similar to public ones, is loaded with its meaning in Salt.

// The fixtures are not compiled, so read them from the source directory.
const site = fileURLToPath(new URL('../../../test/fixtures/site-config/', import.meta.url));

test('the 200 lines of a real site load with warnings only, each at its line', async (t) => {
  const lines = readFileSync(path.join(site, 'master'), 'utf8').split('\n');
  t.true(lines.length > 200);
  const { config, warnings } = await loadMasterConfig(site);
  t.deepEqual(
    warnings.filter(({ kind }) => kind === 'unknown-option').map(({ key }) => key),
    [],
  );
  for (const { key, line, message } of warnings) {
    // The key of a warning is the path to its location, and begins with the option.
    const option = key.split(':')[0] ?? '';
    const above = lines.slice(0, line).findLast((text) => /^[a-z]/.test(text));
    t.is(above?.split(':')[0], option, message);
  }
  const actions = new Map<string, number>();
  for (const { action } of rulesOf(config)) actions.set(action, (actions.get(action) ?? 0) + 1);
  for (const action of ['publish', 'runner', 'wheel'])
    t.true((actions.get(action) ?? 0) > 3, action);
});

test('expressions with a wider meaning than expected are reported with their line', async (t) => {
  const lines = readFileSync(path.join(site, 'master'), 'utf8').split('\n');
  const { warnings } = await loadMasterConfig(site);
  const reported = warnings
    .filter(({ kind }) => kind === 'rights')
    .map(({ line }) => lines[line - 1]?.trim() ?? '');
  t.deepEqual(
    new Set(reported),
    new Set([
      // An expression with lookaround is not supported, so the entry forbids everything.
      'users:',
      // All runners and all wheel functions.
      ...['steve:', 'platform%:', 'saltadmins%:'],
      // In Salt, the expression matches the beginning of function names. On this master, it must
      // match the whole name.
      ...['deploy-search:', 'dba%:', 'webops%:'],
    ]),
  );
});

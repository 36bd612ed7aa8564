/** Groups of software configs: what each runs on a minion, and that each is answered. */
import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  CodeCatalog,
  type CodeDefinition,
  parseCodeEntry,
} from '#guests/deployments/code-catalog.ts';
import { resolveCall } from '#guests/deployments/deployment-call.ts';
import type { Deployment } from '#guests/deployments/metadata.ts';
import { readScriptOutput } from '#guests/script-wrapper.ts';
import { Catalog } from '#heat-bridge';
import { testWhere } from '../../helpers/needs.ts';
import { folderOfPrograms } from './folder-of-programs.ts';

const anything = {
  type: 'object',
  properties: { foo: { type: 'string' }, n: {}, environment: {} },
};

function resolve(
  deployment: Partial<Deployment>,
  entry: object = { unsafe: 'i-understand' },
): ReturnType<typeof resolveCall> {
  const { group = '' } = deployment;
  const definitions: CodeDefinition[] =
    entry === none
      ? []
      : [parseCodeEntry('site.code', { description: 'x', group, parameters: anything, ...entry })];
  const full: Deployment = {
    id: 'config-1',
    name: 'deploy-it',
    group,
    config: '',
    action: 'CREATE',
    inputs: {},
    outputs: [],
    signal: { transport: 'NO_SIGNAL' },
    ...deployment,
  };
  return resolveCall(full, { commands: new Catalog([]), code: new CodeCatalog(definitions) });
}

const none = {};

interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly outputs: Readonly<Record<string, string>>;
}

/** Runs the code of a deployment as a minion does, beside a tool that shows how it was called. */
function run(
  t: ExecutionContext,
  tool: string,
  text: string,
  deployment: Partial<Deployment>,
  entry?: object,
): Ran {
  const resolved = resolve(deployment, entry);
  if (!resolved.ok) throw new Error(resolved.reason);
  const { code } = resolved.call.params;
  const bin = folderOfPrograms(t);
  writeFileSync(path.join(bin, tool), `#!/bin/sh\n${text}\n`);
  chmodSync(path.join(bin, tool), 0o755);
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', String(code)], {
    env: { PATH: bin },
  });
  return { status, stderr: `${stderr}`, ...readScriptOutput(String(code), `${stdout}`) };
}

const showCall = 'for it; do printf "%s\\n" "$it"; done';

test('puppet applies the manifest with inputs as facts, and 2 of its detailed exit codes is success', (t) => {
  const ran = run(
    t,
    'puppet',
    `${showCall}; cat "$it"; echo; echo "$FACTER_foo"; printf out > "$FACTER_heat_outputs_path.r"; exit 2`,
    {
      group: 'puppet',
      config: "notice('hi')",
      inputs: { foo: `it's "$(id)"` },
      outputs: ['r'],
      options: { tags: 'web,db', enable_debug: true },
    },
    { unsafe: 'i-understand', options: { modulepath: '/etc/puppet/modules' } },
  );
  t.is(ran.status, 0);
  t.deepEqual(ran.outputs, { r: 'out' });
  const lines = ran.stdout.split('\n');
  t.deepEqual(lines.slice(0, 9), [
    ...['apply', '--detailed-exitcodes', '--logdest', 'console'],
    ...['--modulepath', '/etc/puppet/modules', '--tags', 'web,db', '--debug'],
  ]);
  t.deepEqual(lines.slice(10, 12), ["notice('hi')", `it's "$(id)"`]);
});

for (const status of [1, 4, 6]) {
  test(`puppet that ends with ${status} has failed`, (t) => {
    t.is(run(t, 'puppet', `exit ${status}`, { group: 'puppet', config: 'x' }).status, status);
  });
}

test('ansible runs the playbook on the minion alone, with typed variables', (t) => {
  const ran = run(
    t,
    'ansible-playbook',
    `${showCall}; cat "\${6#@}"; printf '%s' "$8" | cut -d= -f2 > /dev/null; printf out > "$heat_outputs_path.r"; exit 0`,
    {
      group: 'ansible',
      config: '- hosts: all\n',
      inputs: { foo: 'x', n: [1, true] },
      outputs: ['r'],
      options: { tags: 'a' },
    },
  );
  t.is(ran.status, 0);
  const [...lines] = ran.stdout.split('\n');
  t.deepEqual(lines.slice(0, 5), ['-i', 'localhost,', '-c', 'local', '--extra-vars']);
  t.true(ran.stdout.includes('\n--tags\na\n'));
  t.true(ran.stdout.includes('{"foo":"x","n":[1,true],"heat_config_id":"config-1"}'));
  t.deepEqual(ran.outputs, { r: 'out' });
});

test('an input that Ansible would read as a template is refused', (t) => {
  const inputs = { foo: "{{ lookup('pipe', 'id') }}" };
  t.like(resolve({ group: 'ansible', config: '- hosts: all\n', inputs }), { ok: false });
});

test('chef runs its list with inputs as attributes', (t) => {
  const ran = run(
    t,
    'chef-client',
    `${showCall}; cat "$3" "$5"; exit 5`,
    {
      group: 'chef',
      config: '["recipe[web::site]", "role[db]"]',
      inputs: { foo: 'x', environment: 'test' },
    },
    { unsafe: 'i-understand', options: { kitchen_path: '/srv/kitchen' } },
  );
  t.is(ran.status, 5);
  t.true(ran.stdout.includes('--environment\ntest\n'));
  t.true(ran.stdout.includes("cookbook_path '/srv/kitchen/cookbooks'\n"));
  t.true(ran.stdout.includes('{"foo":"x","run_list":["recipe[web::site]","role[db]"]}'));
});

test('apply-config runs os-apply-config, whatever the config is', (t) => {
  const deployment = { group: 'apply-config', config: 'x' };
  t.is(run(t, 'os-apply-config', 'exit 3', deployment, {}).status, 3);
});

for (const [group, config] of [
  ['puppet', 'x'],
  ['ansible', 'x'],
  ['chef', '["a"]'],
  ['apply-config', 'x'],
] as const) {
  test(`${group} that is not installed fails, and says so`, (t) => {
    const entry = group === 'apply-config' ? {} : undefined;
    const ran = run(t, 'other-tool', 'true', { group, config }, entry);
    t.is(ran.status, 127);
    t.regex(ran.stderr, /is not installed/);
  });
}

/** The content of files that states would write. */
function filesOf(resolved: ReturnType<typeof resolveCall>): Readonly<Record<string, string>> {
  if (!resolved.ok) throw new Error(resolved.reason);
  const states = JSON.parse(JSON.stringify(resolved.call.params.states));
  const args = Object.values(states).map((state) => {
    const [, ...list] = (state as { file: [string, ...object[]] }).file;
    return Object.assign({}, ...list);
  });
  return Object.fromEntries(args.map((it) => [it.name, it.contents]));
}

test('json-file writes objects where its entry says, with sorted keys', (t) => {
  const config = { '/etc/web/a.json': { b: 1, a: [true] } };
  const files = filesOf(resolve({ group: 'json-file', config }, { paths: ['/etc/web'] }));
  t.deepEqual(files, { '/etc/web/a.json': '{\n    "a": [\n        true\n    ],\n    "b": 1\n}' });
});

for (const bad of ['/etc/webx/a', '/etc/web/../shadow', '/etc/web', '/etc/web/', 'etc/web/a']) {
  test(`json-file writes no ${bad}`, (t) => {
    const resolved = resolve(
      { group: 'json-file', config: { [bad]: {} } },
      { paths: ['/etc/web'] },
    );
    t.like(resolved, { ok: false });
  });
}

test('hiera writes its configuration and data', (t) => {
  const config = JSON.stringify({
    hierarchy: ['%{::hostname}', 'common'],
    datafiles: { common: { a: 1 } },
  });
  const files = filesOf(resolve({ group: 'hiera', config }, { paths: ['/etc/puppet'] }));
  t.deepEqual(files, {
    '/etc/puppet/hiera.yaml':
      '---\n:backends:\n  - json\n:json:\n  :datadir: /etc/puppet/hieradata\n:hierarchy:\n  - "%{::hostname}"\n  - "common"\n',
    '/etc/puppet/hieradata/common.json': '{\n    "a": 1\n}',
  });
  const outside = { datafiles: { '../../shadow': {} } };
  t.like(resolve({ group: 'hiera', config: outside }), { ok: false });
});

const refused: readonly (readonly [string, Partial<Deployment>, object | undefined, RegExp])[] = [
  ['without an entry', { group: 'puppet', config: 'x' }, none, /group "puppet" is not supported/],
  [
    'that nobody knows',
    { group: 'docker-compose' },
    none,
    /group "docker-compose" is not supported/,
  ],
  ['without a name', { group: 'Heat::Ungrouped' }, none, /is not supported/],
  [
    'with a module path',
    { group: 'puppet', config: 'x', options: { modulepath: '/tmp' } },
    undefined,
    /modulepath/,
  ],
  [
    'with an inventory',
    { group: 'ansible', config: 'x', options: { inventory: 'evil,' } },
    undefined,
    /inventory/,
  ],
  [
    'with a kitchen',
    { group: 'chef', config: '[]', options: { kitchen: 'https://x' } },
    undefined,
    /kitchen/,
  ],
  [
    'with an option as a value',
    { group: 'puppet', config: 'x', options: { tags: '--test' } },
    undefined,
    /plain text/,
  ],
  ['with no manifest', { group: 'puppet', config: {} }, undefined, /no text/],
  ['with a list that is none', { group: 'chef', config: '["a; b"]' }, undefined, /recipes/],
  [
    'with inputs that its entry lacks',
    { group: 'puppet', config: 'x', inputs: { bar: 1 } },
    undefined,
    /site\.code/,
  ],
];

for (const [what, deployment, entry, reason] of refused) {
  test(`a config ${what} is answered with the reason`, (t) => {
    const resolved = resolve(deployment, entry);
    t.regex(resolved.ok ? '' : resolved.reason, reason);
  });
}

const catalogs: readonly (readonly [string, object, RegExp])[] = [
  ['a group of tools without a permission', { group: 'puppet' }, /sha256/],
  ['two permissions', { group: 'json-file', unsafe: 'i-understand', paths: ['/a'] }, /sha256/],
  ['paths of code', { group: 'puppet', paths: ['/a'] }, /only for the groups/],
  [
    'a digest of what has no config',
    { group: 'apply-config', unsafe: 'i-understand' },
    /no config/,
  ],
  [
    'an option that nobody knows',
    { group: 'puppet', unsafe: 'i-understand', options: { x: 'y' } },
    /options/,
  ],
];

for (const [what, entry, message] of catalogs) {
  test(`the catalog refuses ${what}`, (t) => {
    t.throws(() => parseCodeEntry('site.code', { description: 'x', ...entry }), {
      code: 'ERR_CATALOG',
      message,
    });
  });
}

// Real tools.

/** Runs the code of a deployment with what this machine has installed. */
function runReal(deployment: Partial<Deployment>): Ran {
  const resolved = resolve(deployment);
  if (!resolved.ok) throw new Error(resolved.reason);
  const { code } = resolved.call.params;
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', String(code)]);
  return { status, stderr: `${stderr}`, ...readScriptOutput(String(code), `${stdout}`) };
}

function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
}

const greeting = `it's "$(id)"`;

testWhere(isInstalled('ansible-playbook'), 'ansible-playbook')(
  'a real Ansible applies a playbook with its variables and outputs',
  (t) => {
    const config = `- hosts: all
  gather_facts: false
  tasks:
    - copy: { content: "{{ foo }} {{ n[0] + 1 }}", dest: "{{ heat_outputs_path }}.r" }
`;
    const inputs = { foo: greeting, n: [1] };
    const ran = runReal({ group: 'ansible', config, inputs, outputs: ['r'] });
    t.is(ran.status, 0, ran.stdout + ran.stderr);
    t.is(ran.outputs.r, `${greeting} 2`);
  },
);

testWhere(isInstalled('puppet'), 'puppet')(
  'a real Puppet applies a manifest with its facts and outputs',
  (t) => {
    const config =
      "$p = $facts['heat_outputs_path']\nfile { \"$p.r\": content => $facts['foo'] }\n";
    const inputs = { foo: greeting };
    const ran = runReal({ group: 'puppet', config, inputs, outputs: ['r'] });
    t.is(ran.status, 0, ran.stdout + ran.stderr);
    t.is(ran.outputs.r, greeting);
    t.not(runReal({ group: 'puppet', config: 'fail("no")' }).status, 0);
  },
);

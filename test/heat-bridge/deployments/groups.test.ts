/** Groups of software configs: what each group runs on a minion, and which results are returned. */
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
import { Catalog, type CommandDefinition } from '#heat-bridge';
import { testWhere } from '../../helpers/needs.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
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
  return resolveCall(
    { ...whole, group, ...deployment },
    { commands: new Catalog([]), code: new CodeCatalog(definitions), mayCall: () => true },
  );
}

const none = {};

const whole: Deployment = {
  id: 'config-1',
  name: 'deploy-it',
  group: '',
  config: '',
  action: 'CREATE',
  inputs: {},
  outputs: [],
  signal: { transport: 'NO_SIGNAL' },
};

/** Parses a command with its own parameters. */
function parseDefinition(properties: object): CommandDefinition {
  return {
    name: 'site.run',
    description: 'x',
    function: 'test.echo',
    reviewed: 'made for this test alone',
    parameters: { type: 'object', properties },
    arguments: Object.fromEntries(Object.keys(properties).map((it) => [it, { parameter: it }])),
  };
}

interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly outputs: Readonly<Record<string, string>>;
}

/**
 * Runs the code of a deployment like a minion does. The tool of the group is replaced by a program
 * that prints its arguments.
 */
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
    maxBuffer: 8_388_608,
  });
  return { status, stderr: `${stderr}`, ...readScriptOutput(String(code), `${stdout}`) };
}

const showCall = 'for it; do printf "%s\\n" "$it"; done';

test('puppet applies the manifest with inputs as facts, and its detailed exit code 2 is success', (t) => {
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
  test(`puppet that ends with ${status} fails`, (t) => {
    t.is(run(t, 'puppet', `exit ${status}`, { group: 'puppet', config: 'x' }).status, status);
  });
}

test('ansible runs the playbook only on the minion, with typed variables', (t) => {
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
  t.true(
    ran.stdout.includes(
      '{"deploy_action":"CREATE","foo":"x","n":[1,true],"heat_config_id":"config-1"}',
    ),
  );
  t.deepEqual(ran.outputs, { r: 'out' });
});

test('an input that Ansible would read as a template is refused', (t) => {
  const inputs = { foo: "{{ lookup('pipe', 'id') }}" };
  t.like(resolve({ group: 'ansible', config: '- hosts: all\n', inputs }), { ok: false });
});

test('chef applies its run list with inputs as attributes', (t) => {
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

test('apply-config runs os-apply-config for any config', (t) => {
  const deployment = { group: 'apply-config', config: 'x' };
  t.is(run(t, 'os-apply-config', 'exit 3', deployment, {}).status, 3);
});

for (const [group, config] of [
  ['puppet', 'x'],
  ['ansible', 'x'],
  ['chef', '["a"]'],
  ['apply-config', 'x'],
] as const) {
  test(`${group} that is not installed fails with a reason`, (t) => {
    const entry = group === 'apply-config' ? {} : undefined;
    const ran = run(t, 'other-tool', 'true', { group, config }, entry);
    t.is(ran.status, 127);
    t.regex(ran.stderr, /is not installed/);
  });
}

/** Returns the content of the files that states would write. */
function filesOf(resolved: ReturnType<typeof resolveCall>): Readonly<Record<string, string>> {
  if (!resolved.ok) throw new Error(resolved.reason);
  const states = JSON.parse(JSON.stringify(resolved.call.params.states));
  const args = Object.values(states).map((state) => {
    const [, ...list] = (state as { file: [string, ...object[]] }).file;
    return Object.assign({}, ...list);
  });
  return Object.fromEntries(args.map((it) => [it.name, it.contents]));
}

test('json-file writes objects to the paths of its entry, with sorted keys', (t) => {
  const config = { '/etc/web/a.json': { b: 1, a: [true] } };
  const files = filesOf(resolve({ group: 'json-file', config }, { paths: ['/etc/web'] }));
  t.deepEqual(files, { '/etc/web/a.json': '{\n    "a": [\n        true\n    ],\n    "b": 1\n}' });
});

for (const bad of ['/etc/webx/a', '/etc/web/../shadow', '/etc/web', '/etc/web/', 'etc/web/a']) {
  test(`json-file refuses to write ${bad}`, (t) => {
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
  ['without an entry', { group: 'puppet', config: 'x' }, none, /group "puppet" is not enabled/],
  [
    'of an unsupported group',
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
    /may contain only/,
  ],
  ['with no manifest', { group: 'puppet', config: {} }, undefined, /non-empty text/],
  ['with an invalid list', { group: 'chef', config: '["a; b"]' }, undefined, /recipes/],
  [
    'with inputs that its entry lacks',
    { group: 'puppet', config: 'x', inputs: { bar: 1 } },
    undefined,
    /site\.code/,
  ],
];

for (const [what, deployment, entry, reason] of refused) {
  test(`a config ${what} fails with the reason`, (t) => {
    const resolved = resolve(deployment, entry);
    t.regex(resolved.ok ? '' : resolved.reason, reason);
  });
}

const catalogs: readonly (readonly [string, object, RegExp])[] = [
  ['a group of tools without a permission', { group: 'puppet' }, /sha256/],
  ['two permissions', { group: 'json-file', unsafe: 'i-understand', paths: ['/a'] }, /sha256/],
  ['paths of code', { group: 'puppet', paths: ['/a'] }, /only permitted for the groups/],
  [
    'a digest of what has no config',
    { group: 'apply-config', unsafe: 'i-understand' },
    /have no code/,
  ],
  [
    'an unknown option',
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

/** Data of a deployment from Heat, besides its inputs. */
const facts = {
  action: 'UPDATE',
  serverId: 'srv-1',
  resource: { stackPath: 'c1/x', name: 'dep' },
} as const;
const showFacts = (prefix = '') =>
  ['server_id', 'action', 'stack_id', 'resource_name']
    .map((it) => `"$${prefix}deploy_${it}"`)
    .join(' ');
const shownFacts = 'srv-1 UPDATE c1/x dep';

test('a script reads the server, action, stack and resource, declared or not', (t) => {
  const config = `#!/bin/sh\necho ${showFacts()} "$foo"\n`;
  for (const declared of [{}, { deploy_action: { type: 'string' } }]) {
    const parameters = { type: 'object', properties: { foo: {}, ...declared } };
    const deployment = { group: 'script', config, inputs: { foo: 'x' }, ...facts };
    const ran = run(t, 'unused', '', deployment, { unsafe: 'i-understand', parameters });
    t.is(ran.stdout, `${shownFacts} x\n`);
  }
});

test('puppet and ansible get the server, action, stack and resource', (t) => {
  const puppet = { group: 'puppet', config: 'x', ...facts };
  t.is(run(t, 'puppet', `echo ${showFacts('FACTER_')}`, puppet).stdout, `${shownFacts}\n`);
  const ansible = { group: 'ansible', config: '- hosts: all\n', ...facts };
  const vars: unknown = JSON.parse(
    run(t, 'ansible-playbook', 'cat "$(echo "$6" | tail -c +2)"', ansible).stdout,
  );
  t.deepEqual(vars, {
    ...{ deploy_server_id: 'srv-1', deploy_action: 'UPDATE', deploy_stack_id: 'c1/x' },
    ...{ deploy_resource_name: 'dep', heat_config_id: 'config-1' },
  });
});

test('a deployment reveals no entry that its owner may not call', (t) => {
  const code = new CodeCatalog([
    parseCodeEntry('site.code', {
      description: 'x',
      group: 'script',
      parameters: { type: 'object', properties: { foo: { type: 'integer' } } },
      unsafe: 'i-understand',
    }),
  ]);
  const commands = new Catalog([parseDefinition({ foo: {} })]);
  const mayCall = (): boolean => false;
  const denied = (deployment: Partial<Deployment>, entries = code) =>
    resolveCall({ ...whole, ...deployment }, { commands, code: entries, mayCall });
  const script = { group: 'script', config: 'echo', inputs: { foo: 'no number' } };
  t.deepEqual(denied(script), denied(script, new CodeCatalog([])));
  const named = { group: 'saltbridge', inputs: { unknown: 1 } };
  t.deepEqual(denied({ ...named, config: 'site.run' }), denied({ ...named, config: 'site.none' }));
});

test('a command gets the server if it declares a parameter for it', (t) => {
  const definition = parseDefinition({ deploy_server_id: { type: 'string' }, foo: {} });
  const deployment = { ...whole, ...facts, group: 'saltbridge', config: 'site.run' };
  const catalogs = {
    commands: new Catalog([definition]),
    code: new CodeCatalog([]),
    mayCall: () => true,
  };
  t.like(resolveCall({ ...deployment, inputs: { foo: 'x' } }, catalogs), {
    call: { params: { deploy_server_id: 'srv-1', foo: 'x' } },
  });
});

test('an output is complete up to 950,000 bytes, and a truncated output has a note', (t) => {
  const config = [
    '#!/bin/sh',
    'head -c 70003 /dev/zero | tr "\\0" a > "$heat_outputs_path.long"',
    'head -c 950001 /dev/zero | tr "\\0" b > "$heat_outputs_path.longer"',
    ': > "$heat_outputs_path.empty"',
    'printf c > "$heat_outputs_path.with blank and é"',
  ].join('\n');
  const outputs = ['long', 'longer', 'empty', 'with blank and é', 'missing', '../x'];
  const ran = run(t, 'unused', '', { group: 'script', config, outputs });
  t.true(ran.outputs.long === 'a'.repeat(70_003));
  t.true(ran.outputs.longer === `${'b'.repeat(950_000)}\n[cut: the first 950000 of 950001 bytes]`);
  t.is(ran.outputs.empty, '');
  t.is(ran.outputs['with blank and é'], 'c');
  t.deepEqual(Object.keys(ran.outputs).sort(), ['empty', 'long', 'longer', 'with blank and é']);
});

/** Runs a script whose directory for temporary files is a separate file system. */
function runWithin(options: string, directory: string): Ran {
  const config = '#!/bin/sh\necho ran\n';
  const resolved = resolve({ group: 'script', config });
  const code = resolved.ok ? String(resolved.call.params.code) : '';
  const mount = 'mount -t tmpfs -o "$0" t "$1" && TMPDIR="$1" exec /bin/sh -c "$2"';
  const args = ['-m', '/bin/sh', '-c', mount, options, directory, code];
  const { status, stdout, stderr } = spawnSync('unshare', args);
  return { status, stderr: `${stderr}`, ...readScriptOutput(code, `${stdout}`) };
}

const mayMount = spawnSync('unshare', ['-m', 'true']).status === 0;
for (const options of ['noexec', 'ro']) {
  testWhere(mayMount, 'the right to mount')(
    `a script runs where temporary files are on a file system with ${options}`,
    (t) => {
      const ran = runWithin(options, temporaryDirectory(t));
      t.like(ran, { status: 0, stdout: 'ran\n' }, ran.stderr);
    },
  );
}

function slsOf(deployment: Partial<Deployment>, parameters?: object): string {
  const entry = { unsafe: 'i-understand', ...(parameters === undefined ? {} : { parameters }) };
  const resolved = resolve({ group: 'salt', ...deployment }, entry);
  return resolved.ok ? String(resolved.call.params.tem) : resolved.reason;
}

test('SLS may be a map, whose Jinja expressions are preserved', (t) => {
  const config = {
    motd: { 'file.managed': [{ name: '/etc/motd' }, { contents: '{{ opts["foo"] }}' }] },
  };
  const tem = slsOf({ config, inputs: { foo: 'hi' } });
  t.true(
    tem.endsWith(
      `\n{"motd": {"file.managed": [{"name": "/etc/motd"}, {"contents": '{{ opts["foo"] }}'}]}}`,
    ),
    tem,
  );
  t.regex(tem, /^\{%- set saltbridge_inputs = '[\w=]+' \| base64_decode \| load_json -%\}/);
});

test("SLS that reads Heat's values gets them in pillar and opts", (t) => {
  const tem = slsOf({ config: "a: {test.nop: [{name: {{ opts['deploy_action'] }}}]}", ...facts });
  const [, encoded = ''] = /'([\w=]+)'/.exec(tem) ?? [];
  t.like(JSON.parse(Buffer.from(encoded, 'base64').toString()), { deploy_action: 'UPDATE' });
});

test('SLS refuses inputs and names from Heat that Salt would interpret', (t) => {
  const slot = '__slot__:salt:cmd.run(id)';
  const parameters = {
    type: 'object',
    properties: { foo: { type: 'string', 'x-quoted-by-template': true }, list: {} },
  };
  const config = "a: {test.nop: [{name: {{ pillar['foo'] }}}]}";
  for (const inputs of [{ foo: slot }, { list: [{ a: slot }] }]) {
    t.regex(
      slsOf({ config, inputs }, parameters),
      /(?:foo|list\.0\.a): must not contain __slot__:/,
    );
  }
  const named = { ...facts, resource: { stackPath: 'c1/x', name: slot } };
  const reading = "a: {test.nop: [{name: {{ opts['deploy_resource_name'] }}}]}";
  t.regex(slsOf({ config: reading, ...named }), /deploy_resource_name must not contain __slot__:/);
  const own = "a: {test.nop: [{name: '__slot__:salt:test.echo(a)'}]}";
  t.is(slsOf({ config: own }), own);
});

for (const reader of [
  "salt['config.get']('foo')",
  'salt["pillar.get"]( "foo", none )',
  "salt.config.get('foo', default='x')",
]) {
  test(`SLS gets its input where it reads it by ${reader}`, (t) => {
    const config = `a: {test.nop: [{name: {{ ${reader} }}}]}`;
    const tem = slsOf({ config, inputs: { foo: 'hi' } });
    t.true(tem.endsWith("a: {test.nop: [{name: {{ saltbridge_inputs['foo'] }}}]}"), tem);
    const other = config.replace('foo', 'other');
    t.true(slsOf({ config: other, inputs: { foo: 'hi' } }).endsWith(other));
  });
}

for (const [what, code] of [
  ['a raw block', "{% raw %}{{ salt['config.get']('foo') }}{% endraw %}"],
  ['plain text', "salt['config.get']('foo')"],
  ['text in quotes', `{{ "salt['config.get']('foo')" }}`],
] as const) {
  test(`a call in ${what} of an SLS is not replaced, but refused`, (t) => {
    const config = `a: {test.nop: [{name: x}]}\n# ${code}\n`;
    t.regex(slsOf({ config, inputs: { foo: 'hi' } }), /cannot return the input foo/);
  });
}

for (const reader of [
  'salt.config.get("foo:bar")',
  "salt['config.option']('foo')",
  "salt['pillar.get']('foo', salt['grains.get']('x'))",
]) {
  test(`SLS without its input is refused: ${reader}`, (t) => {
    const config = `a: {test.nop: [{name: {{ ${reader} }}}]}`;
    t.regex(
      slsOf({ config, inputs: { foo: 'hi' } }),
      /cannot return the input foo; write pillar\['foo'\]/,
    );
    t.regex(slsOf({ config: config.replace('foo', 'other'), inputs: { foo: 'hi' } }), /^\{%- set/);
  });
}

test('inputs of SLS may have names with a dash, but not those of scripts', (t) => {
  const parameters = { type: 'object', properties: { 'pkg-redhat': { type: 'string' } } };
  t.regex(
    slsOf({ config: 'a: {test.nop: []}', inputs: { 'pkg-redhat': 'httpd' } }, parameters),
    /^\{%/,
  );
  const script = { group: 'script', config: '#!/bin/sh' };
  t.throws(() => resolve(script, { unsafe: 'i-understand', parameters }), {
    message: /"pkg-redhat": the name of a parameter/,
  });
});

/** Runs the code of a deployment with the programs of this machine. */
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

/** `install:` in the catalog, and deployments of the group cfn-init, with embedded minions. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { codeDigest } from '#guests/deployments/code-catalog.ts';
import { Catalog, type CommandDefinition } from '#heat-bridge';
import type { MinionFunction } from '#minion-protocol';
import { until } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { type StandInHeat, startStandInHeat } from '../deployments/stand-in-heat.ts';
import { type BridgeStage, startBridge } from '../stage.ts';

const web: CommandDefinition = {
  name: 'demo.web',
  description: 'Installs the web server of a tenant.',
  parameters: {
    type: 'object',
    required: ['port', 'password'],
    properties: {
      port: { type: 'integer' },
      password: { type: 'string' },
      version: { type: 'string' },
      database: { type: 'string' },
    },
  },
  secret: ['password'],
  install: [
    {
      name: 'base',
      packages: ['curl', { name: 'nginx', version: { parameter: 'version' } }],
      groups: [{ name: 'web', gid: 900 }],
      users: [{ name: 'web', uid: 900, groups: ['web'], home: '/srv/web' }],
      tarballs: [{ directory: '/srv/web', url: 'https://host/web.tar.gz', sha256: 'a'.repeat(64) }],
    },
    {
      name: 'site',
      files: [
        {
          path: '/etc/web.conf',
          content: 'port={{port}}\npassword={{password}}\n',
          variables: { port: { parameter: 'port' }, password: { parameter: 'password' } },
          mode: '0640',
          owner: 'web',
          selinux: { type: 'httpd_config_t' },
        },
      ],
      scripts: [{ name: 'migrate', command: ['/srv/web/migrate', { parameter: 'database' }] }],
      services: [
        { name: 'nginx', enabled: true, running: true, restart_on: { files: ['/etc/web.conf'] } },
      ],
    },
  ],
};

/** States in the pillar of a minion while a job runs. */
type FoundStates = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

interface Run {
  readonly stage: BridgeStage;
  /** States that each run found in its pillar. */
  readonly found: FoundStates[];
}

async function start(
  t: ExecutionContext,
  config: Readonly<Record<string, unknown>> = {},
  isSuccess = (): boolean => true,
): Promise<Run> {
  const found: FoundStates[] = [];
  const apply: MinionFunction = async ({ kwargs: { tem } }, { id }) => {
    const [, reference = ''] = /saltbridge:secrets:([0-9a-f]{32}):states/.exec(String(tem)) ?? [];
    const pillar = await stage.master.pillar.show({ minion: id });
    const { saltbridge } = JSON.parse(JSON.stringify(pillar));
    const states: FoundStates = saltbridge.secrets[reference].states;
    found.push(states);
    const results = Object.keys(states).map((key) => [
      `test_|-${key}_|-x_|-y`,
      { __id__: key, result: isSuccess(), changes: {}, comment: 'disk full' },
    ]);
    return Object.fromEntries(results);
  };
  const stage: BridgeStage = await startBridge(t, {
    commands: [web],
    functions: { 'state.template_str': apply },
    rules: [
      allow('all', {
        subject: { service: ['bridge', 'deployments'] },
        action: 'command',
        resource: { fun: ['demo.*', 'site.*'], within: 'web*' },
      }),
    ],
    config: { bridge: config },
  });
  return { stage, found };
}

test('a service installs the entry of the catalog with its own values', async (t) => {
  const { stage, found } = await start(t);
  const params = { port: 80, password: 's3cret{{port}}', database: "it's $(id)" };
  const run = await stage.bridge.run('demo.web', { target: 'web1', params });
  t.is((await run.outcome).status, 'succeeded');
  const states = JSON.stringify(found[0]);
  t.true(states.includes('port=80\\npassword=s3cret{{port}}\\n'));
  t.true(states.includes(`'it'\\\\''s $(id)'`));
  t.true(states.includes('"setype":"httpd_config_t"'));
  const [published] = stage.seen;
  t.is(published?.fun, 'state.template_str');
  t.false(JSON.stringify(published).includes('s3cret'), 'every minion can read a publication');
});

test('the states of a run are compiled once', (t) => {
  const command = new Catalog([web]).get('demo.web');
  const parameters = command.check({ port: 80, password: 'x' });
  t.is(command.pillarOf(parameters).states, command.pillarOf(parameters).states);
});

test('a script of an entry gets each variable of its environment', (t) => {
  const env = { A: 'a', B: { parameter: 'database' }, C: { parameter: 'port' } };
  const script = { name: 'migrate', command: ['/srv/web/migrate'], env };
  const command = new Catalog([
    { ...web, install: [...(web.install ?? []), { name: 'more', scripts: [script] }] },
  ]).get('demo.web');
  const { states } = command.pillarOf(command.check({ port: 80, password: 'x', database: "it's" }));
  // If an entry had several variables, Salt would give the script none of them.
  const text = JSON.stringify(states);
  t.true(text.includes(`"env":[{"A":"a"},{"B":"it's"},{"C":"80"}]`), text);
});

test('values of a wrong type or form are refused before any job is published', async (t) => {
  const { stage } = await start(t);
  const params = { port: 80, password: 'x', version: '1; reboot' };
  await t.throwsAsync(stage.bridge.run('demo.web', { target: 'web1', params }), {
    code: 'ERR_COMMAND_PARAMETERS',
    message: /a version must begin with/,
  });
  t.deepEqual(stage.seen, []);
});

test('an installation with a failed state fails', async (t) => {
  const { stage } = await start(t, {}, () => false);
  const params = { port: 80, password: 'x' };
  const run = await stage.bridge.run('demo.web', { target: 'web1', params });
  const { status, results } = await run.outcome;
  t.is(status, 'failed');
  t.is(results[0]?.reason, 'the minion failed to apply at least one state');
});

const wrong: readonly (readonly [string, object, RegExp])[] = [
  [
    'a path',
    { files: [{ path: { parameter: 'p' }, content: '' }] },
    /a parameter is not permitted here/,
  ],
  [
    'a program',
    { scripts: [{ name: 'a', command: [{ parameter: 'p' }] }] },
    /a parameter is not permitted here/,
  ],
  [
    'text for a shell',
    { scripts: [{ name: 'a', command: { parameter: 'p' } }] },
    /is not permitted here/,
  ],
  ['a package', { packages: [{ name: { parameter: 'p' } }] }, /a parameter is not permitted here/],
  [
    'an address',
    { tarballs: [{ directory: '/a', url: { parameter: 'p' } }] },
    /is not permitted here/,
  ],
  ['nothing', { packages: ['curl'] }, /does not use this parameter/],
  [
    'an unknown field',
    { file: [], packages: [{ name: 'a', version: { parameter: 'p' } }] },
    /unknown field/,
  ],
];

for (const [what, group, message] of wrong) {
  test(`the catalog refuses a parameter as ${what}`, async (t) => {
    const parameters = { type: 'object', properties: { p: { type: 'string' } } };
    const command = { ...web, parameters, secret: [], install: [{ name: 'one', ...group }] };
    await t.throwsAsync(startBridge(t, { commands: [command] }), { code: 'ERR_CATALOG', message });
  });
}

const init = {
  configSets: { default: ['one'], other: ['two'] },
  one: { files: { '/etc/motd': { content: 'one\n' } }, commands: { a: { command: 'id' } } },
  two: { files: { '/etc/motd': { content: 'two\n' } } },
};

function catalog(permission: string): string {
  return `
deployments:
  site.init:
    description: What was looked at.
    group: cfn-init
    ${permission}
    parameters: { type: object, properties: { configSets: { type: string } } }
`;
}

async function deploy(
  t: ExecutionContext,
  permission: string,
  isSuccess?: () => boolean,
): Promise<Run & { readonly heat: StandInHeat }> {
  const heat = await startStandInHeat(t);
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'code.yaml'), catalog(permission));
  const run = await start(
    t,
    {
      catalog: [directory],
      handles: { endpoints: [heat.origin] },
      deployments: { poll_interval: 1, polls_per_second: 100 },
    },
    isSuccess,
  );
  await run.stage.bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server-1', minion: 'web1' }],
    login: { auth_url: `${heat.origin}/v3`, user_id: 'owner', password: 'secret', project_id: 'p' },
  });
  return { ...run, heat };
}

async function results(heat: StandInHeat, count: number): Promise<StandInHeat['results']> {
  await until(`${count} results`, () => heat.results.length >= count);
  return heat.results;
}

test('metadata pinned by an entry is applied, as text and as a map', async (t) => {
  const digests = [codeDigest(init), codeDigest(JSON.stringify(init))];
  const { stage, found, heat } = await deploy(t, `sha256: [${digests.join(', ')}]`);
  const text = { group: 'cfn-init', config: JSON.stringify(init) };
  heat.servers.set('server-1', [
    heat.entry('one', { group: 'cfn-init', config: init }),
    heat.entry('two', text, { configSets: 'other, default' }),
    heat.entry('three', { group: 'cfn-init', config: { ...init, more: {} } }),
  ]);
  const [first, second, third] = await results(heat, 3);
  t.deepEqual(first?.values, {
    deploy_stdout: 'config one: files: /etc/motd: unchanged\nconfig one: commands: a: unchanged',
    deploy_stderr: '',
    deploy_status_code: 0,
    saltbridge_deployment: 'one',
  });
  t.is(second?.values.deploy_status_code, 0);
  t.is(Object.keys(found[1] ?? {}).length, 3);
  t.is(third?.values.deploy_status_code, 1);
  t.regex(String(third?.values.deploy_stderr), /^refused: .* permits this code/);
  t.is(stage.seen.length, 2);
});

test('metadata not pinned by an entry is refused', async (t) => {
  const { stage, heat } = await deploy(t, `sha256: [${'a'.repeat(64)}]`);
  heat.servers.set('server-1', [heat.entry('one', { group: 'cfn-init', config: init })]);
  const [result] = await results(heat, 1);
  t.regex(String(result?.values.deploy_stderr), new RegExp(`SHA-256 ${codeDigest(init)}`));
  t.deepEqual(stage.seen, []);
});

test('metadata that is invalid, or has a failed state, fails with the reason', async (t) => {
  const { heat } = await deploy(t, 'unsafe: i-understand', () => false);
  heat.servers.set('server-1', [
    heat.entry('one', { group: 'cfn-init', config: 'no: json' }),
    heat.entry('two', { group: 'cfn-init', config: init }, { configSets: 'none', filled: 'in' }),
    heat.entry('three', { group: 'cfn-init', config: init }),
  ]);
  const [first, second, third] = await results(heat, 3);
  t.regex(String(first?.values.deploy_stderr), /^refused: AWS::CloudFormation::Init/);
  t.regex(String(second?.values.deploy_stderr), /^refused: configSets: unknown config set none/);
  t.is(third?.values.deploy_status_code, 1);
  t.is(
    third?.values.deploy_stderr,
    'config one: files: /etc/motd: disk full\nconfig one: commands: a: disk full',
  );
});

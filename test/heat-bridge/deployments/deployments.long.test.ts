/**
 * Software deployments with recorded responses of a real Heat: which ones run, which are refused,
 * and what is reported to Heat.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';
import { allow } from '#acl';
import type { StackDetails } from '#guests';
import type { DeploymentRecord } from '#guests/deployments/deployment-records.ts';
import { DeploymentRuns } from '#guests/deployments/deployment-runs.ts';
import { StackLogins } from '#guests/deployments/logins.ts';
import { describeResourceUrl } from '#guests/deployments/sources.ts';
import { minionOfServer } from '#guests/deployments/stack-servers.ts';
import type { Ask, CommandDefinition } from '#heat-bridge';
import { jsonOf } from '#heat-bridge/transports/heat-requests.ts';
import type { MinionFunction } from '#minion-protocol';
import { until } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { eventually } from '../../interop/eventually.ts';
import { type BridgeStage, echo, startBridge } from '../stage.ts';
import {
  type CollectKind,
  type Entry,
  recordings,
  type StandInHeat,
  startStandInHeat,
} from './stand-in-heat.ts';

const numbered: CommandDefinition = {
  ...echo,
  reviewed: 'made for this test alone',
  parameters: {
    type: 'object',
    required: ['text'],
    properties: { text: { type: 'string' }, n: { type: 'number' } },
  },
};
const stateful: CommandDefinition = {
  name: 'demo.apply',
  description: 'Applies a state file.',
  state: 'site.web',
  reviewed: 'made for this test alone',
  parameters: { type: 'object', properties: { port: { type: 'number' } } },
};
const script = '#!/bin/sh\necho "hello $who"\nprintf 17 > $heat_outputs_path.size\nexit $code\n';
const sha256 = createHash('sha256').update(script).digest('hex');
const sls = "{{ pillar['path'] }}:\n  file.managed: [{contents: x}]\n";
const slsDigest = createHash('sha256').update(sls).digest('hex');
const codeFile = `
deployments:
  site.sls:
    description: SLS that was looked at.
    group: salt
    sha256: [${slsDigest}]
    parameters:
      type: object
      properties: { path: { type: string } }
  site.script:
    description: A script that was looked at.
    group: script
    sha256: [${sha256}]
    parameters:
      type: object
      properties: { who: { type: string }, code: { type: string } }
`;

const catalogBody = JSON.stringify({ token: { catalog: [] } });

interface Setup {
  readonly functions?: Readonly<Record<string, MinionFunction>>;
  readonly interval?: number;
  readonly perSecond?: number;
  readonly endpoints?: readonly string[];
  readonly commands?: readonly CommandDefinition[];
}

interface Stage extends BridgeStage {
  readonly heat: StandInHeat;
}

/** Function of a minion that runs a shell script. */
const shell: MinionFunction = ({ kwargs }) => {
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', String(kwargs.code)]);
  return { pid: 1, retcode: status ?? 1, stdout: `${stdout}`, stderr: `${stderr}` };
};

async function start(t: ExecutionContext, setup: Setup = {}): Promise<Stage> {
  const heat = await startStandInHeat(t);
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'code.yaml'), codeFile);
  const stage = await startBridge(t, {
    commands: setup.commands ?? [numbered, stateful],
    rules: [
      allow('deployments', {
        subject: { service: 'deployments' },
        action: 'command',
        resource: { fun: ['demo.*', 'site.*'], within: 'web*' },
      }),
    ],
    functions: {
      'test.echo': ({ kwargs: { text } }) => text ?? null,
      ...setup.functions,
    },
    config: {
      bridge: {
        catalog: [directory],
        handles: { endpoints: setup.endpoints ?? [heat.origin] },
        deployments: {
          poll_interval: setup.interval ?? 1,
          polls_per_second: setup.perSecond ?? 100,
          retry_max_delay: 1,
        },
      },
    },
  });
  return { ...stage, heat };
}

/** Registers `server-1` as web1. Its stack has its own log-in. */
async function register(
  { bridge, heat }: Stage,
  name = 'demo',
  { server = 'server-1', minion = 'web1', user = 'owner' } = {},
): Promise<void> {
  await bridge.stacks.add({
    name,
    servers: [{ server, minion }],
    login: { auth_url: `${heat.origin}/v3`, user_id: user, password: 'secret', project_id: 'p' },
  });
}

/** Waits until Heat has received `count` results. */
async function results(heat: StandInHeat, count: number): Promise<StandInHeat['results']> {
  await until(`${count} results`, () => heat.results.length >= count);
  return heat.results;
}

async function show({ bridge }: Stage): Promise<StackDetails> {
  return bridge.stacks.show('demo');
}

/** Waits until the first deployment has ended. */
function done(stage: Stage): Promise<void> {
  return eventually('the deployment to be over', async () => {
    const [first] = (await show(stage)).deployments;
    return first?.state === 'done';
  });
}

const kinds: readonly (readonly [CollectKind, RegExp])[] = [
  ['heat', /\/stacks\/.*\/resources\/deploy_heat\/signal$/],
  ['cfn', /^\/v1\/signal\/arn/],
  ['message', /\/v2\/queues\/.*\/messages$/],
  ['url', /AUTH_/],
];

for (const [kind, place] of kinds) {
  test.serial(
    `a deployment read by ${kind} runs once and signals the address from Heat`,
    async (t) => {
      const { bridge, seen, heat } = await start(t);
      const collect = heat.collect(kind);
      await bridge.stacks.add({
        name: 'demo',
        servers: [{ server: 'server', minion: 'web1', collect }],
      });
      const [result] = await results(heat, 1);
      t.regex(result?.path ?? '', place);
      const { saltbridge_deployment: id, ...values } = result?.values ?? {};
      t.is(typeof id, 'string');
      t.deepEqual(values, {
        result: 'hi',
        deploy_stdout: 'hi',
        deploy_stderr: '',
        deploy_status_code: 0,
      });
      const reads = heat.requests.length;
      await until('two more reads', () => heat.requests.length > reads + 3);
      t.deepEqual(
        seen.map(({ id: minion, kwargs }) => [minion, kwargs]),
        [['web1', { text: 'hi', n: 3 }]],
      );
      t.is(heat.results.length, 1);
    },
  );
}

test.serial('requests to heat-api-cfn are signed like recorded requests', (t) => {
  const { cfn } = recordings.collect.occ_cfn ?? {};
  const recorded = new URL(recordings['cfn-request'], 'http://127.0.0.1:15202');
  const time = Date.parse(recorded.searchParams.get('Timestamp') ?? '');
  t.is(cfn && describeResourceUrl(cfn, time), recorded.href);
});

const refusals: readonly (readonly [string, Partial<Entry>, RegExp, object?])[] = [
  ['an unsupported group', { group: 'puppet' }, /group "puppet" is not enabled/],
  ['no group', { group: 'Heat::Ungrouped' }, /is not supported/],
  ['a command that the catalog lacks', { config: 'cmd.run' }, /must name a command/],
  ['parameters that do not fit', {}, /demo\.echo: a parameter/, { text: 4, x: 1 }],
  ['inline SLS', { group: 'salt', config: 'a:\n  cmd.run: [{name: id}]' }, /inline SLS/],
  ['a state file that no command applies', { group: 'salt-state', config: 'top' }, /state file/],
  ['an action that Heat does not know', {}, /not a known action/, { deploy_action: 'EXPLODE' }],
];

async function isRefused(
  t: ExecutionContext,
  more: Partial<Entry>,
  inputs: Readonly<Record<string, unknown>>,
  reason: RegExp,
): Promise<void> {
  const stage = await start(t, { functions: { 'cmd.exec_code_all': shell } });
  const { heat, seen } = stage;
  heat.servers.set('server-1', [heat.entry('one', more, inputs)]);
  await register(stage);
  const [result] = await results(heat, 1);
  t.is(result?.values.deploy_status_code, 1);
  t.regex(String(result?.values.deploy_stderr), reason);
  t.regex(String(result?.values.deploy_stderr), /^refused: /);
  t.deepEqual(seen, []);
}

for (const [what, more, reason, inputs = { text: 'x' }] of refusals) {
  test.serial(`a deployment with ${what} is refused, and Heat gets the reason`, async (t) => {
    await isRefused(t, more, { ...inputs }, reason);
  });
}

test.serial('a script not pinned in the catalog does not run', async (t) => {
  const given = { group: 'script', config: '#!/bin/sh\nid\n' };
  await isRefused(t, given, {}, /permits this code/);
});

test.serial('a script gets only the inputs that its entry names', async (t) => {
  const given = { group: 'script', config: script };
  await isRefused(t, given, { LD_PRELOAD: '/tmp/x.so' }, /site\.script/);
});

test.serial('a minion not permitted by a rule gets no job', async (t) => {
  const stage = await start(t);
  const { heat, seen } = stage;
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
  await register(stage, 'demo', { minion: 'db1' });
  const [result] = await results(heat, 1);
  t.regex(String(result?.values.deploy_stderr), /^refused: demo\.echo: no rule permits/);
  t.deepEqual(seen, []);
});

test.serial('a state file is applied with the inputs as pillar', async (t) => {
  const stage = await start(t, { functions: { 'state.apply': () => ({ done: true }) } });
  const { heat, seen } = stage;
  heat.servers.set('server-1', [
    heat.entry('one', { group: 'salt', config: 'site.web' }, { port: 80 }),
  ]);
  await register(stage);
  const [result] = await results(heat, 1);
  // Without a type, Heat's inputs have the type String.
  t.regex(String(result?.values.deploy_stderr), /port/);
  const typed = heat.entry('two', { group: 'salt', config: 'site.web' });
  heat.servers.set('server-1', [
    { ...typed, inputs: [...typed.inputs, { name: 'port', type: 'Number', value: '80' }] },
  ]);
  t.is((await results(heat, 2))[1]?.values.deploy_status_code, 0);
  t.deepEqual(seen[0]?.kwargs, { mods: 'site.web', pillar: { port: 80 } });
});

test.serial('inline SLS runs only if it is pinned, with its inputs as pillar', async (t) => {
  const stage = await start(t, { functions: { 'state.template_str': () => ({ done: true }) } });
  const { heat, seen } = stage;
  const [salt, other] = [
    { group: 'salt', config: sls },
    { group: 'salt', config: `${sls}\n` },
  ];
  heat.servers.set('server-1', [
    heat.entry('pinned', salt, { path: '/tmp/x' }),
    heat.entry('another', other, { path: '/tmp/x' }),
    heat.entry('yaml', salt, { path: 'x: {cmd.run: [{name: id}]}' }),
    heat.entry('unnamed', salt, { other: 'x' }),
  ]);
  await register(stage);
  const [pinned, ...refused] = await results(heat, 4);
  t.is(pinned?.values.deploy_status_code, 0);
  const reasons = refused.map(({ values }) => String(values.deploy_stderr));
  t.regex(reasons[0] ?? '', /^refused: group salt: no catalog entry permits this inline SLS/);
  t.regex(reasons[1] ?? '', /^refused: site\.sls: .*YAML reads as a plain string/);
  t.regex(reasons[2] ?? '', /^refused: site\.sls: /);
  t.is(seen.length, 1);
  const { tem, queue } = seen[0]?.kwargs ?? {};
  t.true(queue);
  const encoded = Buffer.from('{"path":"/tmp/x"}').toString('base64');
  const set = [
    `{%- set saltbridge_inputs = '${encoded}' | base64_decode | load_json -%}`,
    '{%- set pillar = dict(pillar, **saltbridge_inputs) -%}',
    '{%- set opts = dict(opts | default({}), **saltbridge_inputs) -%}',
  ].join('');
  t.is(tem, `${set}\n${sls}`);
});

test.serial('deployments, reads and servers are counted', async (t) => {
  const stage = await start(t);
  const { heat, master } = stage;
  heat.servers.set('server-1', [
    heat.entry('one', {}, { text: 'x' }),
    heat.entry('two', { group: 'puppet' }),
  ]);
  await register(stage);
  await results(heat, 2);
  await eventually('both to be over', async () => {
    return (await show(stage)).deployments.every(({ state }) => state === 'done');
  });
  const families = await master.metrics();
  const value = (name: string, label: string): number | undefined => {
    const family = families.find((it) => it.name === `saltbridge_deployment${name}`);
    const samples = family === undefined || family.type === 'histogram' ? [] : family.samples;
    return samples.find(({ labels }) => Object.values(labels).includes(label))?.value;
  };
  t.is(value('s_total', 'succeeded'), 1);
  t.is(value('s_total', 'refused'), 1);
  t.is(value('_signals_total', 'delivered'), 2);
  t.is(value('_servers', 'followed'), 1);
  t.is(value('s_open', 'running'), 0);
  t.true((value('_reads_total', 'metadata') ?? 0) >= 2);
});

test.serial('a pinned script runs with its inputs, and its files are outputs', async (t) => {
  const stage = await start(t, { functions: { 'cmd.exec_code_all': shell } });
  const { heat } = stage;
  const outputs = [{ name: 'size' }];
  const pinned = { group: 'script', config: script, outputs };
  heat.servers.set('server-1', [
    heat.entry('one', pinned, { who: `it's "$HOME" \`id\``, code: '0' }),
    heat.entry('two', pinned, { who: 'two', code: '3' }),
  ]);
  await register(stage);
  const [first, second] = await results(heat, 2);
  t.like(first?.values, {
    deploy_stdout: `hello it's "$HOME" \`id\`\n`,
    deploy_status_code: 0,
    size: '17',
  });
  t.like(second?.values, { deploy_stdout: 'hello two\n', deploy_status_code: 3, size: '17' });
});

test.serial(
  'a failed command is reported with its error, and the next deployment runs',
  async (t) => {
    const stage = await start(t, {
      functions: {
        'test.echo': ({ kwargs: { text } }) => {
          if (text === 'bad') throw new Error('disk full');
          return text ?? null;
        },
      },
    });
    const { heat, seen } = stage;
    heat.servers.set('server-1', [
      heat.entry('one', {}, { text: 'bad' }),
      heat.entry('two', {}, { text: 'good' }),
    ]);
    await register(stage);
    const [first, second] = await results(heat, 2);
    t.not(first?.values.deploy_status_code, 0);
    t.regex(String(first?.values.deploy_stderr), /disk full/);
    t.is(second?.values.deploy_status_code, 0);
    t.deepEqual(
      seen.map(({ kwargs }) => kwargs.text),
      ['bad', 'good'],
    );
  },
);

test.serial('a run with an unknown result fails the deployment as unknown', async (t) => {
  const stage = await start(t, {
    commands: [{ ...numbered, timeoutSeconds: 1 }],
    functions: { 'test.echo': () => new Promise<never>(() => {}) },
  });
  const { heat } = stage;
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
  await register(stage);
  const [result] = await results(heat, 1);
  t.is(result?.values.deploy_status_code, 1);
  t.regex(String(result?.values.deploy_stderr), /^unknown: /);
});

test.serial('a result that is too large for the transport is truncated, with a note', async (t) => {
  const stage = await start(t, {
    functions: { 'test.echo': () => `begin${'x'.repeat(2_000_000)}end` },
  });
  const { heat } = stage;
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
  await register(stage);
  const [result] = await results(heat, 1);
  t.true(JSON.stringify(result?.values).length < 1_000_000);
  t.regex(String(result?.values.deploy_stdout), /^\[cut: the last \d+ of 2000008 characters\]/);
  t.regex(String(result?.values.deploy_stdout), /end$/);
  t.regex(String(result?.values.result), /^begin/);
  t.regex(String(result?.values.result), /\[cut: the first \d+ of 2000008 characters\]$/);
});

test.serial(
  'an unchanged entry does not run again, and an update runs only changed entries',
  async (t) => {
    const stage = await start(t);
    const { heat, seen } = stage;
    const [a, b] = [heat.entry('a', {}, { text: 'a' }), heat.entry('b', {}, { text: 'b' })];
    heat.servers.set('server-1', [a, b]);
    await register(stage);
    await results(heat, 2);
    heat.servers.set('server-1', [b]);
    await until('an entry to be gone', () => heat.requests.length > 12);
    heat.servers.set('server-1', [
      a,
      b,
      heat.entry('a2', {}, { text: 'a2', deploy_action: 'UPDATE' }),
    ]);
    await results(heat, 3);
    t.deepEqual(
      seen.map(({ kwargs }) => kwargs.text),
      ['a', 'b', 'a2'],
    );
  },
);

test.serial(
  'a result is sent again until Heat accepts it, and dropped if Heat refuses it',
  async (t) => {
    const stage = await start(t);
    const { heat, seen } = stage;
    heat.status = 503;
    heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
    await register(stage);
    await results(heat, 2);
    t.is((await show(stage)).deployments[0]?.state, 'signalling');
    heat.status = 403;
    await done(stage);
    t.regex(
      (await show(stage)).deployments[0]?.reason ?? '',
      /^the result could not be sent to Heat: answered 403/,
    );
    t.is(seen.length, 1);
  },
);

test.serial('without a signal, a deployment runs and no result is sent', async (t) => {
  const stage = await start(t);
  const { heat, seen } = stage;
  heat.servers.set('server-1', [
    heat.entry('one', {}, { text: 'x', deploy_signal_transport: 'NO_SIGNAL' }),
    heat.entry('two', {}, { text: 'y' }),
  ]);
  await register(stage);
  await results(heat, 1);
  t.deepEqual(
    seen.map(({ kwargs }) => kwargs.text),
    ['x', 'y'],
  );
  t.is(heat.results.length, 1);
});

test.serial('the credentials of a stack are not used for other stacks', async (t) => {
  const stage = await start(t);
  const { heat } = stage;
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
  heat.servers.set('server-2', [heat.entry('two', {}, { text: 'y' })]);
  await register(stage, 'first', { server: 'server-1', minion: 'web1', user: 'first' });
  // The first stack has a token by then.
  await results(heat, 1);
  await register(stage, 'second', { server: 'server-2', minion: 'web2', user: 'second' });
  await results(heat, 2);
  const used = heat.requests
    .filter((it) => it.path.includes('/software_deployments/'))
    .map(({ path: place, headers }) => `${place.split('/').at(-1)} ${headers['x-auth-token']}`);
  t.deepEqual([...new Set(used)].sort(), ['server-1 token-of-first', 'server-2 token-of-second']);
});

test.serial('a template can name only minions in its registration', async (t) => {
  const { bridge, heat, seen } = await start(t);
  const collect = heat.collect('heat');
  await bridge.stacks.add({ name: 'demo', servers: [{ server: 'server', collect }] });
  await until('two reads', () => heat.requests.length > 3);
  t.like(await bridge.stacks.show('demo'), { deployments: [] });
  t.deepEqual(seen, []);
  t.regex((await bridge.stacks.show('demo')).followed[0]?.problem ?? '', /no minion is assigned/);
});

test.serial('a service that is not listed gets no request, whoever names it', async (t) => {
  const other = await startStandInHeat(t);
  const stage = await start(t);
  const { bridge, heat } = stage;
  const collect = other.collect('heat');
  const info = await bridge.stacks.add({
    name: 'elsewhere',
    servers: [{ server: 'server', minion: 'web1', collect }],
  });
  t.deepEqual(info.unlisted, [other.origin]);
  const entry = heat.entry('one', {}, { text: 'x', deploy_auth_url: `${other.origin}/v3/` });
  heat.servers.set('server-1', [entry]);
  await register(stage);
  await done(stage);
  // The owner of the stack sends the signal, because the Keystone of the user is not queried.
  t.is(heat.results.length, 1);
  await eventually('the other to be refused', async () => {
    const [server] = (await bridge.stacks.show('elsewhere')).followed;
    return server?.problem?.includes('is not listed') === true;
  });
  t.deepEqual(other.requests, []);
});

test.serial('secrets of a stack are not shown, and a removed stack is not followed', async (t) => {
  const stage = await start(t);
  const { bridge, heat } = stage;
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
  await register(stage);
  await results(heat, 1);
  const text = JSON.stringify([await bridge.stacks.list(), await show(stage)]);
  t.notRegex(text, /secret|password/);
  await bridge.stacks.remove('demo');
  t.deepEqual(await bridge.stacks.list(), []);
  const { length } = heat.requests;
  await register(stage, 'other', { server: 'server-2' });
  await until('reads of the other', () => heat.requests.length > length + 2);
  const later = heat.requests.slice(length).filter(({ path: place }) => place.endsWith('server-1'));
  t.deepEqual(later, []);
  await t.throwsAsync(bridge.stacks.show('demo'), { code: 'ERR_STACK_UNKNOWN' });
});

test.serial('a secret repeated by a service does not appear in the reason', async (t) => {
  const stage = await start(t);
  const { heat } = stage;
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x', deploy_password: 'repeated' })]);
  heat.status = 403;
  heat.refusal = JSON.stringify({ explanation: 'who said repeated?' });
  await register(stage);
  await done(stage);
  const text = JSON.stringify(await show(stage));
  t.regex(text, /who said \(/);
  t.notRegex(text, /repeated/);
});

test.serial('a retired machine is not a server of any stack', async (t) => {
  const stage = await start(t);
  const { bridge, heat } = stage;
  await register(stage);
  await bridge.enroll.retire({ id: 'web1' });
  t.deepEqual((await show(stage)).servers, []);
  heat.servers.set('server-1', [heat.entry('one', {}, { text: 'x' })]);
  t.deepEqual(heat.results, []);
});

test.serial('handles named by a server are registered for its minion', async (t) => {
  const stage = await start(t);
  const { bridge, heat } = stage;
  const collect = heat.collect('heat');
  const signal = { endpoint: `${heat.origin}/v1/p/stacks/s/i/resources/h/signal`, token: 'tok' };
  heat.metadata = { 'saltbridge:handles': { ready: signal, other: signal } };
  await bridge.handles.add({ alias: 'other', minions: ['db1'], signal });
  await bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server', minion: 'web1', collect }],
  });
  await results(heat, 1);
  t.deepEqual((await bridge.handles.show('other', { stack: 'other' })).minions, ['db1']);
  t.deepEqual((await bridge.handles.show('other', { stack: 'stack demo' })).minions, ['web1']);
  const { minions, stack, transport } = await bridge.handles.show('ready');
  t.deepEqual(
    { minions, stack, transport },
    {
      minions: ['web1'],
      stack: 'stack demo',
      transport: 'TOKEN_SIGNAL',
    },
  );
  await bridge.stacks.remove('demo');
  t.deepEqual(
    (await bridge.handles.list()).map((it) => [it.alias, it.stack]),
    [['other', 'other']],
    'the handles of a stack go with it',
  );
});

/** Registers 200 servers. Returns a function that counts how often they were read. */
async function crowd({ bridge, heat }: Stage): Promise<() => number> {
  const servers = Array.from({ length: 200 }, (_, index) => ({
    server: `server-${index}`,
    minion: 'web1',
  }));
  await bridge.stacks.add({
    name: 'demo',
    servers,
    login: { auth_url: `${heat.origin}/v3`, user_id: 'u', password: 'secret', project_id: 'p' },
  });
  return () => heat.requests.filter((it) => it.path.includes('/software_deployments/')).length;
}

test.serial('200 servers are read at the rate of the interval, from the start', async (t) => {
  const stage = await start(t, { interval: 12, perSecond: 1000 });
  const begun = performance.now();
  const reads = await crowd(stage);
  await until('half of the servers', () => reads() >= 100);
  // After half of the interval, half of the servers have been read, so the load is spread.
  t.true(performance.now() - begun > 4_000, `${performance.now() - begun}`);
  await until('every server', () => reads() >= 200);
  t.true(performance.now() - begun > 9_000, `${performance.now() - begun}`);
});

test.serial('requests stay within polls_per_second, for any number of servers', async (t) => {
  const stage = await start(t, { interval: 1, perSecond: 20 });
  const begun = performance.now();
  const reads = await crowd(stage);
  await until('60 reads', () => reads() >= 60);
  t.true(performance.now() - begun > 2_500, `${performance.now() - begun}`);
});

test('a stack logs in once for all of its servers, and again if its token is refused', async (t) => {
  const logins = new StackLogins();
  const login = { auth_url: 'http://k/v3', user_id: 'u', password: 'secret', project_id: 'p' };
  let tokens = 0;
  const ask: Ask = async ({ url, headers = {} }) => {
    await new Promise(setImmediate);
    if (url.endsWith('/auth/tokens')) {
      tokens += 1;
      const answer = { headers: { 'x-subject-token': `token-${tokens}` }, body: catalogBody };
      return { kind: 'answer', status: 201, ...answer };
    }
    const status = headers['x-auth-token'] === 'token-1' ? 401 : 200;
    return { kind: 'answer', status, headers: {}, body: '{}' };
  };
  const answers = await Promise.all(
    Array.from({ length: 200 }, () =>
      logins.ask(ask, 'stack', login, () => ({ method: 'GET', url: 'http://h/x' })),
    ),
  );
  t.true(answers.every((it) => it.kind === 'answer' && it.status === 200));
  t.is(tokens, 2);
});

test('a server is the minion of its enrolment if both have the same project', (t) => {
  const subject = { kind: 'service', name: 'deployments' } as const;
  const server = { server: 's', subject, source: { stack: 'r', serverId: 'instance-1' } };
  const registration = { name: 'demo', stack: 'a/b', project: 'p1' };
  const stack = { id: 'r', owner: undefined, subject, registration, registeredAt: 0 };
  const metadata = { handles: {}, warnings: [], values: {}, deployments: [], digest: '' };
  const minionIn = (project: string): string | undefined =>
    minionOfServer(
      stack,
      { ...server, source: { ...server.source, collect: undefined, login: undefined } },
      metadata,
      [
        {
          number: '1',
          id: 'web1',
          project,
          instance: 'instance-1',
          by: 'claim',
          state: 'signed-in',
          protocol: 3,
          createdAt: 0,
        },
      ],
    );
  t.is(minionIn('p1'), 'web1');
  t.is(minionIn('p2'), undefined);
});

test('metadata over the size limit is not read', (t) => {
  const result = { kind: 'answer', status: 200, headers: {}, body: '"12345678"' } as const;
  t.deepEqual(jsonOf(result, { maxBytes: 10 }), { ok: true, body: '12345678' });
  t.like(jsonOf(result, { maxBytes: 9 }), { ok: false });
});

test('a run that is too old for its key to be certain is unknown, and does not run again', async (t) => {
  const day = 86_400_000;
  let asked = 0;
  const runner = {
    run: async () => {
      asked += 1;
      throw new Error('asked');
    },
  };
  const call = { kind: 'command', command: 'demo.echo', params: {} } as const;
  const runs = new DeploymentRuns({
    host: {
      closing: new AbortController().signal,
      logger: pino({ enabled: false }),
      now: () => day,
    },
    runners: { command: runner, code: runner },
    records: { storedPartsOf: async () => ({ call }) },
    maxRunning: 1,
  });
  const record: DeploymentRecord = {
    stack: 'r',
    server: 's',
    id: 'one',
    name: 'one',
    action: 'CREATE',
    minion: 'web1',
    state: 'running',
    begunAt: -1,
    target: { outputs: [], signal: { transport: 'NO_SIGNAL' }, serverId: 's' },
  };
  const result = await runs.run(record, { kind: 'service', name: 'deployments' }, true);
  t.like(result, { end: 'unknown', statusCode: 1 });
  t.is(asked, 0);
});

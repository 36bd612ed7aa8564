/**
 * Groups of software configs and init metadata on a real Heat. Each deployment ends, and none by a
 * timeout.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { allow } from '#acl';
import type { OwnerLogin } from '#guests';
import type { MinionFunction } from '#minion-protocol';
import { folderOfPrograms } from '../heat-bridge/deployments/folder-of-programs.ts';
import { type BridgeStage, echo, startBridge } from '../heat-bridge/stage.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { cloud, heatTest, services } from './heat-cloud.ts';
import { type StackState, TemplateStack } from './heat-stack.ts';

const catalog = ['ansible', 'cfn-init', 'chef', 'puppet', 'script']
  .map((group) => `  site.${group}: { description: x, group: ${group}, unsafe: i-understand }\n`)
  .concat(
    ['hiera', 'json-file'].map(
      (group) =>
        `  site.${group}: { description: x, group: ${group}, paths: [/etc/puppet, /etc/web] }\n`,
    ),
    '  site.apply: { description: x, group: apply-config }\n',
  )
  .join('');

/**
 * Returns a function that runs a shell script without Puppet, Ansible and Chef, even if they are
 * installed.
 */
function shellIn(folder: string): MinionFunction {
  return ({ kwargs }) => {
    const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', String(kwargs.code)], {
      env: { PATH: folder },
    });
    return { pid: 1, retcode: status ?? 1, stdout: `${stdout}`, stderr: `${stderr}` };
  };
}

/**
 * Returns a function that reports success without applying anything. A command that is meant to
 * fail fails.
 */
function applier(stage: () => BridgeStage): MinionFunction {
  return async ({ kwargs: { tem } }, { id }) => {
    const [, reference = ''] = /saltbridge:secrets:([0-9a-f]{32}):states/.exec(String(tem)) ?? [];
    const pillar = await stage().master.pillar.show({ minion: id });
    const { states } = JSON.parse(JSON.stringify(pillar)).saltbridge.secrets[reference];
    const results = Object.entries(states).map(([key, state]) => {
      const result = !JSON.stringify(state).includes('to fail');
      return [`a_|-${key}_|-b_|-c`, { __id__: key, result, changes: {}, comment: 'disk full' }];
    });
    return Object.fromEntries(results);
  };
}

async function start(t: ExecutionContext): Promise<BridgeStage> {
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'code.yaml'), `deployments:\n${catalog}`);
  const stage: BridgeStage = await startBridge(t, {
    ids: ['web1'],
    commands: [echo],
    rules: [
      allow('deployments', {
        subject: { service: 'deployments' },
        action: 'command',
        resource: { fun: ['demo.*', 'site.*'], within: 'web*' },
      }),
    ],
    functions: {
      'cmd.exec_code_all': shellIn(folderOfPrograms(t)),
      'state.template_str': applier(() => stage),
      'test.echo': ({ kwargs }) => kwargs.text ?? null,
    },
    config: {
      bridge: {
        catalog: [directory],
        handles: { endpoints: services() },
        deployments: { poll_interval: 1, retry_max_delay: 2 },
      },
    },
  });
  return stage;
}

const server = (metadata: object = {}): object => ({
  type: 'OS::Heat::DeployedServer',
  metadata: { 'saltbridge:minion': 'web1', ...metadata },
  properties: { software_config_transport: 'POLL_SERVER_HEAT' },
});

function ownLogin(): OwnerLogin {
  if (cloud === undefined) throw new TypeError('no cloud');
  const { id, password, project_id } = cloud.users.demo;
  return { auth_url: cloud.keystone, user_id: id, password, project_id };
}

/**
 * Waits until a stack was created or has failed. The error contains what is known about its
 * deployments.
 */
async function created(
  { bridge }: BridgeStage,
  stack: TemplateStack,
  name: string,
): Promise<StackState> {
  try {
    return await stack.end('CREATE');
  } catch (cause) {
    throw new Error(`${name}: ${JSON.stringify(await bridge.stacks.show(name))}`, { cause });
  }
}

async function follow(
  t: ExecutionContext,
  { bridge }: BridgeStage,
  resources: object,
  name: string,
): Promise<TemplateStack> {
  const template = { heat_template_version: '2018-08-31', resources };
  const stack = await TemplateStack.create(template);
  t.teardown(() => stack.delete());
  await bridge.stacks.add({ name, stack: stack.path, login: ownLogin(), minions: ['web1'] });
  return stack;
}

const init = (command: string): object => ({ config: { commands: { a: { command } } } });

const ends: readonly (readonly [string, string | object, 'COMPLETE' | RegExp])[] = [
  ['saltbridge', 'demo.echo', 'COMPLETE'],
  ['script', '#!/bin/sh\ntrue\n', 'COMPLETE'],
  ['cfn-init', init('true'), 'COMPLETE'],
  ['cfn-init', JSON.stringify(init('to fail')), /status code|Deployment to server failed/],
  ['hiera', { hierarchy: ['common'], datafiles: { common: { a: 1 } } }, 'COMPLETE'],
  ['json-file', { '/etc/web/a.json': { a: 1 } }, 'COMPLETE'],
  ['json-file', { '/etc/shadow': { a: 1 } }, /failed/],
  ['puppet', 'notice("hi")', /failed/],
  ['ansible', '- hosts: all\n', /failed/],
  ['chef', '["recipe[web]"]', /failed/],
  ['apply-config', 'x', /failed/],
  ['salt', 'none', /failed/],
  ['docker-compose', 'x', /failed/],
  ['docker-cmd', { web: {} }, /failed/],
  ['kubelet', 'x', /failed/],
  ['os-apply-config', { a: 1 }, /failed/],
];

heatTest('a deployment of every group ends with a response', async (t) => {
  t.timeout(600_000);
  const stage = await start(t);
  const one = async (
    [group, config, expected]: (typeof ends)[number],
    at: number,
  ): Promise<void> => {
    const kind = typeof config === 'string' ? 'Software' : 'Structured';
    const resources = {
      server: server(),
      config: {
        type: `OS::Heat::${kind}Config`,
        properties: {
          group,
          config,
          ...(group === 'saltbridge' ? { inputs: [{ name: 'text' }] } : {}),
        },
      },
      deployment: {
        type: `OS::Heat::${kind}Deployment`,
        properties: {
          server: { get_resource: 'server' },
          config: { get_resource: 'config' },
          signal_transport: 'HEAT_SIGNAL',
          ...(group === 'saltbridge' ? { input_values: { text: 'hi' } } : {}),
        },
      },
    };
    const stack = await follow(t, stage, resources, `group-${at}`);
    const { status, reason } = await created(stage, stack, `group-${at}`);
    const { deployments } = await stage.bridge.stacks.show(`group-${at}`);
    const shown = `${group}: ${reason} ${JSON.stringify(deployments)}`;
    if (expected === 'COMPLETE') t.is(status, 'CREATE_COMPLETE', shown);
    else {
      t.is(status, 'CREATE_FAILED', shown);
      t.regex(reason, expected, shown);
      t.notRegex(reason, /timed out/i, shown);
    }
  };
  // Heat creates only few stacks at a time.
  for (let at = 0; at < ends.length; at += 4) {
    await Promise.all(ends.slice(at, at + 4).map((it, index) => one(it, at + index)));
  }
});

heatTest(
  'init metadata of a server completes its wait condition, or fails it with the reason',
  async (t) => {
    const stage = await start(t);
    const waiting = (alias: string, command: string): object => ({
      handle: {
        type: 'OS::Heat::WaitConditionHandle',
        properties: { signal_transport: 'TOKEN_SIGNAL' },
      },
      server: server({
        'AWS::CloudFormation::Init': init(command),
        'saltbridge:cfn-init': { signal: alias },
        'saltbridge:handles': {
          [alias]: {
            endpoint: { get_attr: ['handle', 'endpoint'] },
            token: { get_attr: ['handle', 'token'] },
          },
        },
      }),
      condition: {
        type: 'OS::Heat::WaitCondition',
        depends_on: 'server',
        properties: { handle: { get_resource: 'handle' }, timeout: 600 },
      },
    });
    const good = await follow(t, stage, waiting('good', 'true'), 'good');
    const { status, reason } = await created(stage, good, 'good');
    t.is(
      status,
      'CREATE_COMPLETE',
      `${reason} ${JSON.stringify(await stage.bridge.stacks.show('good'))}`,
    );
    const bad = await follow(t, stage, waiting('bad', 'to fail'), 'bad');
    const failed = await created(stage, bad, 'bad');
    t.is(failed.status, 'CREATE_FAILED');
    t.regex(failed.reason, /config config: commands: a: disk full/);
  },
);

heatTest(
  'a template with a fixed alias completes for a second stack, and after its first',
  async (t) => {
    const stage = await start(t);
    const resources = {
      handle: {
        type: 'OS::Heat::WaitConditionHandle',
        properties: { signal_transport: 'HEAT_SIGNAL' },
      },
      server: server({
        'AWS::CloudFormation::Init': init('true'),
        'saltbridge:cfn-init': { signal: 'ready' },
        'saltbridge:handles': { ready: { get_attr: ['handle', 'signal'] } },
      }),
      condition: {
        type: 'OS::Heat::WaitCondition',
        depends_on: 'server',
        properties: { handle: { get_resource: 'handle' }, timeout: 600 },
      },
    };
    for (const name of ['first', 'second', 'third']) {
      const stack = await follow(t, stage, resources, name);
      const { status, reason } = await created(stage, stack, name);
      const shown = JSON.stringify(await stage.bridge.stacks.show(name));
      t.is(status, 'CREATE_COMPLETE', `${name}: ${reason} ${shown}`);
      // The third handle gets the alias of a stack that is no longer registered.
      if (name === 'second') await stage.bridge.stacks.remove(name);
    }
    t.deepEqual(
      (await stage.bridge.handles.list()).map(({ stack }) => stack),
      ['stack third'],
    );
  },
);

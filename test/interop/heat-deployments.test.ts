/**
 * Software deployments of a real Heat that run on minions: every transport, every action, and
 * refused deployments.
 */
import type { ExecutionContext } from 'ava';
import { allow } from '#acl';
import type { CollectConfig, StackServer } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import { type BridgeStage, startBridge } from '../heat-bridge/stage.ts';
import { eventually } from './eventually.ts';
import { heatTest, services } from './heat-cloud.ts';
import { applicationCredential, TemplateStack, trustedLogin } from './heat-stack.ts';

const greet: CommandDefinition = {
  name: 'demo.greet',
  description: 'Greets somebody.',
  function: 'site.greet',
  reviewed: 'made for this test alone',
  parameters: {
    type: 'object',
    required: ['text'],
    properties: {
      text: { type: 'string' },
      number: { type: 'number' },
      deploy_action: { type: 'string' },
    },
  },
};

async function start(t: ExecutionContext): Promise<BridgeStage> {
  return startBridge(t, {
    ids: ['web1', 'web2'],
    commands: [greet],
    rules: [
      allow('deployments', {
        subject: { service: 'deployments' },
        action: 'command',
        resource: { fun: 'demo.*', within: 'web*' },
      }),
    ],
    functions: {
      'site.greet': ({ kwargs }, { id }) => {
        if (kwargs.text === 'fail') throw new Error('disk full');
        return { greeting: `${id}: ${kwargs.text}`, number: kwargs.number ?? 0 };
      },
    },
    config: {
      bridge: {
        handles: { endpoints: services() },
        deployments: { poll_interval: 1, retry_max_delay: 2 },
      },
    },
  });
}

interface DeploymentOptions {
  readonly server: string;
  readonly transport: string;
  readonly text: string;
  readonly actions?: readonly string[];
  /** Name of the deployment that must be complete before. Default: none. */
  readonly after?: string;
}

/** Returns a config with its deployment and output. */
function deployment(
  name: string,
  { server, transport, text, actions = ['CREATE', 'UPDATE'], after }: DeploymentOptions,
): { readonly resources: object; readonly outputs: object } {
  return {
    resources: {
      [`${name}_config`]: {
        type: 'OS::Heat::SoftwareConfig',
        properties: {
          group: 'saltbridge',
          config: 'demo.greet',
          inputs: [{ name: 'text' }, { name: 'number', type: 'Number', default: 3 }],
          outputs: [{ name: 'greeting' }, { name: 'number', type: 'Number' }],
        },
      },
      [name]: {
        type: 'OS::Heat::SoftwareDeployment',
        ...(after === undefined ? {} : { depends_on: after }),
        properties: {
          server: { get_resource: server },
          config: { get_resource: `${name}_config` },
          signal_transport: transport,
          input_values: { text },
          actions,
        },
      },
    },
    outputs: { [name]: { value: { get_attr: [name, 'greeting'] } } },
  };
}

function template(
  servers: Readonly<Record<string, { readonly transport: string; readonly minion?: string }>>,
  ...deployments: readonly ReturnType<typeof deployment>[]
): object {
  const names = Object.entries(servers);
  return {
    heat_template_version: '2018-08-31',
    resources: Object.assign(
      {},
      ...names.map(([name, { transport, minion }]) => ({
        [name]: {
          type: 'OS::Heat::DeployedServer',
          metadata: minion === undefined ? {} : { 'saltbridge:minion': minion },
          properties: { software_config_transport: transport },
        },
      })),
      ...deployments.map(({ resources }) => resources),
    ),
    outputs: Object.assign(
      {},
      ...names.map(([name]) => ({
        [`${name}_collect`]: { value: { get_attr: [name, 'os_collect_config'] } },
      })),
      ...deployments.map(({ outputs }) => outputs),
    ),
  };
}

const transports = [
  ['POLL_SERVER_HEAT', 'HEAT_SIGNAL', undefined],
  ['POLL_SERVER_CFN', 'CFN_SIGNAL', undefined],
  ['ZAQAR_MESSAGE', 'ZAQAR_SIGNAL', 'zaqar'],
  ['POLL_TEMP_URL', 'TEMP_URL_SIGNAL', 'swift'],
] as const;

for (const [poll, signal, service] of transports) {
  heatTest(
    `a deployment read by ${poll} and answered by ${signal} ends as a stack output, also updated`,
    async (t) => {
      const { bridge, seen } = await start(t);
      const of = (text: string): object =>
        template(
          { server: { transport: poll } },
          deployment('hello', { server: 'server', transport: signal, text }),
        );
      const stack = await TemplateStack.create(of('one'));
      t.teardown(() => stack.delete());
      const collect = await stack.collectConfig<CollectConfig>('server_collect');
      const servers: readonly StackServer[] = [{ server: 'server', minion: 'web1', collect }];
      await bridge.stacks.add({ name: 'demo', servers });
      const made = await stack.end('CREATE');
      t.is(made.status, 'CREATE_COMPLETE', made.reason);
      t.is(made.outputs.get('hello'), 'web1: one');
      await stack.update(of('two'));
      const updated = await stack.end('UPDATE');
      t.is(updated.status, 'UPDATE_COMPLETE', updated.reason);
      t.is(updated.outputs.get('hello'), 'web1: two');
      t.deepEqual(
        seen.map(({ kwargs }) => [kwargs.text, kwargs.deploy_action]),
        [
          ['one', 'CREATE'],
          ['two', 'UPDATE'],
        ],
      );
      t.is(seen[0]?.kwargs.number, 3);
    },
    service,
  );
}

const every = ['CREATE', 'UPDATE', 'DELETE', 'SUSPEND', 'RESUME'];

heatTest('three deployments on two servers follow every action of their stack', async (t) => {
  const { bridge, seen } = await start(t);
  const of = (text: string): object =>
    template(
      {
        first: { transport: 'POLL_SERVER_HEAT', minion: 'web1' },
        second: { transport: 'POLL_SERVER_HEAT', minion: 'web2' },
      },
      deployment('a', { server: 'first', transport: 'HEAT_SIGNAL', text, actions: every }),
      deployment('b', { server: 'first', transport: 'HEAT_SIGNAL', text: 'b', actions: every }),
      deployment('c', { server: 'second', transport: 'HEAT_SIGNAL', text: 'c', actions: every }),
    );
  const stack = await TemplateStack.create(of('a'));
  await bridge.stacks.add({
    name: 'demo',
    stack: stack.path,
    login: await applicationCredential(),
    minions: ['web1', 'web2'],
  });
  const made = await stack.end('CREATE');
  t.is(made.status, 'CREATE_COMPLETE', made.reason);
  t.deepEqual(
    ['a', 'b', 'c'].map((name) => made.outputs.get(name)),
    ['web1: a', 'web1: b', 'web2: c'],
  );
  const take = (): string[] =>
    seen
      .splice(0)
      .map(({ id, kwargs }) => `${kwargs.deploy_action} ${id} ${kwargs.text}`)
      .sort();
  t.deepEqual(take(), ['CREATE web1 a', 'CREATE web1 b', 'CREATE web2 c']);
  await stack.update(of('changed'));
  t.is((await stack.end('UPDATE')).status, 'UPDATE_COMPLETE');
  t.deepEqual(take(), ['UPDATE web1 changed']);
  await stack.action('suspend');
  t.is((await stack.end('SUSPEND')).status, 'SUSPEND_COMPLETE');
  t.deepEqual(take(), ['SUSPEND web1 b', 'SUSPEND web1 changed', 'SUSPEND web2 c']);
  await stack.action('resume');
  t.is((await stack.end('RESUME')).status, 'RESUME_COMPLETE');
  t.deepEqual(take(), ['RESUME web1 b', 'RESUME web1 changed', 'RESUME web2 c']);
  await stack.delete();
  t.is((await stack.end('DELETE')).status, 'DELETE_COMPLETE');
  t.deepEqual(take(), ['DELETE web1 b', 'DELETE web1 changed', 'DELETE web2 c']);
});

heatTest('a failing command fails its resource with its output', async (t) => {
  const { bridge } = await start(t);
  const stack = await TemplateStack.create(
    template(
      { server: { transport: 'POLL_SERVER_HEAT' } },
      deployment('hello', { server: 'server', transport: 'HEAT_SIGNAL', text: 'fail' }),
    ),
  );
  t.teardown(() => stack.delete());
  const collect = await stack.collectConfig<CollectConfig>('server_collect');
  await bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server', minion: 'web1', collect }],
  });
  const { status, reason } = await stack.end('CREATE');
  t.is(status, 'CREATE_FAILED');
  t.regex(reason, /deploy_status_code/);
  await eventually('the record', async () => {
    const { deployments } = await bridge.stacks.show('demo');
    return deployments[0]?.state === 'done';
  });
  const { deployments } = await bridge.stacks.show('demo');
  t.regex(deployments[0]?.reason ?? '', /disk full/);
});

/** Returns a function that gives the texts of the calls since its last call. */
function taker(seen: BridgeStage['seen'][number][]): () => string[] {
  return () =>
    seen
      .splice(0)
      .map(({ kwargs }) => `${kwargs.deploy_action} ${kwargs.text}`)
      .sort();
}

heatTest('after a failed update the stack is rolled back, and only changes run', async (t) => {
  const { bridge, seen } = await start(t);
  const of = (text: string): object =>
    template(
      { server: { transport: 'POLL_SERVER_HEAT', minion: 'web1' } },
      deployment('a', { server: 'server', transport: 'HEAT_SIGNAL', text: 'a' }),
      deployment('b', { server: 'server', transport: 'HEAT_SIGNAL', text, after: 'a' }),
    );
  const stack = await TemplateStack.create(of('fail'));
  t.teardown(() => stack.delete());
  await bridge.stacks.add({
    name: 'demo',
    stack: stack.path,
    login: await applicationCredential(),
    minions: ['web1'],
  });
  const take = taker(seen);
  t.is((await stack.end('CREATE')).status, 'CREATE_FAILED');
  t.deepEqual(take(), ['CREATE a', 'CREATE fail']);
  await stack.update(of('good'));
  const updated = await stack.end('UPDATE');
  t.is(updated.status, 'UPDATE_COMPLETE', updated.reason);
  t.is(updated.outputs.get('b'), 'web1: good');
  t.deepEqual(take(), ['CREATE good']);
  await stack.update(of('fail'), true);
  const back = await stack.end('ROLLBACK');
  t.is(back.status, 'ROLLBACK_COMPLETE', back.reason);
  t.is(back.outputs.get('b'), 'web1: good');
  // Heat replaces a failed deployment.
  t.deepEqual(take(), ['CREATE good', 'UPDATE fail']);
});

heatTest('with NO_SIGNAL a deployment runs by a trust, and its stack does not wait', async (t) => {
  const { bridge, seen } = await start(t);
  const stack = await TemplateStack.create(
    template(
      { server: { transport: 'POLL_SERVER_HEAT', minion: 'web1' } },
      deployment('quiet', { server: 'server', transport: 'NO_SIGNAL', text: 'quiet' }),
      deployment('loud', { server: 'server', transport: 'HEAT_SIGNAL', text: 'loud' }),
    ),
  );
  t.teardown(() => stack.delete());
  const login = await trustedLogin();
  await bridge.stacks.add({ name: 'demo', stack: stack.path, login, minions: ['web1'] });
  const made = await stack.end('CREATE');
  t.is(made.status, 'CREATE_COMPLETE', made.reason);
  t.is(made.outputs.get('loud'), 'web1: loud');
  await eventually('both records', async () => {
    const { deployments } = await bridge.stacks.show('demo');
    return deployments.length === 2 && deployments.every(({ state }) => state === 'done');
  });
  t.deepEqual(taker(seen)(), ['CREATE loud', 'CREATE quiet']);
});

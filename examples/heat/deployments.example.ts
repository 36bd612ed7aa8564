import type { StackServer } from '#guests';
import type { Example, Step } from '../example.ts';
import type { HeatClient, Stack } from './cloud.ts';
import { cloudNeed, readCloudOfExample, template, withCloud } from './setting.ts';
import type { Stage } from './stage.ts';

/** Software deployments on two servers, and on a group of servers that grows. */
export const deployments: Example = {
  description: 'software deployments on two servers, and on a group that grows, run commands',
  needs: () => [cloudNeed()],
  run: (step) =>
    withCloud(async (heat, stage) => {
      await stage.startMinion('web-0');
      await runTwoServers(step, heat, stage);
      await runGroup(step, heat, stage);
    }),
};

/** Returns the calls that minions have received since the last use of this function. */
const calls = (stage: Stage): string => stage.calls.splice(0).sort().join('; ');

/** Creates a stack and registers it, so that the bridge acts as the agent of its servers. */
async function create(
  heat: HeatClient,
  stage: Stage,
  name: string,
  {
    parameters,
    servers = [],
  }: {
    readonly parameters: Readonly<Record<string, unknown>>;
    /** Minions of the servers, if their metadata do not contain them. */
    readonly servers?: readonly StackServer[];
  },
): Promise<Stack> {
  const stack = await heat.create(template(name), parameters);
  process.stdout.write(`  openstack stack show ${stack.name} -c stack_status -c outputs\n`);
  const { keystone, users } = readCloudOfExample();
  const { id: user_id, password, project_id } = users.demo;
  await stage.bridge.stacks.add({
    name,
    stack: stack.path,
    servers,
    minions: ['web-1', 'web-2'],
    login: { auth_url: keystone, user_id, password, project_id },
  });
  return stack;
}

async function runTwoServers(step: Step, heat: HeatClient, stage: Stage): Promise<void> {
  const stack = await step('create the stack of two servers and register it', () =>
    create(heat, stage, 'deployments', { parameters: { text: 'one' } }).then(hidden),
  );
  await step(
    'the stack is complete: its outputs contain the returns of the commands',
    async () => {
      const { status, reason, outputs } = await stack.it.end();
      return { status, reason, results: outputs.results, calls: calls(stage) };
    },
    ({ status, results, calls: made }) =>
      status === 'CREATE_COMPLETE' &&
      String(results) === 'web-1 write one,web-1 write b,web-2 write c' &&
      made === 'web-1 write b; web-1 write one; web-2 write c',
  );
  await step(
    'update the stack: only the changed deployment runs',
    async () => {
      const { status } = await stack.it.update(template('deployments'), { text: 'two' });
      return `${status}: ${calls(stage)}`;
    },
    (it) => it === 'UPDATE_COMPLETE: web-1 write two',
  );
  await step(
    'delete the stack: the command for DELETE runs for each deployment',
    async () => {
      await stack.it.delete();
      const { status } = await stack.it.end();
      await stage.bridge.stacks.remove('deployments');
      return `${status}: ${calls(stage)}`;
    },
    (it) => it === 'DELETE_COMPLETE: web-1 remove b; web-1 remove two; web-2 remove c',
  );
}

/**
 * Servers of the group, by their names in its nested stack. Heat shows the index of a server only
 * in properties, so the minions are listed here.
 */
const members: readonly StackServer[] = [
  { server: '0', minion: 'web-0' },
  { server: '1', minion: 'web-1' },
];

async function runGroup(step: Step, heat: HeatClient, stage: Stage): Promise<void> {
  const stack = await step('create a group of one server and register it', () =>
    create(heat, stage, 'deployment-group', { parameters: { size: 1 }, servers: members }).then(
      hidden,
    ),
  );
  await step(
    'the stack is complete: the deployment has run on its member',
    async () => `${(await stack.it.end()).status}: ${calls(stage)}`,
    (it) => it === 'CREATE_COMPLETE: web-0 write member',
  );
  await step(
    'add a member: the deployment runs only on the new server',
    async () => {
      const text = template('deployment-group');
      const { status, outputs } = await stack.it.update(text, { size: 2 });
      return { text: `${status}: ${calls(stage)}`, results: outputs.results };
    },
    ({ text }) => text === 'UPDATE_COMPLETE: web-1 write member',
  );
  await step(
    'delete the stack',
    async () => {
      await stack.it.delete();
      return (await stack.it.end()).status;
    },
    (it) => it === 'DELETE_COMPLETE',
  );
}

/** Returns a stack that is printed as its name only. */
function hidden(it: Stack): { readonly it: Stack; toJSON(): string } {
  return { it, toJSON: () => it.name };
}

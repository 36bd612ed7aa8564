import { createHash } from 'node:crypto';
import { createMinionKeys } from '#minion-protocol';
import type { Example, Step } from '../example.ts';
import type { HeatClient, StackState } from './cloud.ts';
import { installForExample, pluginNeeds, template, withCloud } from './setting.ts';
import type { Stage } from './stage.ts';

/** The three resource types of the Heat plug-in. */
export const plugin: Example = {
  description: "the plug-in's three resources, and a deletion while the master is stopped",
  needs: pluginNeeds,
  run: (step) =>
    withCloud(async (heat, stage) => {
      await runCommand(step, heat, stage);
      await runPlan(step, heat, stage);
      await enrolMachine(step, heat, stage);
    }, installForExample),
};

async function runCommand(step: Step, heat: HeatClient, stage: Stage): Promise<void> {
  const stack = await step('create a stack of one OS::Saltbridge::Command', async () => {
    const made = await heat.create(template('command'), { text: 'one' });
    process.stdout.write(`  openstack stack show ${made.name} -c stack_status -c outputs\n`);
    return made;
  });
  await step(
    'the stack is complete, and contains the returns of both minions',
    () => stack.end(),
    ({ status, outputs }) => status === 'CREATE_COMPLETE' && outputs.status === 'succeeded',
  );
  await step(
    'update a parameter: the command runs again',
    async () => ({
      ...(await stack.update(template('command'), { text: 'two' })),
      ...calls(stage),
    }),
    (it) => it.status === 'UPDATE_COMPLETE' && it.calls.includes('web-2 write two'),
  );
  await step('stop the master, and delete the stack', async () => {
    await stage.stop();
    await stack.delete();
    return stack.until('the deletion', ({ status }) => status === 'DELETE_IN_PROGRESS');
  });
  await step(
    'start the master: it completes the deletion',
    async () => {
      await stage.start();
      return { ...(await stack.end()), ...calls(stage) };
    },
    (it) => it.status === 'DELETE_COMPLETE' && it.calls.join() === removals,
  );
}

const removals = 'web-1 remove two,web-2 remove two';

async function runPlan(step: Step, heat: HeatClient, stage: Stage): Promise<void> {
  const stack = await step('create a stack of one OS::Saltbridge::Plan', () =>
    heat.create(template('plan')),
  );
  await step(
    'the stack is complete: both groups ran in order',
    async () => ({ ...(await stack.end()), ...calls(stage) }),
    (it) => it.calls.join() === 'web-1 write cluster,web-2 write cluster',
  );
  await stack.delete();
  await stack.end();
}

async function enrolMachine(step: Step, heat: HeatClient, stage: Stage): Promise<void> {
  const stack = await step('create a stack of a machine and a command on it', () =>
    heat.create(template('minion')),
  );
  const isTold = ({ outputs }: StackState): boolean => String(outputs.ticket).length > 50;
  const { outputs } = await stack.until('the ticket', isTold);
  await step('a machine claims its key with the ticket, and signs in', async () => {
    const { minion_id: id, ticket } = outputs as { minion_id: string; ticket: string };
    const keys = await createMinionKeys();
    await claim(stage, { ticket, id, fingerprint: fingerprintOf(keys.publicPem) });
    await stage.startMinion(id, keys);
    return id;
  });
  await step(
    'the command that waited for the machine has run',
    async () => ({ status: (await stack.end()).status, ...calls(stage) }),
    (it) => it.status === 'CREATE_COMPLETE' && it.calls.join().endsWith('write first-boot'),
  );
  await step(
    'delete the stack: the machine is retired',
    async () => {
      await stack.delete();
      await stack.end();
      return (await stage.bridge.enroll.list()).map(({ id, state }) => ({ id, state }));
    },
    (all) => all.every(({ state }) => state === 'retired'),
  );
}

/**
 * Claims an identity as the script in the user-data does.
 * @throws Error with the response of the bridge
 */
export async function claim(
  stage: Stage,
  body: { readonly ticket: string; readonly id: string; readonly fingerprint: string },
): Promise<void> {
  const response = await fetch(`${stage.url}/bridge/v1/enroll/claim`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok)
    throw new Error(`the claim failed: ${response.status} ${await response.text()}`);
}

/** Returns the SHA-256 of the lines of a key, as `sha256sum` prints it. */
export function fingerprintOf(publicPem: string): string {
  const lines = publicPem.split('\n').filter((it) => it !== '' && !it.startsWith('-'));
  return createHash('sha256')
    .update(`${lines.join('\n')}\n`)
    .digest('hex');
}

/** Returns the calls that minions have received since the last use of this function. */
function calls(stage: Stage): { readonly calls: readonly string[] } {
  return { calls: stage.calls.splice(0).sort() };
}

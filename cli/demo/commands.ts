/** The part of the demonstration in which a service calls a named command, and is refused others. */
import { allow, type PolicyRule } from '../../acl/index.ts';
import { type Bridge, BridgeError, type CommandDefinition } from '../../heat-bridge/index.ts';
import type { Stage } from './stage.ts';

/** What the demonstration's service may call: by name, with what it describes, and nothing else. */
export const greeting: CommandDefinition = {
  name: 'demo.greet',
  description: 'Greets somebody.',
  function: 'demo.greet_by_name',
  reviewed: 'a function of this demonstration, which puts a name into a sentence',
  parameters: {
    type: 'object',
    required: ['name'],
    properties: { name: { type: 'string', pattern: '^[A-Z][a-z]{1,20}$' } },
  },
};

/** The service trove may greet on web minions. */
export const greetingGrant: PolicyRule = allow('greetings', {
  subject: { service: 'trove' },
  action: 'command',
  resource: { fun: 'demo.*', within: 'web*' },
});

/** A named command as a service calls it, and what it cannot call. */
export async function showCommands(stage: Stage, bridge: Pick<Bridge, 'run'>): Promise<void> {
  stage.title("A named command: the service trove calls demo.greet on 'web*'");
  const handle = await bridge.run('demo.greet', { target: 'web*', params: { name: 'Heat' } });
  for (const { minion, return: value } of (await handle.outcome).results) {
    stage.line(`${minion.padEnd(5)} ${JSON.stringify(value)}`);
  }
  stage.title('What it is refused');
  await showRefusal(stage, bridge, 'cmd.run', 'web*', { cmd: 'id' });
  await showRefusal(stage, bridge, 'demo.greet', 'web*', { name: '$(id)' });
  await showRefusal(stage, bridge, 'demo.greet', 'db1', { name: 'Heat' });
}

async function showRefusal(
  stage: Stage,
  bridge: Pick<Bridge, 'run'>,
  name: string,
  target: string,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  try {
    await bridge.run(name, { target, params });
  } catch (error) {
    if (!(error instanceof BridgeError)) throw error;
    const asked = `${name} on ${target}`.padEnd(20);
    stage.line(`${asked} ${error.code} (${error.message})`);
  }
}

/** Reactions that run named commands, with their own rights, and only once. */

import test, { type ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '#acl';
import { connectMaster } from '#client';
import type { Reaction } from '#config';
import { type MasterOptions, reaction } from '#config';
import type { ReactionRun } from '#master';
import { until, within } from '../helpers/deadline.ts';
import { startKillable } from '../helpers/killable-master.ts';
import { endedRuns } from '../master/reactions/stage.ts';
import { acl, type BridgeStage, startBridge } from './stage.ts';

const tag = 'site/greeting/wanted';
const schema = {
  type: 'object',
  required: ['text'],
  properties: { text: { type: 'string' } },
} as const;

const params = { text: { from: 'data.text' } };
const greet = reaction('greet', {
  on: tag,
  do: { command: { name: 'demo.echo', target: 'web*', params } },
});

const may = allow('greetings', {
  subject: { service: 'reaction:greet' },
  action: 'command',
  resource: { fun: 'demo.echo', within: 'web*' },
});

function configOf(
  reactions: readonly Reaction[],
  rules: readonly PolicyRule[],
): Partial<MasterOptions> {
  const signals = [{ name: 'of-databases', tag, minions: 'db*', schema }];
  return { acl: { ...acl(rules), signals }, reactions };
}

function start(
  t: ExecutionContext,
  reactions: readonly Reaction[],
  rules: readonly PolicyRule[],
): Promise<BridgeStage> {
  return startBridge(t, { config: configOf(reactions, rules) });
}

async function emit({ minions }: BridgeStage, text: string): Promise<void> {
  await minions.get('db1')?.fire(tag, { text });
}

/** Returns the only run of a reaction. */
async function outcomeOf({ master }: BridgeStage): Promise<ReactionRun> {
  const [run] = await endedRuns(master, 1);
  if (run === undefined) throw new Error('no run');
  return run;
}

test('a signal starts a named command on the minions that the reaction may reach', async (t) => {
  const stage = await start(t, [greet], [may]);
  await emit(stage, 'hello');
  const run = await outcomeOf(stage);
  t.like(run, { kind: 'command', fun: 'demo.echo', state: 'succeeded', sender: 'db1' });
  t.deepEqual(
    stage.seen.map(({ id, fun, args, kwargs }) => [id, fun, args, kwargs]).sort(),
    ['web1', 'web2'].map((id) => [id, 'test.echo', [], { text: 'hello' }]),
  );
  const job = await stage.master.jobs.show(run.jid);
  t.deepEqual([job.tgt, job.user], [['web1', 'web2'], 'reaction:greet']);
});

const elsewhere = reaction('greet', {
  on: tag,
  do: { command: { name: 'demo.echo', target: 'db*', params } },
});
const misspelt = reaction('greet', {
  on: tag,
  do: { command: { name: 'demo.ehco', target: 'web*', params } },
});
const nobody = reaction('greet', {
  on: tag,
  do: { command: { name: 'demo.echo', target: 'mail*', params } },
});
const mayAll = { ...may, resource: { fun: 'demo.*', within: 'web*' } };
const refusals = [
  ['no rule permits it', greet, [], 'denied'],
  ['its rule names none of its target', elsewhere, [may], 'denied'],
  ['no rule permits a command of this name', misspelt, [may], 'denied'],
  ['the catalog has no such command', misspelt, [mayAll], 'unusable'],
  ['its target means nobody', nobody, [may], 'denied'],
] as const;

for (const [why, one, rules, state] of refusals) {
  test(`a reaction calls no command if ${why}`, async (t) => {
    const stage = await start(t, [one], rules);
    await emit(stage, 'hello');
    t.is((await outcomeOf(stage)).state, state);
    t.deepEqual(stage.seen, []);
  });
}

test('the data of a signal must match the parameters of the command', async (t) => {
  const stage = await start(t, [greet], [may]);
  await emit(stage, 'x'.repeat(101));
  t.is((await outcomeOf(stage)).state, 'unusable');
  t.deepEqual(stage.seen, []);
});

const configuration = `
auto_accept: true
timeout: 5
saltbridge:
  bridge: { catalog: [commands.yaml] }
  acl:
    signals: [{ tag: ${tag}, minions: web1 }]
    rules:
      holding:
        subject: { service: "reaction:hold" }
        action: command
        resource: { fun: site.held }
  reactions:
    hold:
      on: ${tag}
      do: { command: { name: site.held, target: web2 } }
`;

test('a command in progress when its master is killed is continued, and not called again', async (t) => {
  t.timeout(90_000);
  const command = 'site.held: { description: x, function: site.held, reviewed: for this test }';
  const field = await startKillable(t, configuration, { 'commands.yaml': command });
  let asked = 0;
  let goOn = (): void => {};
  const held = new Promise<boolean>((resolve) => {
    goOn = () => resolve(true);
  });
  const emitter = await field.join('web1');
  await field.join('web2', {
    'site.held': () => {
      asked += 1;
      return held;
    },
  });
  await emitter.fire(tag, {});
  await until('the command to be called', () => asked === 1);
  await field.master.kill();
  field.master.spawn();
  await within('the next master', field.master.ready());
  goOn();
  const [run] = await endedRuns(connectMaster({ socketPath: field.socketPath }), 1, 60_000);
  t.like(run, { kind: 'command', fun: 'site.held', state: 'succeeded' });
  t.is(asked, 1);
});

/** Resources of the plug-in in stacks of a real Heat, with embedded minions. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import path from 'node:path';
import test from 'ava';
import { createMinionKeys } from '#minion-protocol';
import { HeatClient, readCloud, type StackState } from '../../examples/heat/cloud.ts';
import { claim, fingerprintOf } from '../../examples/heat/plugin.example.ts';
import { installPlugin, restartEngine } from '../../examples/heat/plugin.ts';
import { template } from '../../examples/heat/setting.ts';
import { Stage } from '../../examples/heat/stage.ts';
import { testWhere } from '../helpers/needs.ts';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { minionPrograms } from './programs.ts';
import { RealMinion } from './real-minion.ts';

const { HEAT_ENV: file, HEAT_START: start } = process.env;
const isThere = file !== undefined && start !== undefined;

/** Declares serial tests, because they share minions that record their calls. */
const heatStep = testWhere(isThere, 'HEAT_ENV and HEAT_START', test.serial);

let stage: Stage;
let heat: HeatClient;
let stranger: HeatClient;

test.before(async (t) => {
  t.timeout(120_000);
  if (!isThere) return;
  const cloud = readCloud(file);
  stage = new Stage(cloud);
  await installPlugin(path.dirname(file), start, stage.url);
  await stage.start();
  for (const id of ['web-1', 'web-2']) await stage.startMinion(id);
  heat = new HeatClient(cloud, cloud.users.demo);
  stranger = new HeatClient(cloud, cloud.users.admin);
});

test.after.always(() => stage?.close());

/** Returns a template with one resource `it`. */
function one(type: string, properties: object): object {
  return {
    heat_template_version: '2018-08-31',
    resources: { it: { type, properties } },
    outputs: { status: { value: { get_attr: ['it', 'status'] } } },
  };
}

function command(properties: object): object {
  return one('OS::Saltbridge::Command', { minions: ['web-1'], ...properties });
}

/** Replaces the master by a server that closes `count` connections. */
async function refuseRequests(count: number): Promise<void> {
  let refused = 0;
  const server = createServer((socket) => {
    refused += 1;
    socket.destroy();
  });
  server.listen(Number(new URL(stage.url).port), '127.0.0.1');
  await eventually('requests to the absent master', async () => refused >= count);
  server.close();
  await once(server, 'close');
}

/** Returns the calls of the minions since the last call of this function. */
function calls(): readonly string[] {
  return stage.calls.splice(0).sort();
}

heatStep(
  'a command runs once, an update runs only changes, and deletion runs its own command',
  async (t) => {
    t.timeout(300_000);
    const stack = await heat.create(template('command'), { text: 'one' });
    const made = await stack.end();
    t.is(made.status, 'CREATE_COMPLETE', made.reason);
    const returns = { 'web-1': 'web-1 write one', 'web-2': 'web-2 write one' };
    t.deepEqual(made.outputs, { status: 'succeeded', returns });
    t.deepEqual(calls(), ['web-1 write one', 'web-2 write one']);
    const same = await stack.update(template('command'), { text: 'one' });
    t.is(same.status, 'UPDATE_COMPLETE', same.reason);
    t.deepEqual(calls(), []);
    const changed = await stack.update(template('command'), { text: 'two' });
    t.is(changed.status, 'UPDATE_COMPLETE', changed.reason);
    t.like(changed.outputs, { returns: { 'web-1': 'web-1 write two' } });
    t.deepEqual(calls(), ['web-1 write two', 'web-2 write two']);
    await stack.signal('write', { id: 'alarm-1' });
    await eventually('the run of the signal', async () => stage.calls.length === 2);
    await eventually('the event of the signal', async () =>
      (await stack.eventReasons('write')).some((it) => /^Signal: run .*succeeded$/.test(it)),
    );
    await stack.signal('write', { id: 'alarm-1' });
    await eventually(
      'the event of the repeated signal',
      async () =>
        (await stack.eventReasons('write')).filter((it) => it.startsWith('Signal:')).length === 2,
    );
    t.deepEqual(calls(), ['web-1 write two', 'web-2 write two']);
    const checked = await stack.check();
    t.is(checked.status, 'CHECK_COMPLETE', checked.reason);
    await stack.delete();
    t.is((await stack.end()).status, 'DELETE_COMPLETE');
    t.deepEqual(calls(), ['web-1 remove two', 'web-2 remove two']);
  },
);

heatStep('a failed command fails its stack with its stderr, and runs again', async (t) => {
  t.timeout(180_000);
  const stack = await heat.create(command({ command: 'demo.fail' }));
  const { status, reason } = await stack.end();
  t.is(status, 'CREATE_FAILED');
  t.regex(reason, /resources\.it: demo\.fail failed: web-1: disk full/);
  t.deepEqual(calls(), ['web-1 fail ']);
  const fixed = await stack.update(command({ command: 'demo.write', params: { text: 'fixed' } }));
  t.is(fixed.status, 'UPDATE_COMPLETE', fixed.reason);
  t.deepEqual(calls(), ['web-1 write fixed']);
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
});

heatStep(
  'calls that the catalog or the policy would refuse are refused with the template',
  async (t) => {
    t.timeout(120_000);
    const write = { command: 'demo.write', params: { text: 'x' } };
    const refused: readonly (readonly [object, RegExp])[] = [
      [command({ command: 'demo.none' }), /ERR_COMMAND_UNKNOWN/],
      [command({ command: 'cmd.run', params: { cmd: 'id' } }), /ERR_COMMAND_DENIED/],
      [command({ command: 'demo.write' }), /text: is required/],
      [command({ ...write, params: { text: 'x', more: 1 } }), /more: there is no such parameter/],
      [command({ ...write, params: { text: 'A b' } }), /text: does not fit its schema \(pattern\)/],
      [command({ ...write, on_delete: { command: 'demo.remove' } }), /text: is required/],
      [command({ ...write, target: '*' }), /either minions or target/],
      [command({ ...write, parms: {} }), /Unknown Property parms/],
      [
        one('OS::Saltbridge::Plan', {
          plan: 'demo.write-twice',
          groups: { first: ['web-1'], third: ['web-2'] },
          params: { text: 'x' },
        }),
        /second: is required.*third: there is no such group/,
      ],
    ];
    for (const [asked, message] of refused) {
      await t.throwsAsync(heat.create(asked), { message });
    }
    // Without a rule for its project, a user is rejected, regardless of the rights of the plug-in's
    // account.
    await t.throwsAsync(stranger.create(command(write)), { message: /ERR_COMMAND_DENIED/ });
    t.deepEqual(calls(), []);
  },
);

heatStep('a plan runs its steps in order, and its steps are attributes', async (t) => {
  t.timeout(120_000);
  const stack = await heat.create(template('plan'));
  const made = await stack.end();
  t.is(made.status, 'CREATE_COMPLETE', made.reason);
  t.deepEqual(made.outputs, {
    status: 'succeeded',
    steps: {
      first: { status: 'succeeded', returns: { 'web-1': 'web-1 write cluster' } },
      second: { status: 'succeeded', returns: { 'web-2': 'web-2 write cluster' } },
    },
  });
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
  t.deepEqual(calls(), ['web-1 write cluster', 'web-2 write cluster']);
});

heatStep('a machine is enrolled, awaited, and retired with its stack', async (t) => {
  t.timeout(180_000);
  const stack = await heat.create(template('minion'));
  const isTold = ({ outputs }: StackState): boolean => String(outputs.ticket).length > 50;
  const { outputs, status } = await stack.until('the ticket', isTold);
  t.is(status, 'CREATE_IN_PROGRESS');
  const { minion_id: id, ticket } = outputs as { minion_id: string; ticket: string };
  const keys = await createMinionKeys();
  await claim(stage, { ticket, id, fingerprint: fingerprintOf(keys.publicPem) });
  await stage.startMinion(id, keys);
  const made = await stack.end();
  t.is(made.status, 'CREATE_COMPLETE', made.reason);
  t.deepEqual(made.outputs.returns, { [id]: `${id} write first-boot` });
  t.deepEqual(calls(), [`${id} write first-boot`]);
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
  const enrolment = (await stage.bridge.enroll.list()).find((it) => it.id === id);
  t.is(enrolment?.state, 'retired');
});

heatStep(
  'creations and deletions begun while the master is away are carried out once, when it is back',
  async (t) => {
    t.timeout(300_000);
    const kept = await heat.create(template('command'), { text: 'kept' });
    t.is((await kept.end()).status, 'CREATE_COMPLETE');
    calls();
    await stage.stop();
    const created = await heat.create(command({ command: 'demo.write', params: { text: 'late' } }));
    // At this time it is not known yet whether the other project has the right.
    const denied = await stranger.create(
      command({ command: 'demo.write', params: { text: 'denied' } }),
    );
    await kept.delete();
    await kept.until('the deletion', ({ status }) => status === 'DELETE_IN_PROGRESS');
    await refuseRequests(6);
    t.is((await kept.state()).status, 'DELETE_IN_PROGRESS');
    t.is((await created.state()).status, 'CREATE_IN_PROGRESS');
    await stage.start();
    const made = await created.end();
    t.is(made.status, 'CREATE_COMPLETE', made.reason);
    const refused = await denied.end();
    t.is(refused.status, 'CREATE_FAILED');
    t.regex(refused.reason, /ERR_COMMAND_DENIED/);
    await denied.delete();
    t.is((await denied.end()).status, 'DELETE_COMPLETE');
    const gone = await kept.end();
    t.is(gone.status, 'DELETE_COMPLETE', gone.reason);
    t.deepEqual(calls(), ['web-1 remove kept', 'web-1 write late', 'web-2 remove kept']);
    await created.delete();
    t.is((await created.end()).status, 'DELETE_COMPLETE');
  },
);

heatStep('a stack that is deleted while its command runs ends the run first', async (t) => {
  t.timeout(180_000);
  stage.slow = new AbortController();
  const stack = await heat.create(command({ command: 'demo.slow' }));
  await eventually('the call', async () => stage.calls.length > 0);
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
  await eventually('the job to be killed', async () => stage.calls.includes('web-1 killed '));
  t.deepEqual(calls(), ['web-1 killed ', 'web-1 slow ']);
});

heatStep('a stack that is deleted while its plan runs undoes its steps first', async (t) => {
  t.timeout(180_000);
  stage.slow = new AbortController();
  const groups = { all: ['web-1'] };
  const plan = { plan: 'demo.write-slowly', groups, params: { text: 'undone' } };
  const stack = await heat.create(one('OS::Saltbridge::Plan', plan));
  await eventually('the second step', async () => stage.calls.includes('web-1 slow '));
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
  await eventually('the undo', async () => stage.calls.includes('web-1 remove undone'));
});

heatStep('a machine whose enrolment has ended is found by a check, and replaced', async (t) => {
  t.timeout(180_000);
  const machine = {
    ...one('OS::Saltbridge::Minion', { format: 'none' }),
    outputs: {
      id: { value: { get_attr: ['it', 'minion_id'] } },
      state: { value: { get_attr: ['it', 'state'] } },
    },
  };
  const stack = await heat.create(machine);
  const made = await stack.end();
  t.like(made, { status: 'CREATE_COMPLETE', outputs: { state: 'open' } });
  t.is((await stack.check()).status, 'CHECK_COMPLETE');
  const [number] = (await stage.bridge.enroll.list())
    .filter(({ id }) => id === made.outputs.id)
    .map((it) => it.number);
  await stage.bridge.enroll.retire({ number: number ?? '' });
  await stack.update(machine);
  const found = await stack.check();
  t.is(found.status, 'CHECK_FAILED');
  t.regex(found.reason, /enrolment is retired/);
  const replaced = await stack.update(machine);
  t.like(replaced, { status: 'UPDATE_COMPLETE', outputs: { state: 'open' } });
  t.not(replaced.outputs.id, made.outputs.id);
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
});

const [program] = minionPrograms;
const isReal = isThere && program !== undefined;
const realStep = testWhere(isReal, 'HEAT_ENV, HEAT_START and SALT_MINION', test.serial);

realStep('a real minion runs a program, whose stderr fails the stack', async (t) => {
  t.timeout(300_000);
  calls();
  const minion = await RealMinion.create({ program: program ?? '', ...stage.ports });
  t.teardown(() => minion.dispose());
  const events = new EventLog(await stage.master.events.subscribe());
  minion.start();
  const tag = `salt/minion/${minion.id}/start`;
  await events.seen(tag, (it) => it.tag === tag);
  const template = (exit: string): object => ({
    ...one('OS::Saltbridge::Command', {
      command: 'demo.program',
      minions: [minion.id],
      params: { exit },
    }),
    outputs: { stdout: { value: { get_attr: ['it', 'return', 'stdout'] } } },
  });
  const stack = await heat.create(template('0'));
  const made = await stack.end();
  t.is(made.status, 'CREATE_COMPLETE', made.reason);
  t.deepEqual(made.outputs, { stdout: 'done' });
  const failed = await stack.update(template('3'));
  t.is(failed.status, 'UPDATE_FAILED');
  t.regex(failed.reason, /demo\.program failed: .*: disk full \(retcode 3\)/);
  await stack.delete();
  t.is((await stack.end()).status, 'DELETE_COMPLETE');
});

for (const [who, restart] of [
  ['master', () => stage.stop().then(() => stage.start())],
  ['heat-engine', () => restartEngine(path.dirname(file ?? ''), start ?? '', 'SIGKILL')],
] as const) {
  heatStep(`a command whose ${who} ends meanwhile runs once, and its return is kept`, async (t) => {
    t.timeout(300_000);
    calls();
    stage.slow = new AbortController();
    const slow = command({ command: 'demo.slow' });
    const stack = await heat.create(slow);
    await eventually('the call', async () => stage.calls.length > 0);
    await restart();
    stage.slow.abort();
    // Work that an ended engine had begun is continued only by the next update.
    const { status, reason, outputs } =
      who === 'master' ? await stack.end() : await stack.update(slow);
    t.regex(status, /^(CREATE|UPDATE)_COMPLETE$/, reason);
    t.deepEqual(outputs, { status: 'succeeded' });
    t.deepEqual(calls(), ['web-1 slow ']);
    await stack.delete();
    t.is((await stack.end()).status, 'DELETE_COMPLETE');
  });
}

heatStep(
  'a deletion that never reaches the master fails in time, and can be repeated',
  async (t) => {
    t.timeout(300_000);
    const stack = await heat.create(
      command({
        command: 'demo.write',
        params: { text: 'x' },
        on_delete: { command: 'demo.remove', params: { text: 'x' } },
        delete_timeout: 10,
      }),
    );
    t.is((await stack.end()).status, 'CREATE_COMPLETE');
    await stage.stop();
    await stack.delete();
    const failed = await stack.end();
    t.is(failed.status, 'DELETE_FAILED');
    t.regex(failed.reason, /no outcome in time/);
    await stage.start();
    calls();
    await eventually(
      'the minion to be back',
      async () => {
        await stack.delete();
        return (await stack.end()).status === 'DELETE_COMPLETE';
      },
      120_000,
      2000,
    );
    t.deepEqual(calls(), ['web-1 remove x']);
  },
);

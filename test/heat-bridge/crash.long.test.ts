/**
 * A master is killed while runs are in progress. A request with the same idempotency key continues
 * a run.
 */
import test, { type ExecutionContext } from 'ava';
import { connectExtension } from '#client';
import type { CommandUpdate, PlanStarted, PlanUpdate, RunStarted } from '#heat-bridge';
import type { MinionFunction } from '#minion-protocol';
import { until, within } from '../helpers/deadline.ts';
import { collect } from '../helpers/fleet.ts';
import { type KillableMaster, startKillable } from '../helpers/killable-master.ts';

const configuration = `
auto_accept: true
timeout: 5
saltbridge:
  bridge: { catalog: [commands.yaml] }
`;

const catalog = `
site.quick: { description: x, function: site.quick, reviewed: made for this test alone }
site.held: { description: x, function: site.held, reviewed: made for this test alone }
site.bad: { description: x, function: site.bad, reviewed: made for this test alone }
plans:
  site.roll-out:
    description: Something quick, and something that takes until the master was killed.
    groups: { all: {} }
    steps:
      before: { command: site.quick, group: all }
      held: { command: site.held, group: all, needs: [before] }
      after: { command: site.quick, group: all, needs: [held] }
  site.roll-back:
    description: Fails, and takes until the master was killed to take it back.
    groups: { all: {} }
    steps:
      before: { command: site.quick, group: all, undo: { command: site.held } }
      bad: { command: site.bad, group: all, needs: [before] }
      after: { command: site.quick, group: all, needs: [bad] }
`;

interface Field extends KillableMaster {
  /** Calls of minions, as `<minion> <function>`. */
  readonly asked: string[];
  /** Lets `site.held` return on web2. On web1 it returns by itself. */
  goOn(): void;
  stream<T>(method: string, parameters: object): AsyncIterable<T>;
}

async function startField(t: ExecutionContext): Promise<Field> {
  const field = await startKillable(t, configuration, { 'commands.yaml': catalog });
  const asked: string[] = [];
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const functions: Readonly<Record<string, MinionFunction>> = {
    'site.quick': (_call, { id }) => asked.push(`${id} quick`) > 0,
    'site.bad': (_call, { id }) => {
      asked.push(`${id} bad`);
      throw new Error('here');
    },
    'site.held': async (_call, { id }) => {
      asked.push(`${id} held`);
      if (id === 'web2') await held;
      return `${id} is ready`;
    },
  };
  await field.join('web1', functions);
  await field.join('web2', functions);
  return {
    ...field,
    asked,
    goOn: () => goOn(),
    stream: (method, parameters) =>
      connectExtension({ socketPath: field.socketPath }, 'bridge').stream(method, parameters),
  };
}

/** Follows a run until one minion has returned. Then kills the master and starts it again. */
async function killWhenHalfDone(
  field: Field,
  updates: AsyncIterable<{ readonly type: string; readonly result?: unknown }>,
  isHalf: (update: object) => boolean,
): Promise<void> {
  const reading = (async () => {
    for await (const update of updates) if (isHalf(update)) return;
    throw new Error('it ended before it was killed');
  })();
  await within('the first result', reading);
  await until(
    'both to be asked',
    () => field.asked.filter((it) => it.endsWith('held')).length === 2,
  );
  await field.master.kill();
  field.master.spawn();
  await within('the next master', field.master.ready());
}

const both = (name: string): string[] => [`web1 ${name}`, `web2 ${name}`];

test('the same key returns the results from before and after the crash, without calling a minion again', async (t) => {
  t.timeout(90_000);
  const field = await startField(t);
  const call = { command: 'site.held', tgt: 'web*', idempotencyKey: 'k' };
  const first = field.stream<CommandUpdate>('run', call);
  await killWhenHalfDone(field, first, (it) => 'result' in it);
  const again = collect(field.stream<RunStarted | CommandUpdate>('run', call));
  field.goOn();
  const updates = await within('the run', again);
  t.like(updates[0], { type: 'begun', isRepeated: true });
  t.like(updates.at(-1), {
    type: 'outcome',
    outcome: {
      status: 'succeeded',
      results: [
        { minion: 'web1', return: 'web1 is ready' },
        { minion: 'web2', return: 'web2 is ready' },
      ],
    },
  });
  t.deepEqual(field.asked.sort(), both('held'));
});

test('a plan continues where it stopped, and does not repeat completed steps', async (t) => {
  t.timeout(90_000);
  const field = await startField(t);
  const call = { plan: 'site.roll-out', groups: { all: 'web*' }, idempotencyKey: 'k' };
  const first = field.stream<PlanUpdate>('runPlan', call);
  await killWhenHalfDone(
    field,
    first,
    (it) => 'result' in it && 'step' in it && it.step === 'held',
  );
  const again = collect(field.stream<PlanStarted | PlanUpdate>('runPlan', call));
  field.goOn();
  const updates = await within('the plan', again);
  t.like(updates[0], { type: 'begun', isRepeated: true });
  const last = updates.at(-1);
  if (last?.type !== 'outcome') return t.fail('no outcome');
  t.is(last.outcome.status, 'succeeded');
  t.deepEqual(
    last.outcome.steps.map(({ step, results }) => [step, results.map((it) => it.return)]),
    [
      ['before', [true, true]],
      ['held', ['web1 is ready', 'web2 is ready']],
      ['after', [true, true]],
    ],
  );
  t.deepEqual(field.asked.sort(), [...both('held'), ...both('quick'), ...both('quick')].sort());
});

test('a plan that is undoing its steps continues only to undo them', async (t) => {
  t.timeout(90_000);
  const field = await startField(t);
  const call = { plan: 'site.roll-back', groups: { all: 'web*' }, idempotencyKey: 'k' };
  const first = field.stream<PlanUpdate>('runPlan', call);
  await killWhenHalfDone(
    field,
    first,
    (it) => 'result' in it && 'kind' in it && it.kind === 'undo',
  );
  const again = collect(field.stream<PlanStarted | PlanUpdate>('runPlan', call));
  field.goOn();
  const last = (await within('the plan', again)).at(-1);
  if (last?.type !== 'outcome') return t.fail('no outcome');
  const { status, failedStep, steps, undone } = last.outcome;
  t.deepEqual([status, failedStep], ['failed', 'bad']);
  t.deepEqual(
    steps.map((it) => it.status),
    ['succeeded', 'failed', 'skipped'],
  );
  t.deepEqual(
    undone.map(({ step, status: end, results }) => [step, end, results.length]),
    [['before', 'succeeded', 2]],
  );
  t.deepEqual(field.asked.sort(), [...both('bad'), ...both('held'), ...both('quick')].sort());
});

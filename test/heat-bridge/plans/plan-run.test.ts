/** What is taken back, for any graph and any end of each step; and that a crash changes nothing of it. */
import test from 'ava';
import fc from 'fast-check';
import { Catalog, type PlanOutcome } from '../../../heat-bridge/index.ts';
import { type CompiledPlan, compilePlan } from '../../../heat-bridge/plans/plan-catalog.ts';
import { parsePlanDefinition } from '../../../heat-bridge/plans/plan-definition.ts';
import {
  PlanExecution,
  type PlanExecutionOptions,
  PlanRun,
} from '../../../heat-bridge/plans/plan-run.ts';
import { commands } from './cluster.ts';

const never = new AbortController().signal;
const catalog = new Catalog(commands);

type State = PlanExecutionOptions['before'];

interface Story {
  readonly plan: CompiledPlan;
  readonly failing: ReadonlySet<string>;
  /** Turns of the event loop that each step takes. */
  readonly turns: ReadonlyMap<string, number>;
  /** After which of the states that are kept the master ends. */
  readonly crash: number;
}

const stories: fc.Arbitrary<Story> = fc.integer({ min: 1, max: 7 }).chain((count) => {
  const names = Array.from({ length: count }, (_, at) => `s${at}`);
  return fc
    .record({
      needs: fc.tuple(...names.map((_, at) => fc.subarray(names.slice(0, at)))),
      undone: fc.subarray(names).map((it) => new Set(it)),
      going: fc.subarray(names).map((it) => new Set(it)),
      failing: fc.subarray(names).map((it) => new Set(it)),
      turns: fc.array(fc.nat(5), { minLength: count, maxLength: count }),
      crash: fc.nat(20),
    })
    .map(({ needs, undone, going, failing, turns, crash }) => {
      const steps = names.map((name, at) => [
        name,
        {
          command: 'db.unfollow',
          group: 'all',
          needs: needs[at],
          onFailure: going.has(name) ? 'continue' : 'stop',
          ...(undone.has(name) ? { undo: { command: 'db.unfollow' } } : {}),
        },
      ]);
      const body = { description: 'x', groups: { all: {} }, steps: Object.fromEntries(steps) };
      const plan = compilePlan(parsePlanDefinition('demo.plan', body), catalog);
      return { plan, failing, crash, turns: new Map(names.map((it, at) => [it, turns[at] ?? 0])) };
    });
});

interface Told {
  readonly outcome: PlanOutcome;
  /** Steps, and those that were taken back, in the order in which they ended. */
  readonly ended: readonly string[];
  readonly kept: readonly State[];
}

async function play(
  { plan, failing, turns }: Story,
  before: State = { begun: [], ended: [] },
  cancelled: AbortSignal = never,
): Promise<Told> {
  const ended: string[] = [];
  const kept: State[] = [];
  const groups = { all: ['web1'] };
  const run = new PlanExecution({
    plan,
    live: new PlanRun({ id: '1', plan: 'demo.plan', groups, owner: 'x' }),
    steps: {
      run: async ({ step, kind, signal }) => {
        for (let turn = turns.get(step.name) ?? 0; turn > 0; turn -= 1) await nextTurn();
        const isFailing = signal?.aborted === true || (kind === 'do' && failing.has(step.name));
        const state = isFailing ? 'failed' : 'succeeded';
        ended.push(`${kind} ${step.name}`);
        const results = [{ minion: 'web1', state }] as const;
        return { step: step.name, command: 'db.unfollow', status: state, results, runs: [] };
      },
    },
    before,
    keep: async (state) => {
      kept.push(state);
    },
    deadline: 0,
    late: never,
    cancelled,
    ended: cancelled,
    undoesOnCancel: () => true,
    closing: never,
  });
  return { outcome: await run.follow(), ended, kept };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

test('a plan that fails takes back what was done and can be, the latest first, and nothing else', async (t) => {
  await fc.assert(
    fc.asyncProperty(stories, async (story) => {
      const { outcome, ended } = await play(story);
      const done = ended.filter((it) => it.startsWith('do ')).map((it) => it.slice(3));
      const hasUndo = (name: string): boolean =>
        story.plan.steps.some((it) => it.name === name && it.undo !== undefined);
      const expected = done.filter((name) => !story.failing.has(name) && hasUndo(name)).reverse();
      const undone = outcome.undone.map(({ step }) => step);
      return JSON.stringify(undone) === JSON.stringify(outcome.status === 'failed' ? expected : []);
    }),
  );
  t.pass();
});

test('whenever its master ends, the next one comes to the same end, in the same order', async (t) => {
  await fc.assert(
    fc.asyncProperty(stories, async (story) => {
      const whole = await play(story);
      const before = whole.kept[story.crash % Math.max(1, whole.kept.length)];
      if (before === undefined) return true;
      const again = await play(story, before);
      const sameStatus = again.outcome.status === whole.outcome.status;
      // Steps without needs of each other may end otherwise, where they had not ended.
      const prefix = again.ended.slice(0, before.ended.length).map((it) => it.slice(3));
      return sameStatus && JSON.stringify(prefix) === JSON.stringify(before.ended);
    }),
  );
  t.pass();
});

test('what was under way when its master ended is taken back too, also where the plan is over meanwhile', async (t) => {
  const cancel = new AbortController();
  cancel.abort();
  await fc.assert(
    fc.asyncProperty(stories, async (story) => {
      const whole = await play(story);
      const before = whole.kept[story.crash % Math.max(1, whole.kept.length)];
      if (before === undefined || before.undoing !== undefined) return true;
      const { outcome, ended } = await play(story, before, cancel.signal);
      const done = ended.filter((it) => it.startsWith('do ')).map((it) => it.slice(3));
      const isWhole = done.length === story.plan.steps.length && story.failing.size === 0;
      const sameSteps = JSON.stringify(done.sort()) === JSON.stringify([...before.begun].sort());
      return sameSteps && (outcome.status === 'cancelled' || isWhole);
    }),
  );
  t.pass();
});

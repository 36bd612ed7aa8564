/** Definitions of plans, and mistakes that are reported before any call. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import Type from 'typebox';
import { createBridge, loadCatalog } from '#guests';
import { Catalog, type Parameters, type PlanOutcome } from '#heat-bridge';
import { parseJsonPointer, valueAtPointer } from '#heat-bridge/plans/json-pointer.ts';
import { type CompiledPlan, compilePlan, PlanCatalog } from '#heat-bridge/plans/plan-catalog.ts';
import { definePlan, parsePlanDefinition } from '#heat-bridge/plans/plan-definition.ts';
import { PlanExecution, type PlanExecutionOptions } from '#heat-bridge/plans/plan-execution.ts';
import { PlanRun } from '#heat-bridge/plans/plan-run.ts';
import { StepRunner } from '#heat-bridge/plans/step-runner.ts';
import {
  ancestorsOf,
  type StepDependencies,
  type StepEnd,
  StepSchedule,
  topologicalOrder,
} from '#heat-bridge/plans/step-schedule.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { cluster, commands, user } from './cluster.ts';

const catalog = new Catalog([...commands, user]);
const { name, ...base } = cluster;
const { grant, status, follow, note } = base.steps;

function compile(body: object): PlanCatalog {
  return new PlanCatalog([parsePlanDefinition(name, body)], catalog);
}

const refused: readonly (readonly [why: string, body: object, named: RegExp])[] = [
  ['no steps', { ...base, steps: {} }, /steps/],
  ['an unknown field', { ...base, fun: 'x' }, /fun: there is no such key/],
  [
    'a function',
    steps({ grant: { ...grant, function: 'cmd.run' } }),
    /function: there is no such key/,
  ],
  ['a command nobody knows', steps({ grant: { ...grant, command: 'cmd.run' } }), /grant\.command/],
  [
    'an unknown command that undoes a step',
    steps({ grant: { ...grant, undo: { command: 'db.forget' } } }),
    /steps\.grant\.undo\.command: no command/,
  ],
  ['an unknown group', steps({ grant: { ...grant, group: 'slaves' } }), /unknown group slaves/],
  ['an unknown step', steps({ note: { ...note, needs: ['ready'] } }), /unknown step ready/],
  [
    'steps that need each other',
    steps({ grant: { ...grant, needs: ['note'] } }),
    /depend on each other in a cycle/,
  ],
  [
    'a step that needs itself',
    steps({ note: { ...note, needs: ['note'] } }),
    /depend on each other in a cycle/,
  ],
  [
    'a parameter that the command does not declare',
    steps({ note: { ...note, params: { user: 'user', cmd: 'user' } } }),
    /params\.cmd: the command db\.note has no parameter/,
  ],
  [
    'a parameter that the plan does not declare',
    steps({ note: { ...note, params: { user: 'host' } } }),
    /the parameter host, which the plan does not declare/,
  ],
  [
    'a missing parameter',
    steps({ note: { ...note, params: {} } }),
    /required parameter user of the command is missing/,
  ],
  [
    'a parameter that no step uses',
    { ...base, parameters: { type: 'object', properties: { user: {}, host: {} } } },
    /parameters\.host: no step uses/,
  ],
  [
    'a result of a step that is not needed',
    steps({ follow: { ...follow, needs: ['grant'] } }),
    /the step status, which does not run before/,
  ],
  [
    'a result that the schema does not describe',
    steps({ follow: withFile({ step: 'status', path: '/fil' }) }),
    /schema of the field `returns` of the command db\.status/,
  ],
  [
    'a result of a command without returns',
    steps({ follow: withFile({ step: 'grant', path: '' }) }),
    /schema of the field `returns` of the command db\.grant/,
  ],
  [
    'an invalid JSON pointer',
    steps({ follow: withFile({ step: 'status', path: 'file' }) }),
    /must be a JSON pointer/,
  ],
  [
    'a result of several minions',
    steps({ status: { ...status, group: 'replicas' } }),
    /can run on several minions/,
  ],
  [
    'a template',
    steps({ note: { ...note, params: { user: { template: '{{ user }}' } } } }),
    /must be the name of a parameter/,
  ],
  [
    'a part without a group',
    groups({ first: { select: 'first' } }),
    /set both of the fields `from` and `select`/,
  ],
  [
    'a part of an unknown group',
    groups({ first: { from: 'nodes', select: 'first' } }),
    /unknown group nodes/,
  ],
  [
    'a part of a part',
    groups({
      a: { from: 'replicas', select: 'rest' },
      b: { from: 'a', select: 'rest' },
    }),
    /itself has the field `from`/,
  ],
  ['a minimum above the maximum', groups({ master: { min: 2, max: 1 } }), /larger than `max`/],
  ['a batch of no minions', steps({ note: { ...note, batchSize: '0%' } }), /batchSize/],
  [
    'a secret that another step exposes',
    steps({
      user: { command: 'db.user', group: 'master', params: { password: 'user' } },
    }),
    /parameters\.user: one step passes/,
  ],
];

function steps(more: object): object {
  return { ...base, steps: { ...base.steps, ...more } };
}

function groups(more: object): object {
  return { ...base, groups: { ...base.groups, ...more } };
}

function withFile(file: object): object {
  return { ...follow, params: { ...follow?.params, file } };
}

for (const [title, body, named] of refused) {
  test(`a plan is refused with ${title}`, (t) => {
    const error = t.throws(() => compile(body), { code: 'ERR_CATALOG' });
    t.regex(error?.message ?? '', named);
    t.true(error?.message.startsWith(name));
  });
}

test('a complete plan is accepted, with its steps after their dependencies', (t) => {
  const [compiled] = compile(base).list();
  t.deepEqual(
    compiled?.steps.map((it) => it.name),
    ['grant', 'status', 'follow', 'note'],
  );
  t.throws(() => compile(base).get('db.drop-cluster'), { code: 'ERR_PLAN_UNKNOWN' });
});

const yaml = `
demo.echo:
  description: Gives back a text.
  function: test.echo
  parameters: {type: object, properties: {text: {type: string}}}
plans:
  demo.twice:
    description: Says it twice.
    parameters: {type: object, properties: {text: {type: string}}}
    groups: {all: {}}
    steps:
      one: {command: demo.echo, group: all}
      two: {command: demo.echo, group: all, needs: [one], params: {text: text}}
`;

test('files contain plans beside commands, and plans may use commands of any file and of the program', async (t) => {
  const directory = temporaryDirectory(t);
  const write = (file: string, content: string) =>
    writeFileSync(path.join(directory, file), content);
  write('a.yaml', yaml);
  write(
    'b.yaml',
    'plans: {demo.other: {description: x, groups: {all: {}}, steps: {one: {command: db.unfollow, group: all}}}}',
  );
  const known = await loadCatalog([directory], commands);
  t.deepEqual(known.findings, []);
  t.deepEqual(
    known.plans.map((it) => it.name),
    ['demo.twice', 'demo.other'],
  );
  const alone = await loadCatalog([directory]);
  t.deepEqual(
    alone.findings.map(({ file, problem }) => [path.basename(file), problem]),
    [['b.yaml', 'demo.other: steps.one.command: no command in the catalog has this name']],
  );
});

test('a program has the types of its plans', async (t) => {
  const twice = definePlan('demo.twice', {
    description: 'x',
    parameters: Type.Object({ user: Type.String() }),
    groups: { all: {}, first: { from: 'all', select: 'first' } },
    steps: { one: { command: 'db.note', group: 'first' } },
  });
  const bridge = createBridge({ commands, plans: [twice] });
  const groups = { all: 'web*' };
  const closed = bridge.plan('demo.twice', { groups, params: { user: 'x' } });
  await t.throwsAsync(closed, { code: 'ERR_BRIDGE_NOT_OPEN' });
  // @ts-expect-error: no plan of this name
  await t.throwsAsync(bridge.plan('demo.thrice', { groups }));
  // @ts-expect-error: a text is expected
  await t.throwsAsync(bridge.plan('demo.twice', { groups, params: { user: 1 } }));
  // @ts-expect-error: a group is missing
  await t.throwsAsync(bridge.plan('demo.twice', { groups: {}, params: { user: 'x' } }));
});

test('a pointer follows its keys, whatever characters they contain', (t) => {
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 4 }), fc.jsonValue(), (keys, inner) => {
      const pointer = keys
        .map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`)
        .join('');
      const value = [...keys].reverse().reduce<unknown>((it, key) => ({ [key]: it }), inner);
      const found = valueAtPointer(value as never, parseJsonPointer(pointer) ?? ['no pointer']);
      return JSON.stringify(found) === JSON.stringify(inner);
    }),
  );
  t.deepEqual(
    ['a', '/~2', '~'].map((it) => parseJsonPointer(it)),
    [undefined, undefined, undefined],
  );
});

// Undo of steps, for any graph and any outcome of the steps. A crash must not change the result.

const never = new AbortController().signal;
const commandCatalog = new Catalog(commands);

type State = PlanExecutionOptions['before'];

interface Story {
  readonly plan: CompiledPlan;
  readonly failing: ReadonlySet<string>;
  /** Number of turns of the event loop that each step takes. */
  readonly turns: ReadonlyMap<string, number>;
  /** Number of stored states after which the master stops. */
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
      const plan = compilePlan(parsePlanDefinition('demo.plan', body), commandCatalog);
      return { plan, failing, crash, turns: new Map(names.map((it, at) => [it, turns[at] ?? 0])) };
    });
});

interface PlayedPlan {
  readonly outcome: PlanOutcome;
  /** Steps, and undone steps, in the order in which they ended. */
  readonly ended: readonly string[];
  readonly kept: readonly State[];
}

async function play(
  { plan, failing, turns }: Story,
  before: State = { begun: [], ended: [] },
  cancelled: AbortSignal = never,
  isLate = () => false,
): Promise<PlayedPlan> {
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
    ends: { isLate, cancelled, ended: cancelled, closing: never },
    undoesOnCancel: () => true,
  });
  return { outcome: await run.follow(), ended, kept };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

test('a failed plan undoes the completed steps that can be undone, the latest first', async (t) => {
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

test('a plan whose step ends unsuccessfully at the deadline ends with timeout', async (t) => {
  await fc.assert(
    fc.asyncProperty(stories, async (story) => {
      const { status } = (await play(story)).outcome;
      const late = (await play(story, undefined, undefined, () => true)).outcome.status;
      return late === (status === 'succeeded' ? 'succeeded' : 'timeout');
    }),
  );
  t.pass();
});

test('after the end of a master at any step, the next one reaches the same result in the same order', async (t) => {
  await fc.assert(
    fc.asyncProperty(stories, async (story) => {
      const whole = await play(story);
      const before = whole.kept[story.crash % Math.max(1, whole.kept.length)];
      if (before === undefined) return true;
      const again = await play(story, before);
      const sameStatus = again.outcome.status === whole.outcome.status;
      // Steps that were in progress at the crash may have another outcome if they do not depend on
      // each other.
      const prefix = again.ended.slice(0, before.ended.length).map((it) => it.slice(3));
      return sameStatus && JSON.stringify(prefix) === JSON.stringify(before.ended);
    }),
  );
  t.pass();
});

test('steps in progress at the end of the master are undone too, even if the plan has ended since', async (t) => {
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

// The steps that begin, for any graph, any outcome of each step, and any order in which they end.

/** Graphs without cycles: dependencies are only on earlier names. Their order is random. */
const graphs: fc.Arbitrary<StepDependencies> = fc
  .integer({ min: 1, max: 9 })
  .chain((count) =>
    fc
      .tuple(
        ...Array.from({ length: count }, (_, at) => fc.subarray(range(at).map((it) => `s${it}`))),
      )
      .chain((needs) =>
        fc
          .shuffledSubarray(range(count), { minLength: count })
          .map((order) => new Map(order.map((at) => [`s${at}`, needs[at] ?? []]))),
      ),
  );

interface ScheduleStory {
  readonly needs: StepDependencies;
  readonly failing: ReadonlySet<string>;
  readonly stopping: ReadonlySet<string>;
  readonly parallel: number;
  /** Choices of the step in progress that ends next. */
  readonly picks: readonly number[];
}

const scheduleStories: fc.Arbitrary<ScheduleStory> = graphs.chain((needs) => {
  const names = [...needs.keys()];
  const some = fc.subarray(names).map((it) => new Set(it));
  return fc.record({
    needs: fc.constant(needs),
    failing: some,
    stopping: some,
    parallel: fc.integer({ min: 1, max: 4 }),
    picks: fc.array(fc.nat(), { minLength: names.length, maxLength: names.length }),
  });
});

interface PlayedSchedule {
  /**
   * State when each step began: the steps that had succeeded, and the number of steps in progress.
   */
  readonly begun: Map<string, { readonly succeeded: ReadonlySet<string>; readonly busy: number }>;
  readonly ended: ReadonlyMap<string, StepEnd>;
  /** Steps that began although an earlier failure stops the plan. */
  readonly late: readonly string[];
}

function playSchedule({
  needs,
  failing,
  stopping,
  parallel,
  picks,
}: ScheduleStory): PlayedSchedule {
  const steps = [...needs.keys()].map((name) => ({ name, stops: stopping.has(name) }));
  const schedule = new StepSchedule(steps, needs, parallel);
  const begun: PlayedSchedule['begun'] = new Map();
  const late: string[] = [];
  const running: string[] = [];
  let hasStopped = false;
  for (const pick of [...picks, 0]) {
    for (const name of schedule.begin()) {
      running.push(name);
      const succeeded = [...schedule.ended].filter(([, end]) => end === 'succeeded');
      const before = new Set(succeeded.map(([it]) => it));
      begun.set(name, { succeeded: before, busy: running.length });
      if (hasStopped) late.push(name);
    }
    const [name] = running.splice(pick % Math.max(1, running.length), 1);
    if (name === undefined) break;
    schedule.end(name, failing.has(name) ? 'failed' : 'succeeded');
    hasStopped ||= failing.has(name) && stopping.has(name);
  }
  return { begun, ended: schedule.ended, late };
}

test('no step begins before all its dependencies have succeeded, and none runs twice', (t) => {
  fc.assert(
    fc.property(scheduleStories, (story) => {
      const { begun } = playSchedule(story);
      for (const [name, { succeeded, busy }] of begun) {
        for (const need of story.needs.get(name) ?? []) if (!succeeded.has(need)) return false;
        if (busy > story.parallel || succeeded.has(name)) return false;
      }
      return true;
    }),
  );
  t.pass();
});

test('after a failure that stops the plan no step begins; otherwise all unaffected steps run', (t) => {
  fc.assert(
    fc.property(scheduleStories, (story) => {
      const { begun, late } = playSchedule(story);
      if (late.length > 0) return false;
      const { needs, failing, stopping } = story;
      if ([...failing].some((name) => stopping.has(name) && begun.has(name))) return true;
      return [...needs.keys()].every((name) => {
        const isKept = [...ancestorsOf(name, needs)].some((it) => failing.has(it));
        return begun.has(name) !== isKept;
      });
    }),
  );
  t.pass();
});

test('an order places each step after its dependencies, and a cycle has no order', (t) => {
  fc.assert(
    fc.property(graphs, (needs) => {
      const order = topologicalOrder(needs) ?? [];
      const isSorted = order.every((name, at) =>
        (needs.get(name) ?? []).every((it) => order.indexOf(it) < at && order.includes(it)),
      );
      return isSorted && order.length === needs.size;
    }),
  );
  fc.assert(
    fc.property(graphs, fc.nat(), (needs, at) => {
      const [first = ''] = topologicalOrder(needs) ?? [];
      const names = [...needs.keys()];
      const last = names[at % names.length] ?? '';
      const isCircle = last === first || ancestorsOf(last, needs).has(first);
      const circular = new Map(needs).set(first, [...(needs.get(first) ?? []), last]);
      return (topologicalOrder(circular) === undefined) === isCircle;
    }),
  );
  t.pass();
});

function range(count: number): number[] {
  return Array.from({ length: count }, (_, at) => at);
}

test('a step that goes to its minions in batches checks its parameters once', async (t) => {
  const step = compile(base)
    .get(name)
    .steps.find((it) => it.name === 'note');
  if (step === undefined) return t.fail('there is no such step');
  let checks = 0;
  const check = (given: unknown): Parameters => {
    checks += 1;
    return step.command.check(given);
  };
  const given: Parameters[] = [];
  const runner = new StepRunner({
    commands: {
      start: async ({ parameters, minions }) => {
        given.push(parameters);
        const results = minions.map((minion) => ({ minion, state: 'succeeded' as const }));
        const outcome = { id: '1', command: 'db.note', status: 'succeeded', jids: [] } as const;
        return {
          ...{ id: '1', command: 'db.note', minions, missing: [], isRepeated: false },
          outcome: Promise.resolve({ ...outcome, results }),
          updates: async function* () {},
          cancel: async () => {},
        };
      },
    },
    caller: { name: 'service:x', subject: undefined },
    parameters: { user: 'repl' },
    resolvedAt: 0,
    live: { id: '1', plan: name },
    logger: { error: () => t.fail('nothing fails') },
  });
  const outcome = await runner.run({
    step,
    kind: 'do',
    mapped: { ...step, command: { ...step.command, check } },
    minions: ['web1', 'web2', 'web3'],
    batchSize: 1,
    maxFailures: 0,
    returned: new Map([['status', { file: 'bin.1', at: [7] }]]),
    onResult: () => {},
  });
  t.like(outcome, { status: 'succeeded', results: { length: 3 } });
  t.deepEqual([checks, new Set(given).size, given.length], [1, 1, 3]);
});

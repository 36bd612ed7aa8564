/** Which steps begin, and when: for any graph, any end of each step, and any order of the ends. */
import test from 'ava';
import fc from 'fast-check';
import {
  ancestorsOf,
  type StepDependencies,
  topologicalOrder,
} from '../../../heat-bridge/plans/plan-catalog.ts';
import { type StepEnd, StepSchedule } from '../../../heat-bridge/plans/plan-run.ts';

/** Edges from later names to earlier ones alone, so that there is no circle; in any order. */
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

interface Story {
  readonly needs: StepDependencies;
  readonly failing: ReadonlySet<string>;
  readonly stopping: ReadonlySet<string>;
  readonly parallel: number;
  /** Which of those under way ends next. */
  readonly picks: readonly number[];
}

const stories: fc.Arbitrary<Story> = graphs.chain((needs) => {
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

interface Told {
  /** Each step when it began, with what had succeeded then, and how many were under way. */
  readonly begun: Map<string, { readonly succeeded: ReadonlySet<string>; readonly busy: number }>;
  readonly ended: ReadonlyMap<string, StepEnd>;
  /** Steps that began after one that stops had failed. */
  readonly late: readonly string[];
}

function play({ needs, failing, stopping, parallel, picks }: Story): Told {
  const steps = [...needs.keys()].map((name) => ({ name, stops: stopping.has(name) }));
  const schedule = new StepSchedule(steps, needs, parallel);
  const begun: Told['begun'] = new Map();
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

test('no step begins before all that it needs has succeeded, and none twice', (t) => {
  fc.assert(
    fc.property(stories, (story) => {
      const { begun } = play(story);
      for (const [name, { succeeded, busy }] of begun) {
        for (const need of story.needs.get(name) ?? []) if (!succeeded.has(need)) return false;
        if (busy > story.parallel || succeeded.has(name)) return false;
      }
      return true;
    }),
  );
  t.pass();
});

test('after a failure that stops, none begins; without one, all do that nothing failed keeps from it', (t) => {
  fc.assert(
    fc.property(stories, (story) => {
      const { begun, late } = play(story);
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

test('an order has each step after what it needs; a circle has none', (t) => {
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

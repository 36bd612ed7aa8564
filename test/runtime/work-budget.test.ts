import test from 'ava';
import { maxSliceSteps, WorkBudget, WorkLimitExceeded } from '#runtime';
import { workSlices } from '#runtime/work-budget.ts';

test('a budget refuses the step that exceeds it, and names the part', (t) => {
  const budget = new WorkBudget({ steps: 10 });
  budget.spend('a glob', 10);
  const error = t.throws(() => budget.spend('a target', 1), { instanceOf: WorkLimitExceeded });
  t.is(error?.code, 'ERR_WORK_LIMIT');
  t.regex(error?.message ?? '', /^a target takes more than 10 steps; /);
  t.throws(() => budget.spend('a glob', Number.NaN), { instanceOf: WorkLimitExceeded });
});

test('bytes and limits of single parts are refused with the same code', (t) => {
  const budget = new WorkBudget({ steps: 10, bytes: 100 });
  budget.hold('programs', 100);
  t.throws(() => budget.hold('programs', 1), { message: /^programs takes more than 100 bytes; / });
  t.throws(() => budget.refuse('a glob', 5, 'characters'), { code: 'ERR_WORK_LIMIT' });
});

test.serial('one slice runs in each turn of the event loop', async (t) => {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const slices: unknown[] = [];
  const note = (steps: unknown): unknown => slices.push(steps);
  workSlices.subscribe(note);
  const work = async (): Promise<void> => {
    const budget = new WorkBudget({ steps: Number.POSITIVE_INFINITY });
    for (let done = 0; done < 50; done += 1) {
      budget.spend('work', maxSliceSteps / 10);
      if (budget.isSliceOver) await budget.giveWay();
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  isOver = true;
  workSlices.unsubscribe(note);
  t.deepEqual(slices, Array(20).fill(maxSliceSteps));
  t.true(turns >= 20, `${turns} turns`);
});

test.serial('owners take turns, whatever the number of their budgets', async (t) => {
  const order: string[] = [];
  const work = async (name: string, owner?: string): Promise<void> => {
    const budget = new WorkBudget({ steps: Number.POSITIVE_INFINITY }, owner);
    for (let slice = 0; slice < 4; slice += 1) {
      budget.spend('work', maxSliceSteps);
      await budget.giveWay();
      order.push(name);
    }
  };
  const many = Array.from({ length: 50 }, () => work('many', 'minion many'));
  await Promise.all([...many, work('one', 'minion one'), work('unnamed')]);
  const lastOf = (name: string): number => order.lastIndexOf(name) + 1;
  t.deepEqual(order.slice(0, 6), ['many', 'one', 'unnamed', 'many', 'one', 'unnamed']);
  t.true(lastOf('one') <= 12 && lastOf('unnamed') <= 12, order.slice(0, 20).join());
  t.is(order.length, 208);
});

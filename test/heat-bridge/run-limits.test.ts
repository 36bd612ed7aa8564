/** Concurrency limits of commands. */

import test from 'ava';
import fc from 'fast-check';
import type { CommandDefinition } from '#heat-bridge';
import { RunConcurrency, type RunSlot } from '#heat-bridge/commands/run-limits.ts';
import { tries } from '../helpers/effort.ts';

const busy = { code: 'ERR_COMMAND_BUSY' };

function command(concurrency: NonNullable<CommandDefinition['concurrency']>): CommandDefinition {
  return { name: 'demo.echo', description: 'x', function: 'test.echo', concurrency };
}

/** Runs, and the names of those that have started, in order. */
function open(definition: CommandDefinition) {
  const limits = new RunConcurrency();
  const started: string[] = [];
  const enter = (name: string, minions: readonly string[], owner = 'a'): RunSlot => {
    const slot = limits.enter(definition, minions, owner);
    void slot.entered.then(() => started.push(name));
    return slot;
  };
  return { enter, started };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('cancelling runs that wait for many minions takes linear time', (t) => {
  const limits = new RunConcurrency();
  const definition = command({ perTarget: 1, queue: 100 });
  const minions = Array.from({ length: 500 }, (_, index) => `web${index}`);
  const before = performance.now();
  const runs = Array.from({ length: 101 }, () => limits.enter(definition, minions, 'a'));
  for (const run of runs.toReversed()) run.leave();
  // A search through all waiting runs takes 25 seconds.
  t.true(performance.now() - before < 5_000);
});

test('callers take turns at a minion, each in order', async (t) => {
  const { enter, started } = open(command({ perTarget: 1, queue: 10 }));
  const runs = [
    enter('a1', ['web1']),
    enter('a2', ['web1']),
    enter('a3', ['web1']),
    enter('b1', ['web1'], 'b'),
    enter('b2', ['web1', 'web2'], 'b'),
  ];
  for (const _ of runs) {
    await settled();
    runs[['a1', 'a2', 'a3', 'b1', 'b2'].indexOf(started.at(-1) ?? '')]?.leave();
  }
  t.deepEqual(started, ['a1', 'a2', 'b1', 'a3', 'b2']);
});

test('callers take turns at the total of a command', async (t) => {
  const { enter, started } = open(command({ total: 1, queue: 10 }));
  const names = ['a1', 'a2', 'a3', 'b1'];
  const runs = names.map((name) => enter(name, ['web1'], name[0]));
  for (const _ of names) {
    await settled();
    runs[names.indexOf(started.at(-1) ?? '')]?.leave();
  }
  t.deepEqual(started, ['a1', 'b1', 'a2', 'a3']);
});

test('a caller that fills the queue leaves places for callers without a waiting run', (t) => {
  const { enter } = open(command({ perTarget: 1, queue: 2 }));
  for (const name of ['1', '2', '3']) enter(name, ['web1']);
  t.throws(() => enter('4', ['web1']), busy);
  t.true(enter('other', ['web1'], 'b').isQueued);
  t.throws(() => enter('5', ['web1'], 'b'), busy);
});

test('every run starts once, within the limits, whatever the order of ends', async (t) => {
  const minion = fc.constantFrom<string>('w1', 'w2', 'w3');
  const run = fc.record({
    minions: fc.uniqueArray(minion, { minLength: 1 }),
    owner: fc.constantFrom('a', 'b', 'c'),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(run, { maxLength: 12 }),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 3 }),
      fc.infiniteStream(fc.nat()),
      async (runs, perTarget, total, choices) => {
        const { enter, started } = open(command({ perTarget, total, queue: 100 }));
        const slots = runs.map(({ minions, owner }, index) => enter(`${index}`, minions, owner));
        const ended = new Set<string>();
        for (;;) {
          await settled();
          const active = started.filter((it) => !ended.has(it));
          if (active.length > total) return false;
          for (const id of ['w1', 'w2', 'w3']) {
            const here = active.filter((it) => runs[Number(it)]?.minions.includes(id));
            if (here.length > perTarget) return false;
          }
          const [choice = 0] = [choices.next().value];
          const one = active[choice % active.length];
          if (one === undefined) break;
          ended.add(one);
          slots[Number(one)]?.leave();
        }
        return started.length === runs.length;
      },
    ),
    tries(100),
  );
  t.pass();
});

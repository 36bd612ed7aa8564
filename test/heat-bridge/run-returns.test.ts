/** Limits on the returns of minions that runs hold in memory, and the writing of large ones. */

import test from 'ava';
import type { CommandResult } from '#heat-bridge';
import { CommandRun } from '#heat-bridge/commands/command-run.ts';
import { IdempotencyKeys } from '#heat-bridge/commands/idempotency-keys.ts';
import { type StoredRun, storedRunRow, withoutReturns } from '#heat-bridge/commands/recover-run.ts';
import { RunRegistry } from '#heat-bridge/commands/run-registry.ts';
import { MarkedLines } from '#heat-bridge/http/marked-lines.ts';
import { bridgeLimits } from '#heat-bridge/limits.ts';
import { writeMarkedJson } from '#master';
import type { WireValue } from '#minion-protocol';
import { Budget, readingSteps } from '#runtime';
import type { RowCodec } from '#store';
import { Float } from '#template/python/values.ts';
import { memoryState } from './signals/open-signals.ts';

function resultOf(value: WireValue): CommandResult {
  return { minion: 'web1', state: 'succeeded', return: value, retcode: 0 };
}

/** Ends a run with one return, as the runner does. */
async function ended(id: string, owner: string, value: WireValue) {
  const run = new CommandRun({ id, command: 'demo.echo', minions: ['web1'], owner });
  const result = run.admit(resultOf(value));
  run.tell({ type: 'result', jid: id, result });
  return {
    run,
    end: async () => {
      run.end(run.outcomeOf([result], { status: 'succeeded', jids: [id] }));
      await run.outcome;
      return run;
    },
  };
}

/** Returns the returns that a run still holds, in its updates and in its outcome. */
async function returnsOf(run: CommandRun): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const update of run.updates()) {
    if (update.type === 'result') found.push(update.result.return);
    if (update.type === 'outcome') found.push(...update.outcome.results.map((it) => it.return));
  }
  return [...found, ...(await run.outcome).results.map((it) => it.return)];
}

test('ended runs hold a limited number of bytes of returns for each caller and in total', async (t) => {
  const limits = { perOwner: 100, total: 1000 };
  const registry = new RunRegistry<CommandRun>(limits, { perOwner: 2500, total: 4000 });
  const add = async (id: string, owner: string): Promise<CommandRun> => {
    const { run, end } = await ended(id, owner, id.padEnd(1000, '.'));
    registry.add(run);
    return end();
  };
  const runs = [await add('a1', 'a'), await add('b1', 'b'), await add('a2', 'a')];
  const handle = runs[0]?.handle(true);
  runs.push(await add('a3', 'a'));
  const held = async (): Promise<string[]> => {
    const lists = await Promise.all(
      runs.map(async (run) => [run.id, await returnsOf(run)] as const),
    );
    return lists.filter(([, list]) => list.some((it) => it !== undefined)).map(([id]) => id);
  };
  t.deepEqual(await held(), ['b1', 'a2', 'a3']);
  // The run itself is still there. Handles from before do not keep its returns.
  t.is(registry.get('a1'), runs[0]);
  t.is((await runs[0]?.outcome)?.status, 'succeeded');
  t.is((await handle?.outcome)?.results[0]?.return, undefined);
  runs.push(await add('c1', 'c'));
  t.deepEqual(await held(), ['b1', 'a3', 'c1']);
  const { run: large, end } = await ended('d1', 'd', 'x'.repeat(3000));
  registry.add(large);
  runs.push(await end());
  t.deepEqual(await held(), ['b1', 'a3', 'c1']);
});

test('a reader that stopped reading does not keep the returns that its run drops', async (t) => {
  const { run, end } = await ended('a1', 'a', 'x');
  const update = resultOf('y');
  run.tell({ type: 'result', jid: 'a1', result: update });
  const reader = run.updates();
  const first = await reader.next();
  t.like(first.value, { type: 'result', result: { return: 'x' } });
  await end();
  run.dropReturns();
  const rest: unknown[] = [];
  for await (const it of reader) {
    rest.push(it.type === 'result' ? it.result.return : it.type);
    if (it.type === 'outcome')
      t.deepEqual(
        it.outcome.results.map((one) => one.return),
        [undefined],
      );
  }
  t.deepEqual(rest, [undefined, 'outcome']);
});

test('the returns of many small values count with their memory', async (t) => {
  const { run } = await ended(
    'a1',
    'a',
    Array.from({ length: 10_000 }, () => ({})),
  );
  t.true(run.returnBytes >= 500_000);
});

test('returns beyond the bytes of a caller are omitted from active runs, with a reason', async (t) => {
  const budget = new Budget(bridgeLimits.activeReturnBytes, { perOwner: 1500, total: 10_000 });
  const runOf = (owner: string): CommandRun =>
    new CommandRun({ id: '1', command: 'demo.echo', minions: ['web1'], owner });
  const [one, two, other] = [runOf('a'), runOf('a'), runOf('b')];
  const leave = one.limitReturns(budget);
  two.limitReturns(budget);
  other.limitReturns(budget);
  const large = resultOf('x'.repeat(1000));
  t.is(one.admit(large), large);
  t.like(two.admit(large), { state: 'succeeded', return: undefined });
  t.regex(two.admit(large).reason ?? '', /the return was omitted/);
  t.is(other.admit(large), large);
  leave();
  t.is(two.admit(large), large);
});

test('a large return is written in steps, with the same text', async (t) => {
  const steps: number[] = [];
  const note = (step: unknown): unknown => steps.push(Object(step).values);
  readingSteps.subscribe(note);
  t.teardown(() => readingSteps.unsubscribe(note));
  const lines = new MarkedLines();
  const values = Array.from({ length: 5000 }, () => ({ load: new Float(1), text: 'ä"\n' }));
  const outcome = { results: [resultOf(values)], bytes: Buffer.from('x'), none: undefined };
  const [line, again] = await Promise.all([lines.lineOf(outcome), lines.lineOf(outcome)]);
  t.is(line.toString(), `${writeMarkedJson(outcome)}\n`);
  t.is(again, line);
  t.true(steps.length > 10 && steps.every((it) => it <= 1000));
});

test('an outcome with a large return is stored without returns, and never encoded with them', async (t) => {
  const encoded: number[] = [];
  const row: RowCodec<StoredRun> = {
    version: storedRunRow.version,
    decode: (entry) => storedRunRow.decode(entry),
    encode: (run) => {
      const bytes = storedRunRow.encode(run);
      encoded.push(bytes.length);
      return bytes;
    },
  };
  const keys = new IdempotencyKeys(memoryState(), row, withoutReturns);
  const owner = { caller: 'a', project: '', command: 'demo.echo', key: 'one' };
  const { run } = await ended('1', 'a', null);
  const times = { begunAt: 0, deadline: 0, secrets: '' };
  for (const value of [Array.from({ length: 100_000 }, () => null), 'x'.repeat(1_100_000)]) {
    const outcome = run.outcomeOf([resultOf(value)], { status: 'succeeded', jids: ['1'] });
    await keys.keep(
      owner,
      { id: '1', digest: '', minions: ['web1'], ...times, outcome },
      Date.now(),
    );
    t.deepEqual((await keys.get(owner))?.outcome?.results, [
      { minion: 'web1', state: 'succeeded', retcode: 0 },
    ]);
  }
  t.true(encoded.every((length) => length < 1000));
});

test('an update of a run without readers creates no signal', (t) => {
  const run = new CommandRun({ id: '1', command: 'demo.echo', minions: ['web1'], owner: 'o' });
  const { AbortController: Original } = globalThis;
  let created = 0;
  class Counted extends Original {
    constructor() {
      super();
      created += 1;
    }
  }
  globalThis.AbortController = Counted;
  try {
    for (let at = 0; at < 100; at += 1) {
      run.tell({ type: 'running', jid: '1', minions: [] });
    }
  } finally {
    globalThis.AbortController = Original;
  }
  t.is(created, 0);
});

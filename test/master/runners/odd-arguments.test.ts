/** Runners refuse values of the wrong type or size, before these cause work or internal errors. */

import test from 'ava';
import {
  emptyWireMap,
  packLocal,
  packLocalWithin,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { userWork, WorkBudget } from '#runtime';
import type { FunctionTable } from '#salt/functions/define-function.ts';
import { CacheBanks } from '#salt/runners/cache-banks.ts';
import { jobTest } from '#salt/runners/job-filter.ts';
import { queueRunner } from '#salt/runners/queue-runner.ts';
import { Queues } from '#salt/runners/queues.ts';
import { createMemoryStore } from '#store';
import { startVectorMaster } from '../../helpers/vector-master.ts';

async function call(table: FunctionTable, fun: string, kwarg: WireMap): Promise<WireValue> {
  const bound = table[fun]?.bind([], kwarg);
  if (bound === undefined) throw new Error(`unknown function ${fun}`);
  return bound({
    ...{ jid: '1', user: 'u', by: undefined, timeoutSeconds: undefined, emit: () => {} },
    closing: new AbortController().signal,
    asked: { fun, arg: [], kwarg },
    continueElsewhere: () => {},
    atEnd: () => {},
  });
}

test('the quantity of a queue may be any value, and is refused if it is not a number', async (t) => {
  const runner = queueRunner({
    store: createMemoryStore(),
    bus: { fire: () => {} },
    isFullService: () => false,
    run: async () => {},
  });
  await call(runner, 'queue.insert', { queue: 'q', items: ['a', 'b'] });
  for (const fun of ['queue.pop', 'queue.process_queue']) {
    for (const quantity of [emptyWireMap(), [emptyWireMap()], true, 0, 1.5, 'many']) {
      const error = await t.throwsAsync(call(runner, fun, { queue: 'q', quantity }));
      t.like(error, { code: 'ERR_ARGS' });
    }
  }
  t.deepEqual(await call(runner, 'queue.pop', { queue: 'q', quantity: '1' }), ['a']);
  t.deepEqual(await call(runner, 'queue.pop', { queue: 'q', quantity: 1 }), ['b']);
});

test('metadata with large integers or maps is compared with the metadata of a job', async (t) => {
  const matches = async (wanted: WireValue, stored: WireValue): Promise<boolean> => {
    const filter = { metadata: { ticket: wanted } };
    const isWanted = await jobTest(filter, new WorkBudget(userWork));
    return isWanted({
      ...{ jid: '1', fun: 'test.ping', arg: [], tgt: 'web1', tgtType: 'glob', user: 'root' },
      ...{ minions: ['web1'], missing: [], publishedAt: 0, selfMade: false },
      metadata: { ticket: stored },
    });
  };
  t.true(await matches([2n ** 60n], [2n ** 60n]));
  t.false(await matches([2n ** 60n], [2n ** 61n]));
  t.false(await matches(5, { n: 2n ** 60n }));
  t.true(await matches(new Map([[1, 'a']]), new Map([[1, 'a']])));
  t.false(await matches(new Map([[1, 'a']]), new Map([[1, 'b']])));
  t.false(await matches('1', 1));
  t.false(await matches('None', null));
  t.true(await matches({ a: [1, 'x'] }, { a: [1, 'x'] }));
});

/** A list whose items count how often they are read. */
function countedList(length: number): { readonly list: WireMap[]; readonly reads: () => number } {
  let reads = 0;
  const item = {
    get text(): string {
      reads += 1;
      return 'x'.repeat(1000);
    },
  };
  return { list: Array.from({ length }, () => item), reads: () => reads };
}

test('a value that is too large for a queue or bank is not packed to its end', async (t) => {
  const item = countedList(10_000);
  const queues = new Queues(createMemoryStore());
  const error = await t.throwsAsync(queues.insert('q', [item.list]));
  t.like(error, { code: 'ERR_ARGS' });
  await queues.delete('q', [item.list]);
  t.true(item.reads() < 300, `queue: ${item.reads()}`);
  const value = countedList(10_000);
  const banks = new CacheBanks(createMemoryStore());
  const refusal = await t.throwsAsync(banks.put('b', 'k', value.list));
  t.like(refusal, { code: 'ERR_ARGS' });
  t.true(value.reads() < 3000, `bank: ${value.reads()}`);
});

test('a value is packed if its packed form has the maximum size', (t) => {
  for (const value of ['x'.repeat(2000), ['a', { b: 'é'.repeat(300) }], 1, '']) {
    const packed = packLocal(value);
    t.deepEqual(packLocalWithin(value, packed.length), packed);
    t.is(packLocalWithin(value, packed.length - 1), undefined);
  }
});

test('sdb takes addresses and characters of a limited length', async (t) => {
  const { master } = await startVectorMaster(t, { config: { sdb: { env: { driver: 'env' } } } });
  const run = async (fun: string, kwarg: WireMap): Promise<WireValue> =>
    (await master.runners.run({ fun, kwarg })).return;
  const uri = 'sdb://env/saltbridge-none';
  const hash = (chars: string): Promise<WireValue> => run('sdb.get_or_set_hash', { uri, chars });
  t.regex(String(await hash('a'.repeat(257))), /chars. must have 1 to 256 characters/);
  t.is(await hash('a'.repeat(256)), 'a'.repeat(8));
  for (const fun of ['sdb.get', 'sdb.delete', 'sdb.get_or_set_hash']) {
    const answer = await run(fun, { uri: `sdb://env/${':'.repeat(4097)}` });
    t.regex(String(answer), /an sdb:\/\/ address must have at most 4096 characters/);
  }
});

import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import fc from 'fast-check';
import { addressOwner, FairSlots, FairTable, type LimitValues } from '#runtime';
import { testLimit } from '../helpers/limits.ts';

const ample = { perOwner: 1_000_000, total: 10_000_000 };

function slots(values: LimitValues): FairSlots {
  return new FairSlots(testLimit(values));
}

test('an owner alone uses all slots', (t) => {
  const shared = slots({ total: 3, waiting: ample });
  const own = [1, 2, 3, 4].map(() => shared.enter('a'));
  t.deepEqual(
    own.map(({ isWaiting }) => isWaiting),
    [false, false, false, true],
  );
});

test('a waiting owner without a slot is served before the further requests of others', (t) => {
  const shared = slots({ total: 2, waiting: ample });
  const order: string[] = [];
  const enter = (owner: string) => shared.enter(owner, () => order.push(owner));
  const [first, second] = ['a', 'a', 'a', 'a', 'a', 'b', 'c'].map(enter);
  first?.leave();
  second?.leave();
  t.deepEqual(order, ['a', 'a', 'b', 'c']);
});

test('waiting owners take turns', async (t) => {
  const shared = slots({ total: 1, waiting: ample });
  const order: string[] = [];
  const work = ['a', 'a', 'a', 'b', 'b', 'c'].map((owner) =>
    shared.run(owner, async () => {
      order.push(owner);
      await turn();
    }),
  );
  await Promise.all(work);
  t.is(order.join(''), 'abcaba');
  t.deepEqual([shared.held, shared.waiting, shared.owners], [0, 0, 0]);
});

test('a reserved slot is for an owner that has none', (t) => {
  const shared = slots({ total: 3, reserved: 1, waiting: ample });
  const own = [1, 2, 3].map(() => shared.enter('a'));
  t.true(own[2]?.isWaiting);
  const other = shared.enter('b');
  t.false(other.isWaiting);
  other.leave();
  t.true(own[2]?.isWaiting);
  own[0]?.leave();
  t.false(own[2]?.isWaiting);
});

test('half of the waiting places are for owners that have none', (t) => {
  const shared = slots({ total: 1, waiting: { perOwner: 10, total: 4 } });
  shared.enter('a');
  shared.enter('a');
  shared.enter('a');
  t.throws(() => shared.enter('a'), { code: 'ERR_LIMIT', message: /test\.limit.*4/ });
  shared.enter('b');
  shared.enter('c');
  t.throws(() => shared.enter('d'), { code: 'ERR_LIMIT' });
  t.is(shared.owners, 3);
});

test('the waiting requests of one owner are bounded', (t) => {
  const shared = slots({ total: 1, waiting: { perOwner: 1, total: 100 } });
  shared.enter('a');
  shared.enter('a');
  t.throws(() => shared.enter('a'), { code: 'ERR_LIMIT' });
  t.true(shared.enter('b').isWaiting);
});

test('an error in work releases its slot', async (t) => {
  const shared = slots({ total: 1 });
  await t.throwsAsync(shared.run('a', () => Promise.reject(new Error('failed'))));
  t.is(shared.held, 0);
});

test('100,000 waiting requests are admitted and cancelled in linear time', (t) => {
  const shared = slots({ total: 1, waiting: ample });
  const held = shared.enter('owner 0');
  const startedAt = performance.now();
  const all = Array.from({ length: 100_000 }, (_, n) => shared.enter(`owner ${n % 1000}`));
  for (const slot of all) slot.leave();
  held.leave();
  t.is(shared.owners, 0);
  t.true(performance.now() - startedAt < 5000);
});

test('the number of slots is never exceeded, no slot is lost, and no entitled owner waits', (t) => {
  const step = fc.record({ owner: fc.constantFrom('a', 'b', 'c', 'd'), leaves: fc.nat(9) });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 4 }),
      (steps, total, perOwner) => {
        const shared = slots({ total, perOwner, waiting: ample });
        const open: { owner: string; slot: ReturnType<FairSlots['enter']> }[] = [];
        for (const { owner, leaves } of steps) {
          if (leaves % 2 === 0) open.push({ owner, slot: shared.enter(owner) });
          else open.splice(leaves % (open.length || 1), 1)[0]?.slot.leave();
          const entered = open.filter(({ slot }) => !slot.isWaiting);
          if (entered.length !== shared.held || entered.length > total) return false;
          for (const { owner: name, slot } of open) {
            const held = entered.filter((it) => it.owner === name).length;
            if (held !== shared.heldBy(name) || held > perOwner) return false;
            if (slot.isWaiting && held < perOwner && entered.length < total) return false;
          }
        }
        for (const { slot } of open) slot.leave();
        return shared.held === 0 && shared.waiting === 0 && shared.owners === 0;
      },
    ),
  );
  t.pass();
});

test('a full table evicts the oldest row of the owner that holds most', (t) => {
  const evicted: string[] = [];
  const table = new FairTable<number>(testLimit({ total: 4 }), {
    onEvict: (key) => evicted.push(key),
  });
  for (const [n, key] of ['a1', 'a2', 'b1', 'a3', 'c1', 'c2'].entries()) {
    table.set(key.slice(0, 1), key, n);
  }
  t.deepEqual(evicted, ['a1', 'a2']);
  t.deepEqual([...table.keys()].sort(), ['a3', 'b1', 'c1', 'c2']);
});

test('an owner that holds most evicts its own rows, and a read row is not its oldest', (t) => {
  const table = new FairTable<number>(testLimit({ total: 3 }));
  for (const key of ['b1', 'a1', 'a2']) table.set(key.slice(0, 1), key, 0);
  table.get('a1');
  table.set('a', 'a3', 0);
  t.deepEqual([...table.keys()].sort(), ['a1', 'a3', 'b1']);
});

test('a table of single rows refuses another owner, but not a row that it replaces', (t) => {
  const table = new FairTable<number>(testLimit({ total: 2 }));
  table.set('a', 'a1', 1);
  table.set('b', 'b1', 1);
  t.throws(() => table.set('c', 'c1', 1), { code: 'ERR_LIMIT' });
  table.set('a', 'a2', 1);
  table.set('b', 'b1', 2);
  t.is(table.peek('b1'), 2);
  t.deepEqual([...table.keys()].sort(), ['a2', 'b1']);
});

test('a table bounds the rows of one owner', (t) => {
  const table = new FairTable<number>(testLimit({ total: 100, perOwner: 2 }));
  for (const key of ['a1', 'a2', 'a3', 'b1']) table.set(key.slice(0, 1), key, 0);
  t.deepEqual([...table.keys()].sort(), ['a2', 'a3', 'b1']);
});

test('a table agrees with its counts after any steps', (t) => {
  const step = fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(9), fc.boolean());
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const table = new FairTable<string>(testLimit({ total: 5 }));
      for (const [owner, n, isSet] of steps) {
        const before = table.countOf(owner);
        if (isSet) table.set(owner, `${n}`, owner);
        else table.delete(`${n}`);
        const values = [...table.values()];
        for (const name of ['a', 'b', 'c']) {
          const count = values.filter((it) => it === name).length;
          if (count !== table.countOf(name)) return false;
        }
        if (table.size > 5 || (isSet && before > 0 && table.countOf(owner) === 0)) return false;
      }
      return true;
    }),
  );
  t.pass();
});

test('the owner of an address is an IPv4 address or a network of 64 bits', (t) => {
  const owners = {
    '10.0.0.1': '10.0.0.1',
    local: 'local',
    '::ffff:10.0.0.1': '10.0.0.1',
    '::FFFF:a00:1': '10.0.0.1',
    '0:0:0:0:0:ffff:10.0.0.1': '10.0.0.1',
    '2001:db8:0:1::1': '2001:db8:0:1::/64',
    '2001:0DB8::1:aaaa:bbbb:cccc:1': '2001:db8:0:1::/64',
    '2001:db8:0:1:aaaa:bbbb:cccc:2': '2001:db8:0:1::/64',
    '2001:db8:0:2::1': '2001:db8:0:2::/64',
    'fe80::1%eth0': 'fe80:0:0:0::/64',
    '::1': '0:0:0:0::/64',
    'a:b': 'a:b',
    '1::2::3': '1::2::3',
  };
  for (const [address, owner] of Object.entries(owners)) t.is(addressOwner(address), owner);
});

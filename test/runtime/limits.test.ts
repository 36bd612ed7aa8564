import { getEventListeners } from 'node:events';
import { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setImmediate as turn } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { ConnectionGuard, type GuardedConnection } from '#minion-protocol';
import {
  ConcurrencyLimiter,
  type LimiterClient,
} from '#minion-protocol/transport/concurrency-limiter.ts';
import { IdleRanking, type RankedOwner } from '#minion-protocol/transport/idle-ranking.ts';
import {
  type ConnectionLimits,
  DEFAULT_CONNECTION_LIMITS,
} from '#minion-protocol/transport/stream-listener.ts';
import { WriteScheduler } from '#minion-protocol/transport/write-queue.ts';
import {
  inTime,
  KeyedFairSlots,
  linkSignals,
  MultiMap,
  Semaphore,
  SendPool,
  Throttle,
  TokenBuckets,
} from '#runtime';
import { InFlight } from '#salt/peers/in-flight.ts';
import { within } from '../helpers/deadline.ts';
import { testLimit } from '../helpers/limits.ts';

test('connections of one IPv6 network of 64 bits share their limits, others do not', (t) => {
  const { connect } = guard({ maxNewConnectionsPerAddress: 2 });
  const first = connect('2001:db8:0:1::1');
  connect('2001:db8:0:1:aaaa::2');
  const other = connect('2001:db8:0:2::1');
  t.true(first.isOpen());
  connect('2001:db8:0:1:bbbb:cccc::3');
  t.false(first.isOpen());
  t.true(other.isOpen());
  t.true(connect('::1').isOpen());
});

test('the limits for unknown addresses do not apply to a known address', (t) => {
  const { connect } = guard({ maxNewConnectionsPerAddress: 2, maxHeldBytesPerAddress: 100 });
  const known = connect('10.0.0.1');
  known.connection?.identify('minion');
  const others = [1, 2, 3, 4].map(() => connect('10.0.0.1'));
  for (const { connection } of others) connection?.setHeldBytes(1000);
  t.true(others.every(({ isOpen }) => isOpen()));
});

test('a known address is never evicted to free space for unknown ones', (t) => {
  const { connect } = guard({ maxConnections: 2 });
  const known = connect('10.0.0.1');
  known.connection?.identify('minion');
  const stranger = connect('10.0.0.2');
  const next = connect('10.0.0.1');
  t.deepEqual(
    [known, stranger, next].map(({ isOpen }) => isOpen()),
    [true, false, true],
  );
  t.false(connect('10.0.0.3').isOpen());
  t.true(next.isOpen());
});

test('a known address with all connections makes room for other addresses', (t) => {
  const { connect } = guard({ maxConnections: 20 });
  const small = connect('10.0.0.1');
  small.connection?.identify('small');
  const greedy = Array.from({ length: 19 }, () => connect('10.0.0.2'));
  greedy[0]?.connection?.identify('greedy');
  const others = ['10.0.0.3', '10.0.0.4', '10.0.0.5'].map((address) => {
    const opened = connect(address);
    opened.connection?.identify(address);
    return opened;
  });
  t.true([small, ...others].every(({ isOpen }) => isOpen()));
  t.deepEqual(
    greedy.map(({ isOpen }) => isOpen()),
    greedy.map((_, index) => index === 0 || index >= 4),
  );
  // The address now has as many connections as each known address keeps.
  t.false(connect('10.0.0.6').isOpen());
  // Another known address may have its share of them.
  t.true(connect('10.0.0.3').isOpen());
  t.false(greedy[4]?.isOpen());
  t.true(greedy[5]?.isOpen());
});

test('the unknown address with the most connections makes room for others', (t) => {
  const { connect } = guard({ maxConnections: 5 });
  const silent = connect('10.0.0.1');
  const greedy = [1, 2, 3, 4].map(() => connect('10.0.0.2'));
  const others = ['10.0.0.3', '10.0.0.4'].map((address) => connect(address));
  t.true([silent, ...others].every(({ isOpen }) => isOpen()));
  t.deepEqual(
    greedy.map(({ isOpen }) => isOpen()),
    [false, false, true, true],
  );
});

test('the user with the most connections of an address makes room, and other minions there do not', (t) => {
  const { connect } = guard({ maxConnections: 24 });
  const honest = connect('10.0.0.1');
  honest.connection?.identify('honest');
  const subscriber = connect('10.0.0.1', false);
  const open = (awaitsRequest: boolean, id?: string) =>
    Array.from({ length: 10 }, () => {
      const opened = connect('10.0.0.1', awaitsRequest);
      if (id !== undefined) opened.connection?.identify(id);
      return opened;
    });
  const states = (connections: readonly Opened[]) => connections.map(({ isOpen }) => isOpen());
  const unproven = open(true);
  const proven = open(true, 'greedy');
  // The listener is full now.
  const others = [connect('10.0.0.1'), connect('10.0.0.1')];
  const flood = open(true, 'greedy');
  t.true([honest, subscriber, ...others].every(({ isOpen }) => isOpen()));
  t.true(states(unproven).includes(false));
  t.true(states(proven).includes(false));
  const subscriptions = open(false);
  t.true([honest, subscriber].every(({ isOpen }) => isOpen()));
  open(false);
  t.true([honest, subscriber].every(({ isOpen }) => isOpen()));
  // The newest subscriptions make room, because only their age distinguishes subscribers.
  t.true(subscriptions[0]?.isOpen());
  t.true(states([...unproven, ...proven, ...flood]).includes(true));
});

test('a connection with a request in progress does not make room', (t) => {
  const { connect } = guard({ maxConnections: 3 });
  const busy = [1, 2].map(() => connect('10.0.0.1'));
  for (const { connection } of busy) if (connection !== undefined) connection.isBusy = true;
  const idle = connect('10.0.0.2');
  t.true(connect('10.0.0.3').isOpen());
  t.deepEqual(
    [...busy, idle].map(({ isOpen }) => isOpen()),
    [true, true, false],
  );
});

test('a known address that holds most memory makes room for the messages of others', (t) => {
  const { connect } = guard({ maxHeldBytes: 1000 });
  const greedy = [1, 2, 3].map(() => connect('10.0.0.1'));
  greedy[0]?.connection?.identify('greedy');
  for (const [index, { connection }] of greedy.entries()) connection?.setHeldBytes(250 + index);
  const small = ['10.0.0.2', '10.0.0.3'].map((address) => {
    const opened = connect(address);
    opened.connection?.identify(address);
    opened.connection?.setHeldBytes(200);
    return opened;
  });
  t.true(small.every(({ isOpen }) => isOpen()));
  t.deepEqual(
    greedy.map(({ isOpen }) => isOpen()),
    [true, true, false],
  );
});

test('the ranking returns an address with the most connections after any changes', (t) => {
  const names = ['a', 'b', 'c'];
  const change = fc.record({ name: fc.constantFrom(...names), idle: fc.nat(5) });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
      const ranking = new IdleRanking<Address>();
      const addresses = new Map(names.map((name) => [name, createAddress()]));
      for (const { name, idle } of changes) {
        const address = addresses.get(name);
        if (address !== undefined) ranking.set(address, idle);
        const most = Math.max(...Array.from(addresses.values(), (each) => each.idle));
        t.is(ranking.first?.idle ?? 0, most);
      }
    }),
  );
});

interface Address extends RankedOwner<Address> {}

function createAddress(): Address {
  return { idle: 0, previous: undefined, next: undefined };
}

test('the address that was used longest ago is evicted first', (t) => {
  const { connect } = guard({ maxKnownAddresses: 2, maxHeldBytesPerAddress: 100 });
  const connections = ['10.0.0.1', '10.0.0.2', '10.0.0.1', '10.0.0.3'].map((address) => {
    const opened = connect(address);
    opened.connection?.identify('minion');
    return opened;
  });
  for (const { connection } of connections) connection?.setHeldBytes(101);
  t.deepEqual(
    connections.map(({ isOpen }) => isOpen()),
    [true, false, true, true],
  );
});

test('disconnecting a minion forgets its address and leaves other minions connected', (t) => {
  const { table, connect } = guard({ maxHeldBytesPerAddress: 100 });
  const one = connect('10.0.0.1');
  one.connection?.identify('one');
  const two = connect('10.0.0.1');
  two.connection?.identify('two');
  table.disconnect('one');
  t.deepEqual(
    [one, two].map(({ isOpen }) => isOpen()),
    [false, true],
  );
  two.connection?.setHeldBytes(101);
  t.false(two.isOpen());
});

test('an ended connection releases its memory', (t) => {
  const { connect } = guard({ maxHeldBytesPerAddress: 100, maxHeldBytes: 100 });
  for (let round = 0; round < 50; round += 1) {
    const opened = connect('10.0.0.1');
    opened.connection?.setHeldBytes(90);
    t.true(opened.isOpen());
    opened.connection?.end();
  }
});

test('a connection is ended once, and only once counted', (t) => {
  const { table, connect } = guard({});
  const opened = connect('10.0.0.1');
  opened.connection?.refuse('reason');
  opened.connection?.refuse('reason');
  opened.connection?.end();
  t.is(opened.ends(), 1);
  t.deepEqual(table.refusals(), { reason: 1 });
});

interface Opened {
  readonly connection: GuardedConnection | undefined;
  isOpen(): boolean;
  ends(): number;
}

function guard(limits: Partial<ConnectionLimits>) {
  const table = new ConnectionGuard({ ...DEFAULT_CONNECTION_LIMITS, ...limits }, () => 0);
  const connect = (address: string, awaitsRequest = true): Opened => {
    let ends = 0;
    const onEnd = () => {
      ends += 1;
    };
    const rules = { awaitsRequest, keepsStalled: false };
    const connection = table.admit(address, rules, { onEnd, finish: () => {} });
    return { connection, isOpen: () => ends === 0, ends: () => ends };
  };
  return { table, connect };
}

interface Value {
  readonly name: string;
}

const values: readonly Value[] = ['a', 'b', 'c'].map((name) => ({ name }));
const step = fc.record({
  isAdded: fc.boolean(),
  key: fc.constantFrom('x', 'y'),
  value: fc.constantFrom(...values),
});

test('it contains the same as a map of sets, and returns the first and the last entry', (t) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const map = new MultiMap<string, Value>();
      const plain = new Map<string, Set<Value>>();
      for (const { isAdded, key, value } of steps) {
        const same = plain.get(key) ?? new Set();
        plain.set(key, same);
        const before = same.size;
        if (isAdded) {
          same.add(value);
          t.is(map.add(key, value), before === 0);
        } else {
          same.delete(value);
          t.is(map.delete(key, value), before === 1 && same.size === 0);
        }
        t.deepEqual([...map.get(key)], [...same]);
        t.is(map.has(key), same.size > 0);
      }
      const all = [...plain.values()].flatMap((same) => [...same]);
      t.deepEqual(namesOf(map.all()), namesOf(all));
    }),
  );
});

function namesOf(items: Iterable<Value>): string[] {
  return Array.from(items, ({ name }) => name).sort();
}

// Data that waits for slow readers. No sockets are used, because their buffers vary.

/** A reader that accepts nothing until the test allows it, and then everything. */
class Reader extends Writable {
  #text = '';
  #waiting: (() => void) | undefined;
  #isReading = false;

  constructor(isReading = false) {
    super({ highWaterMark: 1 });
    this.#isReading = isReading;
  }

  get text(): string {
    return this.#text;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    const take = (): void => {
      this.#text += chunk.toString();
      done();
    };
    if (this.#isReading) take();
    else this.#waiting = take;
  }

  read(): void {
    this.#isReading = true;
    this.#waiting?.();
  }
}

function bytes(letter: string, length: number): Buffer {
  return Buffer.alloc(length, letter);
}

test('the queue of a reader is limited to the largest message and a margin, and a slower reader is ended', async (t) => {
  const pool = new SendPool(testLimit({}), {
    messageBytes: 5000,
    extraBytes: 1000,
    totalBytes: 1e6,
  });
  const reader = new Reader();
  const queue = pool.open(reader, () => [Buffer.from('missed')]);
  t.true(queue.push(bytes('a', 5000)));
  t.true(queue.push(bytes('b', 1000)));
  t.is(queue.waitingBytes, 6000);
  t.false(queue.push(bytes('c', 1)));
  t.false(queue.push(bytes('d', 1)));
  reader.read();
  await finished(reader);
  // A message that was begun is written completely, because in a framed protocol nothing else could
  // follow it.
  t.is(reader.text, `${'a'.repeat(5000)}missed`);
  t.deepEqual([queue.waitingBytes, pool.heldBytes], [0, 0]);
});

test('a message above the limit is accepted while little is queued', async (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 10, extraBytes: 100, totalBytes: 1e6 });
  const reader = new Reader();
  const queue = pool.open(reader);
  t.true(queue.push(bytes('a', 100)));
  t.true(queue.push(bytes('b', 300_000)));
  t.false(queue.push(bytes('c', 1)));
  reader.read();
  await finished(reader);
  t.is(reader.text, 'a'.repeat(100));
});

test('messages of any size arrive complete and in order', async (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 1e6, totalBytes: 1e7 });
  const reader = new Reader(true);
  const queue = pool.open(reader);
  const sizes = [1, 200_000, 65_536, 65_537, 3, ...Array.from({ length: 3000 }, () => 2)];
  for (const size of sizes) t.true(queue.push(bytes(size % 2 === 0 ? 'e' : 'o', size)));
  const isFlushed = queue.flushed();
  await isFlushed;
  t.is(queue.waitingBytes, 0);
  queue.end();
  await finished(reader);
  t.is(reader.text, sizes.map((size) => (size % 2 === 0 ? 'e' : 'o').repeat(size)).join(''));
  t.is(pool.heldBytes, 0);
});

test('a message queued for many readers counts once', (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 1000, totalBytes: 2000 });
  const queues = Array.from({ length: 100 }, () => pool.open(new Reader()));
  const shared = bytes('x', 1000);
  for (const queue of queues) t.true(queue.push(shared));
  t.is(pool.heldBytes, 1000);
  for (const queue of queues) queue.destroy();
  t.is(pool.heldBytes, 0);
});

test('beyond the limit of all readers the slowest is ended, and the others continue', async (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 4000, totalBytes: 5000 });
  const [slow, slower, quick] = [new Reader(), new Reader(), new Reader(true)];
  const slowQueue = pool.open(slow, () => [Buffer.from('missed')]);
  const slowerQueue = pool.open(slower, () => [Buffer.from('missed')]);
  const quickQueue = pool.open(quick);
  t.true(slowerQueue.push(bytes('a', 10)));
  t.true(slowerQueue.push(bytes('b', 2990)));
  t.true(slowQueue.push(bytes('c', 1000)));
  t.true(quickQueue.push(bytes('d', 1500)));
  t.true(pool.heldBytes <= 5000);
  t.false(slowerQueue.push(bytes('e', 1)));
  t.true(slowQueue.push(bytes('f', 1)));
  await quickQueue.flushed();
  t.is(quick.text, 'd'.repeat(1500));
  slower.read();
  await finished(slower);
  t.is(slower.text, 'aaaaaaaaaamissed');
  slow.read();
  await slowQueue.flushed();
  t.is(slow.text, `${'c'.repeat(1000)}f`);
});

test('a connection whose incomplete message is too large is ended at once', (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 4000, totalBytes: 5000 });
  const [first, second] = [new Reader(), new Reader()];
  const firstQueue = pool.open(first);
  t.true(firstQueue.push(bytes('a', 4000)));
  t.true(pool.open(second).push(bytes('b', 2000)));
  t.true(first.destroyed);
  t.false(second.destroyed);
  t.is(pool.heldBytes, 2000);
});

test('a disconnected reader holds no memory, and no sender waits for it', async (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 1000, totalBytes: 5000 });
  const reader = new Reader();
  const queue = pool.open(reader);
  t.true(queue.push(bytes('a', 1000)));
  const flushed = queue.flushed();
  reader.destroy();
  await flushed;
  t.false(queue.push(bytes('b', 1)));
  t.is(pool.heldBytes, 0);
  t.false(pool.open(reader).push(bytes('c', 1)));
});

test('a reader that receives nothing while a sender waits is disconnected', async (t) => {
  const pool = new SendPool(testLimit({}), { messageBytes: 1000, stallMs: 1 });
  const reader = new Reader();
  const queue = pool.open(reader);
  t.true(queue.push(bytes('a', 1000)));
  await within('the end of the stream', queue.flushed());
  t.true(reader.destroyed);
  t.false(queue.push(bytes('b', 1)));
  t.is(pool.heldBytes, 0);
});

function gate(): { readonly passed: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

test('an owner has a limited number of operations in progress, and does not delay others', async (t) => {
  const inFlight = new InFlight<number>(2);
  const { passed, open } = gate();
  const held = [1, 2].map((value) => inFlight.run('a', undefined, () => passed.then(() => value)));
  t.is(await inFlight.run('a', 'third', async () => 3), undefined);
  t.is(await inFlight.run('b', undefined, async () => 3), 3);
  open();
  t.deepEqual(await Promise.all(held), [1, 2]);
  t.is(await inFlight.run('a', undefined, async () => 3), 3);
});

test('a second request for work in progress shares its result', async (t) => {
  const inFlight = new InFlight<number>(1);
  const { passed, open } = gate();
  let count = 0;
  const work = async (): Promise<number> => {
    count += 1;
    await passed;
    return count;
  };
  const both = [inFlight.run('a', 'x', work), inFlight.run('a', 'x', work)];
  open();
  t.deepEqual(await Promise.all(both), [1, 1]);
  t.is(await inFlight.run('a', 'x', work), 2);
});

test('work that fails frees its place', async (t) => {
  const inFlight = new InFlight<number>(1);
  const failure = new Error('no');
  await t.throwsAsync(
    inFlight.run('a', 'x', () => Promise.reject(failure)),
    { is: failure },
  );
  t.is(await inFlight.run('a', 'x', async () => 1), 1);
});

/**
 * Returns a throttle that lets one pass at once, and then one every 20 ms. Its clock does not
 * advance.
 */
function throttle(t: ExecutionContext, maxWaiting: number): Throttle {
  // The delay must not keep the process of the test alive.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  return new Throttle(
    testLimit({ perOwner: maxWaiting }),
    new TokenBuckets(testLimit({ rate: { perSecond: 50, burst: 1 } }), () => 0),
  );
}

test('requests over the rate wait, up to a number, and the rest are refused at once', async (t) => {
  const limited = throttle(t, 3);
  const passes = Array.from({ length: 10 }, () => limited.pass('flooder'));
  t.true(limited.pass('another'));
  const outcomes = await Promise.all(passes);
  t.deepEqual(outcomes, [true, true, true, true, ...Array(6).fill(false)]);
});

test('a finished wait frees its place, and a refused request costs nothing', async (t) => {
  const limited = throttle(t, 1);
  const delays: number[] = [];
  const pass = (): boolean | Promise<boolean> => limited.pass('owner', 1, () => delays.push(1));
  t.true(await pass());
  const [waiting, refused] = [pass(), pass()];
  t.false(refused);
  t.true(await waiting);
  t.is(delays.length, 1);
  t.true(await pass());
  t.is(delays.length, 2);
});

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

test('a linked signal is aborted with the first of its sources, for its reason', (t) => {
  const [one, other] = [new AbortController(), new AbortController()];
  const { signal } = linkSignals(one.signal, undefined, other.signal);
  t.false(signal.aborted);
  other.abort('gone');
  one.abort('late');
  t.is(signal.reason, 'gone');
});

test('a signal linked to an aborted signal is aborted', (t) => {
  const { signal } = linkSignals(new AbortController().signal, AbortSignal.abort('before'));
  t.is(signal.reason, 'before');
});

test('a linked signal removes its listeners from all sources when one is aborted', (t) => {
  const [one, lasting] = [new AbortController(), new AbortController()];
  linkSignals(one.signal, lasting.signal);
  t.is(listenersOf(lasting.signal), 1);
  one.abort();
  t.is(listenersOf(lasting.signal), 0);
});

test('a released linked signal is not aborted by its sources', (t) => {
  const lasting = new AbortController();
  const { signal, unlink } = linkSignals(lasting.signal);
  unlink();
  t.is(listenersOf(lasting.signal), 0);
  lasting.abort();
  t.false(signal.aborted);
});

test('a limited number run at a time, and the others start in order of arrival', async (t) => {
  const semaphore = new Semaphore(testLimit({ total: 2 }));
  const started: number[] = [];
  const finish: (() => void)[] = [];
  const works = [0, 1, 2, 3].map((index) =>
    semaphore.run(async () => {
      started.push(index);
      await new Promise<void>((resolve) => finish.push(resolve));
      if (index === 1) throw new Error('failed');
    }),
  );
  const settled = Promise.allSettled(works);
  t.deepEqual(started, [0, 1]);
  finish[1]?.();
  await t.throwsAsync(works[1] ?? Promise.resolve(), { message: 'failed' });
  t.deepEqual(started, [0, 1, 2]);
  finish[0]?.();
  await works[0];
  t.deepEqual(started, [0, 1, 2, 3]);
  for (const end of finish) end();
  t.is((await settled).length, 4);
});

test('a limited number run at a time for each key, and other keys do not wait', async (t) => {
  const slots = new KeyedFairSlots(testLimit({ perOwner: 1 }));
  const started: string[] = [];
  const finish: (() => void)[] = [];
  const works = ['a', 'a', 'b'].map((key, index) =>
    slots.run(key, 'owner', async () => {
      started.push(`${key}${index}`);
      await new Promise<void>((resolve) => finish.push(resolve));
    }),
  );
  t.deepEqual(started, ['a0', 'b2']);
  finish[1]?.();
  await works[2];
  t.deepEqual(started, ['a0', 'b2']);
  finish[0]?.();
  await works[0];
  t.deepEqual(started, ['a0', 'b2', 'a1']);
  finish[2]?.();
  await works[1];
});

test('if many turns end at once, each waiter gets one turn, and turns do not nest', (t) => {
  const turns = new ConcurrencyLimiter(testLimit({ total: 1 }));
  const served: number[] = [];
  let depth = 0;
  let deepest = 0;
  const takers = Array.from(
    { length: 30_000 },
    (_, index): LimiterClient => ({
      startRequests: () => {
        if (!turns.tryAcquire(takers[index] ?? { startRequests: () => {} })) return;
        depth += 1;
        deepest = Math.max(deepest, depth);
        served.push(index);
        turns.release();
        depth -= 1;
      },
    }),
  );
  t.true(turns.tryAcquire({ startRequests: () => {} }));
  for (const taker of takers) taker.startRequests();
  t.deepEqual(served, []);
  turns.release();
  t.is(served.length, takers.length);
  t.deepEqual(served.slice(0, 3), [0, 1, 2]);
  t.is(deepest, 1);
});

test('a waiter that leaves gets no turn', (t) => {
  const turns = new ConcurrencyLimiter(testLimit({ total: 1 }));
  let started = 0;
  const taker: LimiterClient = { startRequests: () => (started += 1) };
  turns.tryAcquire({ startRequests: () => {} });
  turns.tryAcquire(taker);
  turns.cancel(taker);
  turns.release();
  t.is(started, 0);
});

test('writes to a large fleet happen in rounds, and other work runs in between', async (t) => {
  const rounds = new WriteScheduler();
  const order: (number | 'other')[] = [];
  const fleet = Array.from({ length: 1_000 }, (_, index) => index);
  for (const index of fleet) rounds.add({ write: () => order.push(index) });
  setImmediate(() => order.push('other'));
  while (order.length <= fleet.length) await turn();
  t.true(order.indexOf('other') < fleet.length);
  t.deepEqual(
    order.filter((it) => it !== 'other'),
    fleet,
  );
});

test('writes queued during a round happen as well', async (t) => {
  const rounds = new WriteScheduler();
  const order: string[] = [];
  const last = { write: () => order.push('last') };
  rounds.add({
    write: () => {
      order.push('first');
      rounds.add(last);
    },
  });
  await turn();
  rounds.add(last);
  await turn();
  t.deepEqual(order, ['first', 'last', 'last']);
});

test('a finished wait removes its listener from the signal', async (t) => {
  const { signal } = new AbortController();
  t.is(await inTime(Promise.resolve(1), signal), 1);
  await t.throwsAsync(inTime(Promise.reject(new Error('no')), signal), { message: 'no' });
  t.is(getEventListeners(signal, 'abort').length, 0);
  t.is(await inTime(new Promise<number>(() => {}), AbortSignal.abort()), undefined);
  const later = new AbortController();
  const waiting = inTime(new Promise<number>(() => {}), later.signal);
  later.abort();
  t.is(await waiting, undefined);
  t.is(getEventListeners(later.signal, 'abort').length, 0);
});

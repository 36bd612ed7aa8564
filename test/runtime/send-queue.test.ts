/** What waits for slow readers, without any socket: how much a kernel buffers does not matter. */
import { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import test from 'ava';
import { SendPool } from '../../runtime/index.ts';

/** A reader that takes nothing before it is told to, and then everything. */
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

test('one largest message and so much more may wait for a reader, who is ended beyond that', async (t) => {
  const pool = new SendPool({ messageBytes: 5000, extraBytes: 1000, totalBytes: 1e6 });
  const reader = new Reader();
  const queue = pool.open(reader, () => [Buffer.from('missed')]);
  t.true(queue.push(bytes('a', 5000)));
  t.true(queue.push(bytes('b', 1000)));
  t.is(queue.waitingBytes, 6000);
  t.false(queue.push(bytes('c', 1)));
  t.false(queue.push(bytes('d', 1)));
  reader.read();
  await finished(reader);
  // What had begun comes whole: in a protocol with frames nothing else could follow.
  t.is(reader.text, `${'a'.repeat(5000)}missed`);
  t.deepEqual([queue.waitingBytes, pool.heldBytes], [0, 0]);
});

test('a message that is larger than the largest is taken while little waits', async (t) => {
  const pool = new SendPool({ messageBytes: 10, extraBytes: 100, totalBytes: 1e6 });
  const reader = new Reader();
  const queue = pool.open(reader);
  t.true(queue.push(bytes('a', 100)));
  t.true(queue.push(bytes('b', 300_000)));
  t.false(queue.push(bytes('c', 1)));
  reader.read();
  await finished(reader);
  t.is(reader.text, 'a'.repeat(100));
});

test('messages come whole and in their order, however large they are', async (t) => {
  const pool = new SendPool({ messageBytes: 1e6, totalBytes: 1e7 });
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

test('what many readers wait for counts once', (t) => {
  const pool = new SendPool({ messageBytes: 1000, totalBytes: 2000 });
  const queues = Array.from({ length: 100 }, () => pool.open(new Reader()));
  const shared = bytes('x', 1000);
  for (const queue of queues) t.true(queue.push(shared));
  t.is(pool.heldBytes, 1000);
  for (const queue of queues) queue.destroy();
  t.is(pool.heldBytes, 0);
});

test('beyond what all readers may hold the slowest is ended, and the others go on', async (t) => {
  const pool = new SendPool({ messageBytes: 4000, totalBytes: 5000 });
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

test('who holds too much by one message that has begun is ended at once', (t) => {
  const pool = new SendPool({ messageBytes: 4000, totalBytes: 5000 });
  const [first, second] = [new Reader(), new Reader()];
  const firstQueue = pool.open(first);
  t.true(firstQueue.push(bytes('a', 4000)));
  t.true(pool.open(second).push(bytes('b', 2000)));
  t.true(first.destroyed);
  t.false(second.destroyed);
  t.is(pool.heldBytes, 2000);
});

test('a reader that has gone holds nothing, and nobody waits for it', async (t) => {
  const pool = new SendPool({ messageBytes: 1000, totalBytes: 5000 });
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

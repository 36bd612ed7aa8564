import test from 'ava';
import fc from 'fast-check';
import { type Reply, send, type VerifiedRequest } from '../../../master/auth/request.ts';
import {
  DigestPool,
  DigestQueue,
  marksPerBlock,
  ReplayCache,
} from '../../../master/requests/replay-cache.ts';

const ttlSeconds = 300;
const startedAt = 1_700_000_000;
const usual = send(null);

function request(nonce: string, more: Partial<VerifiedRequest> = {}): VerifiedRequest {
  return {
    minionId: 'm1',
    isProven: true,
    address: '127.0.0.1',
    version: 3,
    nonce,
    ts: startedAt,
    bytes: 100,
    mac: Buffer.alloc(32),
    packed: Buffer.alloc(0),
    load: { cmd: '_minion_event', tag: 'a' },
    encAlgo: 'OAEP-SHA1',
    sigAlgo: 'PKCS1v15-SHA1',
    ...more,
  };
}

/** A guard with a clock in seconds, and a handler that counts its runs. */
function guardAt(clock: { seconds: number }, reply: Reply = usual) {
  const guard = new ReplayCache({ ttlSeconds, now: () => clock.seconds * 1000 });
  let runs = 0;
  const run = async (): Promise<Reply> => {
    runs += 1;
    return reply;
  };
  return {
    guard,
    ask: (it: VerifiedRequest) => guard.once(it, run),
    runs: () => runs,
  };
}

for (const reply of [usual, send(false), send({ a: 1 })]) {
  const text = JSON.stringify(reply.kind === 'send' ? reply.value : reply.kind);
  test(`a request that arrives again is answered ${text} once more and not run`, async (t) => {
    const { ask, runs } = guardAt({ seconds: startedAt }, reply);
    t.deepEqual(await ask(request('n')), reply);
    t.deepEqual(await ask(request('n')), reply);
    t.is(runs(), 1);
  });
}

test('one that arrives while the first is under way waits for its answer', async (t) => {
  const { ask, runs } = guardAt({ seconds: startedAt }, send(7));
  const both = await Promise.all([ask(request('n')), ask(request('n'))]);
  t.deepEqual(both, [send(7), send(7)]);
  t.is(runs(), 1);
});

test('another nonce, another load and another minion are other requests', async (t) => {
  const { ask, runs } = guardAt({ seconds: startedAt });
  await ask(request('n'));
  await ask(request('o'));
  await ask(request('n', { load: { cmd: '_minion_event', tag: 'b' } }));
  await ask(request('n', { minionId: 'm2' }));
  t.is(runs(), 4);
});

test('a mark lasts as long as its time stamp is good, not longer', async (t) => {
  const clock = { seconds: startedAt };
  const { ask, runs } = guardAt(clock);
  await ask(request('n'));
  clock.seconds = startedAt + ttlSeconds;
  await ask(request('n'));
  t.is(runs(), 1);
  clock.seconds += 1;
  await ask(request('later', { ts: clock.seconds }));
  await ask(request('n'));
  t.is(runs(), 3);
});

test('a request without a time stamp is known however late it comes again', async (t) => {
  const clock = { seconds: startedAt };
  const { ask, runs } = guardAt(clock);
  await ask(request('n', { ts: undefined }));
  clock.seconds += 100 * ttlSeconds;
  await ask(request('o', { ts: undefined }));
  await ask(request('n', { ts: undefined }));
  t.is(runs(), 2);
});

test('a request that failed is tried again', async (t) => {
  const guard = new ReplayCache({ ttlSeconds, now: () => startedAt * 1000 });
  const failed = guard.once(request('n'), () => Promise.reject(new Error('broken')));
  await t.throwsAsync(async () => failed, { message: 'broken' });
  t.deepEqual(await guard.once(request('n'), async () => usual), usual);
});

test('what was forgotten is another request', async (t) => {
  const { guard, ask, runs } = guardAt({ seconds: startedAt });
  await ask(request('n'));
  guard.forget('m1');
  await ask(request('n'));
  t.is(runs(), 2);
});

/** Eight bytes that are another number's only by chance. */
function digestOf(value: number): Buffer {
  const digest = Buffer.alloc(8, 0xff);
  digest.writeUInt32BE(value);
  return digest;
}

interface Mark {
  readonly value: number;
  readonly expiresAt: number;
}

test('queues hold the latest marks that have not expired, each as a list of its own would', (t) => {
  const minion = fc.nat(2);
  const step = fc.oneof(
    { weight: 10, arbitrary: fc.record({ minion, add: fc.nat(50), for: fc.nat(20) }) },
    { weight: 3, arbitrary: fc.record({ minion, wait: fc.nat(15) }) },
    { weight: 1, arbitrary: fc.record({ minion, release: fc.constant(true) }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const pool = new DigestPool();
      const fresh = (): { readonly queue: DigestQueue; list: readonly Mark[] } => {
        return { queue: new DigestQueue(pool, 20), list: [] };
      };
      const all = [fresh(), fresh(), fresh()];
      let now = 0;
      for (const it of steps) {
        const one = all[it.minion] ?? fresh();
        if ('release' in it) {
          one.queue.release();
          all[it.minion] = fresh();
        } else if ('wait' in it) {
          now += it.wait;
          one.queue.removeExpired(now);
          const first = one.list.findIndex((mark) => mark.expiresAt >= now);
          one.list = first === -1 ? [] : one.list.slice(first);
        } else {
          one.queue.add(digestOf(it.add), now + it.for);
          one.list = [...one.list, { value: it.add, expiresAt: now + it.for }].slice(-20);
        }
      }
      for (const { queue, list } of all) {
        t.is(queue.size, list.length);
        for (let value = 0; value <= 50; value += 1) {
          t.is(
            queue.has(digestOf(value)),
            list.some((mark) => mark.value === value),
          );
        }
      }
      const most = all.reduce((sum, { list }) => {
        return sum + (list.length === 0 ? 0 : Math.ceil(list.length / marksPerBlock) + 1);
      }, 0);
      t.true(pool.inUse <= most, 'blocks that hold no mark were given back');
    }),
  );
});

test('what is added after the end of a queue takes no memory', (t) => {
  const pool = new DigestPool();
  const queue = new DigestQueue(pool, 20);
  queue.add(digestOf(1), 10);
  queue.release();
  queue.add(digestOf(2), 10);
  t.is(pool.inUse, 0);
  t.false(queue.has(digestOf(2)));
});

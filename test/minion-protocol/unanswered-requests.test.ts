/** Memory of requests that get no reply, and of replies that a minion does not read. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import test from 'ava';
import { ConcurrencyLimiter } from '#minion-protocol/transport/concurrency-limiter.ts';
import { transportLimits } from '#minion-protocol/transport/limits.ts';
import { type AnswerForm, RequestQueue } from '#minion-protocol/transport/request-queue.ts';
import type { StreamConnection } from '#minion-protocol/transport/stream-connection.ts';
import { toEncodedMessage } from '#minion-protocol/transport/write-queue.ts';
import { Budget } from '#runtime';
import { until } from '../helpers/deadline.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

const form: AnswerForm<undefined> = {
  encode: (_route, answer) => toEncodedMessage([answer]),
  isOrdered: true,
};

/** Returns the service of a request queue, without its handler. */
function serviceOf(unread: Budget) {
  return {
    transport: 'test',
    publishPort: () => 0,
    maxInFlight: 64,
    maxBytesInFlight: 2 ** 24,
    limiter: new ConcurrencyLimiter(transportLimits.activeRequests),
    unread,
  };
}

for (const isOrdered of [true, false]) {
  const order = isOrdered ? 'in order' : 'in any order';
  test(`a request without a reply is not kept in memory, with replies ${order}`, async (t) => {
    const sent: Uint8Array[] = [];
    let unanswered = 0;
    // Only these members are used.
    const connection = {
      guarded: {
        requestDone: () => {},
        leaveUnanswered: () => {
          unanswered += 1;
        },
      },
      queue: { isClogged: false, bytes: 0 },
      pauseReading: () => {},
      send: ({ chunks }: { readonly chunks: readonly Uint8Array[] }) => sent.push(...chunks),
    } as unknown as StreamConnection;
    const form: AnswerForm<Uint8Array> = {
      encode: (route, answer) => toEncodedMessage([route, answer]),
      isOrdered,
    };
    const service = {
      handler: async (body: Uint8Array) => {
        if (body[0] === 0) throw new Error('no reply');
        return body;
      },
      ...serviceOf(new Budget(transportLimits.unreadReplies)),
    };
    const queue = new RequestQueue(connection, service, form);
    const held = takeUnanswered(queue);
    await until('there is no reply', () => unanswered === 1);
    await until('the request is forgotten', () => {
      collect();
      return held.every((it) => it.deref() === undefined);
    });
    queue.take(Uint8Array.of(7), Uint8Array.of(1));
    if (!isOrdered) await until('a reply', () => sent.length === 2);
    t.deepEqual(sent, isOrdered ? [] : [Uint8Array.of(7), Uint8Array.of(1)]);
  });
}

/** Connection of a minion that does not read. Its replies stay in the queue. */
function unreadConnection(minion: string): {
  readonly connection: StreamConnection;
  readonly refusals: readonly string[];
} {
  const refusals: string[] = [];
  const queue = { isClogged: false, bytes: 0 };
  // Only these members are used.
  const connection = {
    guarded: {
      requestDone: () => {},
      firstMinion: minion,
      refuse: (reason: string) => refusals.push(reason),
    },
    queue,
    pauseReading: () => {},
    send: ({ bytes }: { readonly bytes: number }) => {
      queue.bytes += bytes;
    },
  } as unknown as StreamConnection;
  return { connection, refusals };
}

test('unread replies of a minion count over its connections, and those of others do not', (t) => {
  const unread = new Budget(transportLimits.unreadReplies, { perOwner: 1000 });
  const service = {
    handler: (body: Uint8Array) => body,
    ...serviceOf(unread),
  };
  const open = (minion: string) => {
    const { connection, refusals } = unreadConnection(minion);
    return { refusals, connection, queue: new RequestQueue(connection, service, form) };
  };
  const [one, two, other] = [open('web1'), open('web1'), open('web2')];
  one.queue.take(undefined, new Uint8Array(900));
  two.queue.take(undefined, new Uint8Array(200));
  t.deepEqual([one.refusals, two.refusals], [[], ['unread-replies']]);
  two.queue.onClosed();
  // A single reply may be larger than the limit.
  other.queue.take(undefined, new Uint8Array(2000));
  t.deepEqual(other.refusals, []);
  t.is(unread.total, 2900);
  one.connection.queue.bytes = 0;
  one.queue.onWritten();
  one.queue.take(undefined, new Uint8Array(900));
  t.deepEqual(one.refusals, []);
  for (const { queue } of [one, other]) {
    queue.onClosed();
    queue.onWritten();
  }
  t.is(unread.total, 0);
});

test('replies that wait for an earlier reply count as unread replies', async (t) => {
  const unread = new Budget(transportLimits.unreadReplies, { perOwner: 1000 });
  const early: Array<(answer: Uint8Array) => void> = [];
  const service = {
    handler: (body: Uint8Array) =>
      body.length === 0 ? new Promise<Uint8Array>((resolve) => early.push(resolve)) : body,
    ...serviceOf(unread),
  };
  const [one, two] = [unreadConnection('web1'), unreadConnection('web1')];
  const queues = [one, two].map(({ connection }) => new RequestQueue(connection, service, form));
  for (const queue of queues) {
    queue.take(undefined, new Uint8Array(0));
    queue.take(undefined, new Uint8Array(600));
  }
  t.deepEqual([one.refusals, two.refusals], [[], ['unread-replies']]);
  t.is(unread.total, 600);
  queues[1]?.onClosed();
  early[0]?.(new Uint8Array(100));
  await until('the replies are sent', () => one.connection.queue.bytes === 700);
  // The bytes move to the output of the connection, and count once.
  t.is(unread.total, 700);
  // A connection that ends keeps no bytes of replies that were never sent.
  queues[0]?.take(undefined, new Uint8Array(0));
  queues[0]?.take(undefined, new Uint8Array(200));
  t.is(unread.total, 900);
  queues[0]?.onClosed();
  early[2]?.(new Uint8Array(100));
  await new Promise(setImmediate);
  t.is(unread.total, 0);
});

/** Passes a request to the queue that gets no reply. Returns references to its parts. */
function takeUnanswered(queue: RequestQueue<Uint8Array>): readonly WeakRef<Uint8Array>[] {
  const [route, body] = [new Uint8Array(64), new Uint8Array(65_536)];
  queue.take(route, body);
  return [new WeakRef(route), new WeakRef(body)];
}

/** Memory of requests that get no reply, until their connection ends. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import test from 'ava';
import { ConcurrencyLimiter } from '#minion-protocol/transport/concurrency-limiter.ts';
import { transportLimits } from '#minion-protocol/transport/limits.ts';
import { type AnswerForm, RequestQueue } from '#minion-protocol/transport/request-queue.ts';
import type { StreamConnection } from '#minion-protocol/transport/stream-connection.ts';
import { toEncodedMessage } from '#minion-protocol/transport/write-queue.ts';
import { until } from '../helpers/deadline.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

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
      queue: { isClogged: false },
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
      transport: 'test',
      publishPort: () => 0,
      maxInFlight: 64,
      maxBytesInFlight: 2 ** 24,
      limiter: new ConcurrencyLimiter(transportLimits.activeRequests),
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

/** Passes a request to the queue that gets no reply. Returns references to its parts. */
function takeUnanswered(queue: RequestQueue<Uint8Array>): readonly WeakRef<Uint8Array>[] {
  const [route, body] = [new Uint8Array(64), new Uint8Array(65_536)];
  queue.take(route, body);
  return [new WeakRef(route), new WeakRef(body)];
}

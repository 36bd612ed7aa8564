/** Stored publications for new subscribers with `zmq_filtering`. */

import test from 'ava';
import type { StreamConnection } from '#minion-protocol/transport/stream-connection.ts';
import { minionTopic } from '#minion-protocol/transport/transport.ts';
import {
  DEFAULT_ZEROMQ_PUBLISHER_OPTIONS,
  ZeromqPublisher,
} from '#minion-protocol/transport/zeromq-publisher.ts';

const options = { ...DEFAULT_ZEROMQ_PUBLISHER_OPTIONS, filtering: true };

/** Subscribes to topics. Returns what the subscriber received, after the current microtasks. */
async function receivedBy(publisher: ZeromqPublisher, topics: readonly string[]): Promise<string> {
  const sent: Uint8Array[] = [];
  // Only these members are used.
  const connection = {
    queue: { messages: 0, bytes: 0 },
    send: ({ chunks }: { readonly chunks: readonly Uint8Array[] }) => sent.push(...chunks),
    setExtraBytes: () => {},
  } as unknown as StreamConnection;
  const session = publisher.openSession(connection);
  for (const topic of topics) session.onSubscription(topic, true);
  await Promise.resolve();
  session.onClosed();
  return Buffer.concat(sent).toString('latin1');
}

test('a new subscriber receives a stored publication once, if one of its topics matches', async (t) => {
  const publisher = new ZeromqPublisher(options);
  const minionIds = ['web1', 'web2', 'web3'];
  publisher.publish({ envelope: Buffer.from('envelope'), minionIds, replayMs: 60_000 });
  const own = minionTopic('web2');
  const framesOf = (topic: string): string => `\x01\x28${topic}\x00\x08envelope`;
  const frames = framesOf(own);
  t.is(await receivedBy(publisher, ['broadcast', own]), frames);
  t.is(await receivedBy(publisher, [own.slice(0, 10), own]), frames);
  const all = minionIds.map((id) => framesOf(minionTopic(id)));
  t.true(all.includes(await receivedBy(publisher, [''])));
  t.is(await receivedBy(publisher, ['broadcast', minionTopic('db1'), `${own}0`]), '');
});

test('the topics of a stored publication are computed once for all new subscribers', async (t) => {
  const publisher = new ZeromqPublisher(options);
  let reads = 0;
  const ids = ['web1', 'web2'];
  const minionIds = new Proxy(ids, {
    get: (target, name, receiver) => {
      if (name === Symbol.iterator) reads += 1;
      return Reflect.get(target, name, receiver);
    },
  });
  publisher.publish({ envelope: Buffer.from('envelope'), minionIds, replayMs: 60_000 });
  const before = reads;
  for (let count = 0; count < 20; count += 1) {
    t.not(await receivedBy(publisher, [minionTopic('web1')]), '');
  }
  t.is(reads - before, 1);
});

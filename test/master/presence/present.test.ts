/** Who is there, and how that is known. */
import test from 'ava';
import type { HeardFrom } from '../../../master/auth/last-heard.ts';
import { presentMinions } from '../../../master/jobs/presence.ts';
import {
  createMemoryTransport,
  type MasterTransport,
  minionTopic,
  type SubscriberInfo,
} from '../../../minion-protocol/index.ts';

/** A transport with these subscribers. */
function transport(name: string, subscribers: readonly Partial<SubscriberInfo>[]): MasterTransport {
  const { master } = createMemoryTransport();
  const complete = {
    address: '10.0.0.1',
    connectedAt: 0,
    topics: [''],
    minionIds: [],
    queuedBytes: 0,
  };
  return {
    name,
    listen: (handler) => master.listen(handler),
    publish: (publication) => master.publish(publication),
    disconnect: (id) => master.disconnect(id),
    subscribers: () => subscribers.map((subscriber) => ({ ...complete, ...subscriber })),
    refusals: () => ({}),
    close: () => master.close(),
  };
}

function present(
  transports: readonly MasterTransport[],
  ids: readonly string[],
  heard: Readonly<Record<string, HeardFrom>> = {},
) {
  return presentMinions(transports, { acceptedIds: () => ids, lastRemote: (id) => heard[id] });
}

const here = { address: '10.0.0.1', transport: 'zeromq' };

test('who announced itself is there, whatever its address', (t) => {
  const tcp = transport('tcp', [{ minionIds: ['one'] }]);
  t.deepEqual(present([tcp], ['one', 'two']), [
    { id: 'one', transport: 'tcp', address: '10.0.0.1', by: 'announcement', isSure: true },
  ]);
});

test('whose key is not accepted is not there', (t) => {
  t.deepEqual(present([transport('tcp', [{ minionIds: ['one'] }])], []), []);
});

test('who listens to its own topic is there; surely, if it asks from there too', (t) => {
  const filtering = transport('zeromq', [{ topics: ['broadcast', minionTopic('one')] }]);
  const elsewhere = { ...here, address: '10.0.0.2' };
  const sureness = (heard: Record<string, HeardFrom>) =>
    present([filtering], ['one', 'two'], heard).map(({ id, by, isSure }) => [id, by, isSure]);
  t.deepEqual(sureness({}), [['one', 'topic', false]]);
  t.deepEqual(sureness({ one: elsewhere }), [['one', 'topic', false]]);
  t.deepEqual(sureness({ one: here, two: here }), [['one', 'topic', true]]);
});

test('whose address listens is there, and a listener elsewhere does not count', (t) => {
  const heard = { one: here, two: { ...here, address: '10.0.0.2' } };
  t.deepEqual(present([transport('zeromq', [{}])], ['one', 'two', 'silent'], heard), [
    { id: 'one', transport: 'zeromq', address: '10.0.0.1', by: 'address', isSure: true },
  ]);
});

test('more minions than connections at an address are there perhaps', (t) => {
  const heard = { one: here, two: here };
  const sure = (connections: number) =>
    present([transport('zeromq', Array(connections).fill({}))], ['one', 'two'], heard).map(
      ({ isSure }) => isSure,
    );
  t.deepEqual(sure(0), []);
  t.deepEqual(sure(1), [false, false]);
  t.deepEqual(sure(2), [true, true]);
});

test('an address on one transport says nothing of another', (t) => {
  const heard = { one: here };
  t.deepEqual(present([transport('ws', [{}])], ['one'], heard), []);
});

test('the connection of one who announced itself is nobody else', (t) => {
  const heard = { two: { address: '10.0.0.1', transport: 'tcp' } };
  const ids = present([transport('tcp', [{ minionIds: ['one'] }])], ['one', 'two'], heard);
  t.deepEqual(
    ids.map(({ id }) => id),
    ['one'],
  );
});

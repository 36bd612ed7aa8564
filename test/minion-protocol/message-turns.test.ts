/** Many small messages in one read, and connections that send only useless requests. */

import { createConnection } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { MessageTurns, type TurnTaker } from '#minion-protocol/transport/message-turns.ts';
import type { Peer } from '#minion-protocol/transport/transport.ts';
import { until } from '../helpers/deadline.ts';
import { connectRaw, RawPeer, startMaster } from '../helpers/zeromq-master.ts';
import { GREETING, HELLO, READY_REQ } from '../helpers/zmtp-bytes.ts';

test('thousands of small requests in one read are handled in many turns', async (t) => {
  const turn = { handled: 0, most: 0, total: 0 };
  const master = await startMaster(t, {}, (request) => {
    if (turn.handled === 0) {
      setImmediate(() => {
        turn.handled = 0;
      });
    }
    turn.handled += 1;
    turn.total += 1;
    turn.most = Math.max(turn.most, turn.handled);
    return request;
  });
  const flooders = await Promise.all(
    Array.from({ length: 10 }, () => connectRaw(t, master.requestPort)),
  );
  const count = 5000;
  const flood = Buffer.concat(Array.from({ length: count }, () => HELLO));
  for (const flooder of flooders) flooder.write(GREETING, READY_REQ, flood);
  await until('all requests', () => turn.total === flooders.length * count);
  // A step of one connection may exceed the limit of 64, but not by more than its 1,024 bytes.
  t.true(turn.most <= 64 + 1024 / HELLO.length, String(turn.most));
});

test('an address with one request does not wait for the requests of another address', async (t) => {
  const order: string[] = [];
  const master = await startMaster(t, {}, (request, { address }) => {
    order.push(address);
    return request;
  });
  const flooders = await Promise.all(
    Array.from({ length: 10 }, () => connectRaw(t, master.requestPort)),
  );
  const socket = createConnection({
    host: '127.0.0.1',
    port: master.requestPort,
    localAddress: '127.0.0.2',
  });
  t.teardown(() => socket.destroy());
  const honest = new RawPeer(socket);
  honest.write(GREETING, READY_REQ);
  await until('the handshake', () => honest.receivedBytes > 64);
  const count = 5000;
  const flood = Buffer.concat(Array.from({ length: count }, () => HELLO));
  for (const flooder of flooders) flooder.write(GREETING, READY_REQ, flood);
  await until('the first requests', () => order.length > 0);
  honest.write(HELLO);
  await until('an answer', () => honest.received.subarray(-HELLO.length).equals(HELLO));
  t.true(order.length < (flooders.length * count) / 2, String(order.length));
});

test('owners take turns, and a connection waits after its share of a turn', async (t) => {
  const turns = new MessageTurns();
  const order: string[] = [];
  const taker = (turnOwner: string, name: string): TurnTaker => ({
    turnOwner,
    takeTurn: () => {
      order.push(name);
      turns.spend(turns.perVisit);
    },
  });
  t.false(turns.mustWait);
  for (const name of ['a1', 'a2', 'a3']) turns.wait(taker('a', name));
  turns.wait(taker('b', 'b1'));
  t.true(turns.mustWait, 'new bytes of others wait, too');
  await nextTurn();
  t.deepEqual(order, ['a1', 'b1', 'a2', 'a3']);
});

test('a connection whose requests are refused is ended, unless as many are verified', async (t) => {
  const peers: Peer[] = [];
  const master = await startMaster(t, {}, (request, peer) => {
    peers.push(peer);
    return request;
  });
  const useless = await connectRaw(t, master.requestPort);
  useless.write(GREETING, READY_REQ, HELLO);
  await until('a request', () => peers.length === 1);
  const [peer] = peers;
  for (let count = 0; count < 200; count += 1) {
    peer?.noteRefusal();
    peer?.identify('web1');
    peer?.noteRefusal();
  }
  t.deepEqual(master.transport.refusals(), {});
  for (let count = 0; count < 57; count += 1) peer?.noteRefusal();
  t.deepEqual(master.transport.refusals(), { 'refused-requests': 1 });
  await useless.closed('useless requests');
});

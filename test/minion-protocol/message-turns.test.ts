/** Many small messages in one read, and connections that send only useless requests. */

import { createConnection } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { transportLimits } from '#minion-protocol/transport/limits.ts';
import type { Peer } from '#minion-protocol/transport/transport.ts';
import { MessageTurns, type TurnTaker } from '#runtime';
import { until } from '../helpers/deadline.ts';
import { connectRaw, RawPeer, startMaster } from '../helpers/zeromq-master.ts';
import { GREETING, HELLO, READY_REQ } from '../helpers/zmtp-bytes.ts';

const { perOwner: perAddress = 0, total: ofAll = 0 } = transportLimits.unprovenMessages;

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
  t.is(turn.most, perAddress);
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

/** Starts a test of turns. Each connection has `count` messages left. */
function connectionsOf(turns: MessageTurns) {
  const order: string[] = [];
  const begin = (owner: string, name: string, count: number): void => {
    let left = count;
    const taker: TurnTaker = {
      takeTurn: () => {
        const handled = Math.min(left, turns.allowance(owner));
        turns.spend(owner, handled);
        left -= handled;
        order.push(`${name} ${handled}`);
        if (left > 0) turns.wait(owner, taker);
      },
    };
    turns.wait(owner, taker);
  };
  return { order, begin };
}

test('addresses take turns, and each gets its share of a turn', async (t) => {
  const turns = new MessageTurns(transportLimits.unprovenMessages);
  const { order, begin } = connectionsOf(turns);
  begin('a', 'a1', perAddress + 1);
  begin('a', 'a2', 1);
  begin('b', 'b1', 1);
  t.true(turns.mustWait('c'), 'new bytes of others wait, too');
  await nextTurn();
  t.deepEqual(order.splice(0), [`a1 ${perAddress}`, 'b1 1']);
  await nextTurn();
  t.deepEqual(order, ['a2 1', 'a1 1']);
});

test('all addresses together have a maximum, and those that were not served come first', async (t) => {
  const turns = new MessageTurns(transportLimits.unprovenMessages);
  const { order, begin } = connectionsOf(turns);
  const servedAtOnce = ofAll / perAddress;
  const names = Array.from({ length: servedAtOnce + 1 }, (_, index) => `a${index}`);
  for (const name of names) begin(name, name, 2 * perAddress);
  await nextTurn();
  t.deepEqual(
    order.splice(0),
    names.slice(0, servedAtOnce).map((name) => `${name} ${perAddress}`),
  );
  await nextTurn();
  t.is(order[0], `a${servedAtOnce} ${perAddress}`);
});

test('a minion does not wait for the messages of other minions', async (t) => {
  const turns = new MessageTurns(transportLimits.messages);
  const { order, begin } = connectionsOf(turns);
  begin('web1', 'web1', 1000);
  t.true(turns.mustWait('web1'));
  t.false(turns.mustWait('web2'));
  begin('web2', 'web2', 1);
  await nextTurn();
  t.deepEqual(order, ['web1 64', 'web2 1']);
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

/** Limits for TLS handshakes in progress on the ports of minions, and who is served first. */

import { readFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { ConnectionGuard, type TlsOptions } from '#minion-protocol';
import { Handshake, HandshakeQueue } from '#minion-protocol/transport/handshake-queue.ts';
import { transportLimits } from '#minion-protocol/transport/limits.ts';
import { DEFAULT_CONNECTION_LIMITS } from '#minion-protocol/transport/stream-listener.ts';
import { listenSecurely, loadTls } from '#minion-protocol/transport/tls.ts';
import { until, within } from '../helpers/deadline.ts';
import { testLimit } from '../helpers/limits.ts';
import {
  ANSWER,
  REQUEST,
  type StreamMasterOptions,
  startStream,
} from '../helpers/stream-masters.ts';
import { connectRaw, HOST, type Master, RawPeer } from '../helpers/zeromq-master.ts';

const { perOwner: perAddress = 0, total: ofAll = 0 } = transportLimits.handshakes;

test('the newest waiting handshake of an address is served first', (t) => {
  const { enter, order } = queueOf({ perOwner: 1 });
  const first = enter('a', 'first');
  const others = ['second', 'third', 'fourth'].map((name) => enter('a', name));
  t.deepEqual(order, ['first']);
  first.leave();
  others[2]?.leave();
  others[1]?.leave();
  t.deepEqual(order, ['first', 'fourth', 'third', 'second']);
});

test('the address with the fewest handshakes in progress is served first', (t) => {
  const { enter, order } = queueOf({ perOwner: 3, total: 3 });
  const held = ['a', 'a', 'a'].map((address) => enter(address, 'held'));
  for (const address of ['b', 'b', 'b', 'c', 'c', 'd']) enter(address, address);
  t.deepEqual(order.splice(0), ['held', 'held', 'held', 'b', 'c']);
  for (const handshake of held) handshake.leave();
  t.deepEqual(order.splice(0), ['d']);
});

test('addresses with the same number of handshakes in progress take turns', (t) => {
  const { enter, order, leaveAll } = queueOf({ perOwner: 2, total: 2 });
  enter('a', 'a');
  enter('b', 'b');
  for (const name of ['c1', 'c2', 'c3', 'd1', 'd2', 'd3']) enter(name.slice(0, 1), name);
  t.deepEqual(order.splice(0), ['a', 'b']);
  for (let n = 0; n < 3; n += 1) leaveAll();
  t.deepEqual(order, ['c3', 'd3', 'c2', 'd2', 'c1', 'd1']);
});

test('an address at its limit does not keep other addresses waiting', (t) => {
  const { enter, order, refused } = queueOf(transportLimits.handshakes);
  for (let n = 0; n < 1000; n += 1) enter('a', 'a');
  t.is(order.length, perAddress);
  enter('b', 'b');
  t.is(order.at(-1), 'b');
  t.deepEqual(refused, []);
});

test('at an address at its limit, the oldest handshake ends if another waits, 10 seconds after it started', (t) => {
  const { clock, enter, order, refused, queue } = queueOf({ perOwner: 2 });
  enter('a', 'first');
  clock.now += 1000;
  enter('a', 'second');
  clock.now += 8999;
  enter('a', 'third');
  queue.sweep();
  t.deepEqual(order, ['first', 'second']);
  clock.now += 1;
  enter('a', 'fourth');
  t.deepEqual(refused, ['first too-many-handshakes']);
  t.deepEqual(order, ['first', 'second', 'fourth']);
  clock.now += 999;
  queue.sweep();
  t.is(order.length, 3);
  clock.now += 1;
  queue.sweep();
  t.deepEqual(order, ['first', 'second', 'fourth', 'third']);
  clock.now += 60_000;
  queue.sweep();
  t.deepEqual(refused, ['first too-many-handshakes', 'second too-many-handshakes']);
});

test('if the total is reached, an address with two handshakes more than another loses its oldest', (t) => {
  const { enter, order, refused } = queueOf({ perOwner: 3, total: 4 });
  for (const name of ['a1', 'a2', 'a3', 'b1']) enter(name.slice(0, 1), name);
  enter('c', 'c1');
  t.deepEqual(refused.splice(0), ['a1 too-many-handshakes']);
  t.is(order.at(-1), 'c1');
  enter('d', 'd1');
  t.deepEqual(refused.splice(0), ['a2 too-many-handshakes']);
  t.is(order.at(-1), 'd1');
  for (const address of ['a', 'b', 'c', 'd', 'e']) enter(address, 'late');
  t.deepEqual(refused, []);
  t.is(order.length, 6);
});

test('if the total is reached and no address has more, a handshake ends after one second', (t) => {
  const { clock, enter, order, refused, queue } = queueOf({ perOwner: 3, total: 2 });
  enter('a', 'a');
  clock.now += 500;
  enter('b', 'b');
  enter('c', 'c');
  clock.now += 499;
  queue.sweep();
  t.deepEqual(order, ['a', 'b']);
  clock.now += 1;
  queue.sweep();
  t.deepEqual(refused, ['a too-many-handshakes']);
  t.deepEqual(order, ['a', 'b', 'c']);
  clock.now += 500;
  enter('d', 'd');
  t.deepEqual(order, ['a', 'b', 'c', 'd']);
  clock.now += 60_000;
  queue.sweep();
  t.is(refused.length, 2);
});

test('a slow handshake does not end while another address has more of them', (t) => {
  const { clock, enter, order, refused, queue } = queueOf({ perOwner: 4, total: 5 });
  enter('honest', 'slow');
  for (let n = 0; n < 8; n += 1) enter(n % 2 === 0 ? 'a' : 'b', `${n}`);
  for (let second = 0; second < 9; second += 1) {
    clock.now += 1000;
    queue.sweep();
    for (const address of ['a', 'a', 'b', 'b']) enter(address, 'more');
  }
  t.true(order.length > 20);
  t.false(refused.includes('slow too-many-handshakes'));
});

test('an ended handshake frees its place, whether it waits or is in progress', (t) => {
  const { enter, order, queue } = queueOf({ perOwner: 2, total: 3 });
  const names = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'];
  const handshakes = names.map((name) => enter(name.slice(0, 1), name));
  handshakes[3]?.leave();
  handshakes[3]?.leave();
  t.is(queue.addresses, 3);
  for (const handshake of handshakes) handshake.leave();
  t.false(order.includes('a4'));
  t.is(queue.addresses, 0);
  enter('d', 'd');
  t.is(order.at(-1), 'd');
});

test('the limits hold, and no handshake waits without need, in any order of events', (t) => {
  const limit = { perOwner: 3, total: 6 };
  const step = fc.record({
    kind: fc.constantFrom('enter', 'enter', 'leave', 'evict', 'tick'),
    address: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    index: fc.nat(30),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { clock, enter, queue } = queueOf(limit);
      const all: Handshake[] = [];
      for (const { kind, address, index } of steps) {
        if (kind === 'enter') all.push(enter(address, `${index}`));
        if (kind === 'leave') all[index % (all.length + 1)]?.leave();
        if (kind === 'evict') queue.evictWaiting(address);
        if (kind === 'tick') {
          clock.now += index * 400;
          queue.sweep();
        }
        const started = all.filter(({ state }) => state === 'started');
        const countOf = (name: string): number =>
          started.filter((handshake) => handshake.address === name).length;
        const waiting = all.filter(({ state }) => state === 'waiting');
        const counts = ['a', 'b', 'c', 'd', 'e'].map(countOf);
        t.true(started.length <= limit.total && Math.max(...counts) <= limit.perOwner);
        for (const handshake of waiting) {
          const own = countOf(handshake.address);
          t.true(own === limit.perOwner || started.length === limit.total);
          t.true(own === limit.perOwner || Math.max(...counts) < own + 2);
        }
      }
      for (const handshake of all) handshake.leave();
      t.is(queue.addresses, 0);
    }),
  );
});

test('a few handshakes start in one turn of the event loop', async (t) => {
  const { enter, order } = queueOf({ perTurn: 2 });
  const handshakes = ['a', 'b', 'c', 'd', 'e'].map((name) => enter(name, name));
  t.deepEqual(order, ['a', 'b']);
  handshakes[0]?.leave();
  t.is(order.length, 2);
  await nextTurn();
  t.is(order.length, 4);
  await nextTurn();
  t.is(order.length, 5);
  enter('f', 'f');
  t.is(order.at(-1), 'f');
});

test('too many new connections of an address end the oldest one that waits for its handshake', async (t) => {
  const { connected } = guardOf({ maxNewConnectionsPerAddress: perAddress + 2 });
  const inProgress = Array.from({ length: perAddress }, () => connected('10.0.0.1'));
  await manyTurns();
  const [first, second] = [connected('10.0.0.1'), connected('10.0.0.1')];
  t.false(first.hasStarted());
  const third = connected('10.0.0.1');
  t.deepEqual(
    [first, second, third].map(({ isOpen }) => isOpen()),
    [false, true, true],
  );
  t.true(inProgress.every(({ isOpen }) => isOpen()));
  inProgress[0]?.connection?.end();
  t.true(third.hasStarted());
});

test('handshakes of known addresses have their own limits', async (t) => {
  const { connected } = guardOf({});
  connected('10.0.0.1').connection?.identify('minion');
  for (let n = 0; n < 2 * ofAll; n += 1) connected(`10.1.${n >> 8}.${n & 255}`);
  await manyTurns();
  const stranger = connected('10.0.0.2');
  const known = Array.from({ length: perAddress + 1 }, () => connected('10.0.0.1'));
  await manyTurns();
  t.true(known.every(({ hasStarted }) => hasStarted()));
  t.false(stranger.hasStarted());
});

test('nothing is read from a connection that waits for its handshake', async (t) => {
  const waiting: { socket: Socket; start: () => void }[] = [];
  const port = await listenWaiting(t, waiting);
  const client = tlsClient(t, port);
  await until('the connection', () => waiting.length === 1);
  const other = tlsClient(t, port);
  await until('another connection', () => waiting.length === 2);
  waiting[1]?.start();
  await until('its handshake', () => other.received.toString() === 'secured');
  t.is(waiting[0]?.socket.bytesRead, 0);
  waiting[0]?.start();
  await until('the handshake', () => client.received.toString() === 'secured');
});

test('no handshake starts for a peer that closed its connection while it waited', async (t) => {
  const waiting: { socket: Socket; start: () => void }[] = [];
  const refusals: string[] = [];
  const port = await listenWaiting(t, waiting, (reason) => refusals.push(reason));
  const gone = await connectRaw(t, port);
  gone.write(await clientHello());
  gone.socket.end();
  await until('the connection', () => waiting.length === 1);
  waiting[0]?.start();
  await gone.closed('of a peer that is gone');
  t.is(gone.receivedBytes, 0);
  t.deepEqual(refusals, []);
  const flood = await connectRaw(t, port);
  flood.write(Buffer.alloc(100_000));
  await until('another connection', () => waiting.length === 2);
  waiting[1]?.start();
  await flood.closed('of a peer that sends no handshake');
  t.deepEqual(refusals, ['tls-handshake']);
});

test('a client is served although silent connections of its address use all handshakes', async (t) => {
  const { clock, master } = await startTls(t);
  await silentPeers(t, master, perAddress);
  const client = tlsClient(t, master.requestPort);
  const elsewhere = tlsClient(t, master.requestPort, '127.0.0.2');
  await until('a client of another address', () => elsewhere.isSecure());
  t.false(client.isSecure());
  t.deepEqual(master.transport.refusals(), {});
  clock.now += 10_000;
  client.write(REQUEST.tcp);
  const isAnswered = (): boolean => client.received.subarray(-ANSWER.length).equals(ANSWER);
  await until('the answer', isAnswered);
  t.is(master.transport.refusals()['too-many-handshakes'], 1);
});

test('a client is served when a connection of its address ends its handshake', async (t) => {
  const { master } = await startTls(t);
  const silent = await silentPeers(t, master, perAddress);
  const clients = [1, 2, 3].map(() => tlsClient(t, master.requestPort));
  silent[0]?.socket.destroy();
  await until('all clients', () => clients.every((client) => client.isSecure()));
  t.deepEqual(Object.keys(master.transport.refusals()), ['tls-handshake']);
});

test('closing the listener ends connections that wait for their handshake', async (t) => {
  const { master } = await startTls(t);
  const silent = await silentPeers(t, master, perAddress + 3);
  await within('the end', master.transport.close());
  for (const peer of silent) await peer.closed('with the listener');
  t.pass();
});

const served: TlsOptions = {
  certFile: file('master.pem'),
  keyFile: file('master.key'),
  clientCertificates: 'none',
};

function file(name: string): string {
  return join('test', 'fixtures', 'tls', name);
}

/** A queue whose handshakes record their starts and refusals. */
function queueOf(values: {
  readonly perOwner?: number | undefined;
  readonly total?: number | undefined;
  readonly perTurn?: number;
}) {
  const clock = { now: 1_000_000 };
  const { perOwner, total, perTurn } = values;
  const starts = testLimit({ total: perTurn });
  const queue = new HandshakeQueue(testLimit({ perOwner, total }), starts, () => clock.now);
  const order: string[] = [];
  const refused: string[] = [];
  const started: Handshake[] = [];
  const enter = (address: string, name: string): Handshake => {
    const handshake: Handshake = new Handshake(queue, address, {
      start: () => {
        order.push(name);
        started.push(handshake);
      },
      refuse: (reason) => {
        refused.push(`${name} ${reason}`);
        handshake.leave();
      },
    });
    handshake.enter();
    return handshake;
  };
  const leaveAll = (): void => {
    for (const handshake of started.splice(0)) handshake.leave();
  };
  return { clock, queue, order, refused, enter, leaveAll };
}

function guardOf(limits: Partial<typeof DEFAULT_CONNECTION_LIMITS>) {
  const table = new ConnectionGuard({ ...DEFAULT_CONNECTION_LIMITS, ...limits }, () => 0);
  const connected = (address: string) => {
    const state = { isOpen: true, hasStarted: false };
    const onEnd = () => {
      state.isOpen = false;
    };
    const rules = { awaitsRequest: true, keepsStalled: false };
    const connection = table.admit(address, rules, { onEnd, finish: () => {} });
    connection?.awaitTlsHandshake(() => {
      state.hasStarted = true;
    });
    return { connection, isOpen: () => state.isOpen, hasStarted: () => state.hasStarted };
  };
  return { connected };
}

async function startTls(t: ExecutionContext, options: StreamMasterOptions = {}) {
  const clock = { now: 1_700_000_000_000 };
  const settings = { tls: served, now: () => clock.now, sweepIntervalMs: 5, ...options };
  return { clock, master: await startStream(t, 'tcp', settings) };
}

/** Connects without sending anything. The listener has accepted the connections. */
async function silentPeers(t: ExecutionContext, master: Master, count: number): Promise<RawPeer[]> {
  const peers: RawPeer[] = [];
  while (peers.length < count) peers.push(await connectRaw(t, master.requestPort));
  // Connections are accepted in sequence, so those before this one have been accepted.
  const last = tlsClient(t, master.requestPort, '127.0.0.9');
  await until('the last connection', () => last.isSecure());
  await manyTurns();
  return peers;
}

/** Listens with TLS. The handshakes wait until the test starts them. */
async function listenWaiting(
  t: ExecutionContext,
  waiting: { readonly socket: Socket; readonly start: () => void }[],
  onRefused: (reason: string) => void = () => {},
): Promise<number> {
  const { server, port } = await listenSecurely(
    { host: HOST, port: 0, backlog: 10, keepAliveIdleMs: null },
    loadTls(served),
    {
      onConnection: (socket, start) => {
        waiting.push({ socket, start });
        return (stream) => stream.write('secured');
      },
      onRefused,
    },
  );
  t.teardown(() => server.close());
  return port;
}

/** Returns the first bytes of a TLS client. */
function clientHello(): Promise<Buffer> {
  return new Promise((resolve) => {
    const write = (chunk: Buffer): void => resolve(chunk);
    connect({ socket: new Duplex({ read: () => {}, write }) });
  });
}

async function manyTurns(): Promise<void> {
  for (let n = 0; n < 100; n += 1) await nextTurn();
}

class SecurePeer extends RawPeer {
  #isSecure = false;

  constructor(socket: TLSSocket) {
    super(socket);
    socket.once('secureConnect', () => {
      this.#isSecure = true;
    });
  }

  isSecure(): boolean {
    return this.#isSecure;
  }
}

function tlsClient(t: ExecutionContext, port: number, localAddress: string = HOST): SecurePeer {
  const ca = readFileSync(file('ca.pem'));
  const socket = createConnection({ host: HOST, port, localAddress });
  const peer = new SecurePeer(connect({ socket, host: HOST, ca }));
  t.teardown(() => peer.socket.destroy());
  return peer;
}

/** The ports for relays: who may connect, and which address each connection gets. */

import test, { type ExecutionContext } from 'ava';
import { encodeProxyHeader, type Peer } from '#minion-protocol';
import type { RelayPortsOptions } from '#minion-protocol/transport/relayed-connections.ts';
import type { ZeromqListenerOptions } from '#minion-protocol/transport/zeromq-listener.ts';
import { until } from '../helpers/deadline.ts';
import {
  connectRaw,
  HOST,
  type Master,
  type RawPeer,
  startMaster,
} from '../helpers/zeromq-master.ts';
import { GREETING, HELLO, hex, READY_REQ, READY_SUB } from '../helpers/zmtp-bytes.ts';

interface Relayed {
  readonly master: Master;
  readonly peers: Peer[];
  /** Connects to a port for relays. */
  connect(port: 'requestPort' | 'publishPort'): Promise<RawPeer>;
}

async function startRelayed(
  t: ExecutionContext,
  relay: Partial<RelayPortsOptions> = {},
  options: ZeromqListenerOptions = {},
): Promise<Relayed> {
  const peers: Peer[] = [];
  const ports = { from: [HOST], requestPort: 0, publishPort: 0, ...relay };
  const master = await startMaster(t, { relay: ports, ...options }, (body, peer) => {
    peers.push(peer);
    return body;
  });
  return {
    master,
    peers,
    connect: (port) => connectRaw(t, master.relay?.[port] ?? 0),
  };
}

const destination = { address: '169.254.169.254', port: 4506 };

function header(network: string, address: string, known: object = {}): Buffer {
  return encodeProxyHeader({ network, ...known }, { address, port: 40_000 }, destination);
}

/** Sends bytes and returns the peer of the request that the handler receives. */
async function ask({ peers, connect }: Relayed, bytes: Buffer): Promise<Peer | undefined> {
  const before = peers.length;
  const peer = await connect('requestPort');
  peer.write(bytes, GREETING, READY_REQ, HELLO);
  await until('the request', () => peers.length > before);
  return peers.at(-1);
}

test('a request through a relay is attributed to a network and address, or an instance and project', async (t) => {
  const relayed = await startRelayed(t);
  const { publishPort, relay } = relayed.master;
  const first = await ask(relayed, header('net-A', '10.0.0.5'));
  // This is the port on which the relay listens in the network.
  t.like(first, { address: 'net-A/10.0.0.5', publishPort });
  t.not(relay?.publishPort, publishPort);
  t.is((await ask(relayed, header('net-B', '10.0.0.5')))?.address, 'net-B/10.0.0.5');
  t.is((await ask(relayed, header('net-A', 'fe80::5')))?.address, 'net-A/fe80::5');
  const known = { instance: 'i-1', project: 'p-1' };
  t.is((await ask(relayed, header('net-A', '10.0.0.5', known)))?.address, 'instance:p-1/i-1');
});

test('a header in pieces is read, and a publication passes through the relay', async (t) => {
  const { master, connect } = await startRelayed(t);
  const peer = await connect('publishPort');
  const bytes = header('net-A', '10.0.0.5');
  peer.write(bytes.subarray(0, 20));
  peer.socket.setNoDelay(true);
  peer.write(bytes.subarray(20), GREETING.subarray(0, 10));
  peer.write(GREETING.subarray(10), READY_SUB, hex('000101'));
  await until('a subscriber', () => master.transport.subscribers().length === 1);
  t.is(master.transport.subscribers()[0]?.address, 'net-A/10.0.0.5');
  const before = peer.receivedBytes;
  master.transport.publish({ envelope: new Uint8Array(1000), minionIds: null });
  await until('the publication', () => peer.receivedBytes > before + 1000);
});

test('a client that is not a listed relay is disconnected, whatever header it sends', async (t) => {
  const { master, peers, connect } = await startRelayed(t, { from: ['192.0.2.0/24', '::1'] });
  const peer = await connect('requestPort');
  peer.write(header('net-A', '10.0.0.5'), GREETING, READY_REQ, HELLO);
  await peer.closed('of somebody');
  t.is(peer.receivedBytes, 0);
  t.deepEqual(peers, []);
  t.deepEqual(master.transport.refusals(), { 'relay-source': 1 });
});

test('a connection with a missing, wrong or long header is closed', async (t) => {
  const { master, peers, connect } = await startRelayed(t);
  const long = hex(`0d0a0d0a000d0a515549540a 2111 ffff ${'00'.repeat(600)}`);
  const local = hex('0d0a0d0a000d0a515549540a 2000 0000');
  for (const bytes of [GREETING, long, local]) {
    const peer = await connect('requestPort');
    peer.write(bytes);
    await peer.closed('without a header');
    t.is(peer.receivedBytes, 0);
  }
  t.deepEqual(peers, []);
  t.deepEqual(master.transport.refusals(), { 'relay-header': 3 });
});

test('a connection is closed if its header does not arrive in time', async (t) => {
  const { master, connect } = await startRelayed(t, { headerMs: 20 });
  const peer = await connect('publishPort');
  peer.write(header('net-A', '10.0.0.5').subarray(0, 30));
  await peer.closed('with half a header');
  t.deepEqual(master.transport.refusals(), { 'relay-header-timeout': 1 });
});

test('a header from a guest is ignored, after the header of its relay and on other ports', async (t) => {
  const relayed = await startRelayed(t);
  const { master, peers, connect } = relayed;
  const forged = header('net-B', '10.0.0.7', { instance: 'i-2', project: 'p-2' });
  const through = await connect('requestPort');
  through.write(header('net-A', '10.0.0.5'), forged, GREETING, READY_REQ, HELLO);
  await through.closed('with two headers');
  const direct = await connectRaw(t, master.requestPort);
  direct.write(forged, GREETING, READY_REQ, HELLO);
  await direct.closed('at the port of minions');
  t.deepEqual(peers, []);
  const plain = await connectRaw(t, master.requestPort);
  plain.write(GREETING, READY_REQ, HELLO);
  await until('the request', () => peers.length === 1);
  t.is(peers[0]?.address, HOST);
});

test('limits apply to each address in the header, not to the relay', async (t) => {
  const { master, connect } = await startRelayed(
    t,
    {},
    { limits: { maxConnectionsPerAddress: 1 } },
  );
  const subscribe = async (network: string, address: string, known: object = {}) => {
    const peer = await connect('publishPort');
    peer.write(header(network, address, known), GREETING, READY_SUB, hex('000101'));
    return peer;
  };
  const addresses = (): string[] =>
    master.transport
      .subscribers()
      .map(({ address }) => address)
      .sort();
  const first = await subscribe('net-A', '10.0.0.5');
  await subscribe('net-B', '10.0.0.5');
  await subscribe('net-A', 'fe80::1');
  await subscribe('net-A', 'fe80::2');
  const known = { instance: 'i-1', project: 'p-1' };
  const former = await subscribe('net-A', '10.0.0.6', known);
  const all = [
    'instance:p-1/i-1',
    'net-A/10.0.0.5',
    'net-A/fe80::1',
    'net-A/fe80::2',
    'net-B/10.0.0.5',
  ];
  await until('five subscribers', () => addresses().length === 5);
  t.deepEqual(addresses(), all);
  await subscribe('net-A', '10.0.0.5');
  await first.closed('of an address that has another one');
  // An instance is the same peer, regardless of its address.
  await subscribe('net-A', '10.0.0.7', known);
  await former.closed('of an instance that has another one');
  await until('five subscribers', () => addresses().length === 5);
  t.deepEqual(addresses(), all);
  t.deepEqual(master.transport.refusals(), { 'too-many-from-address': 2 });
});

test('only subscribers behind a relay are sent PINGs', async (t) => {
  const { master, connect } = await startRelayed(t, { pingMs: 10 });
  const direct = await connectRaw(t, master.publishPort);
  const peer = await connect('publishPort');
  for (const [one, first] of [
    [direct, []],
    [peer, [header('net-A', '10.0.0.5')]],
  ] as const) {
    one.write(...first, GREETING, READY_SUB, hex('000101'));
  }
  await until('subscribers', () => master.transport.subscribers().length === 2);
  const ping = hex('04 07 04 50494e47 0000');
  await until('two PINGs', () => {
    const at = peer.received.indexOf(ping);
    return at !== -1 && peer.received.indexOf(ping, at + ping.length) !== -1;
  });
  t.false(direct.received.includes(ping));
});

test('closing ends connections whose header has not arrived', async (t) => {
  const { master, connect } = await startRelayed(t);
  const peer = await connect('requestPort');
  peer.write(header('net-A', '10.0.0.5').subarray(0, 30));
  const other = await connect('requestPort');
  other.write(header('net-A', '10.0.0.5'), GREETING, READY_REQ);
  await until('our READY', () => other.receivedBytes > 64);
  await master.transport.close(10_000);
  await t.notThrowsAsync(peer.closed('at the end'));
});

/**
 * The relay of a metadata agent, which forwards connections from a proxy's socket to the master's
 * ports for relays.
 */
import { spawn } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { type RelayOptions, startRelay } from '#guests/metadata-agent/relay.ts';
import { createSilentLogger } from '#master';
import { encodeProxyHeader, type Peer } from '#minion-protocol';
import { freePort } from '../../../bench/free-port.ts';
import { until } from '../../helpers/deadline.ts';
import { testWhere } from '../../helpers/needs.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { HOST, openRaw, RawPeer, startMaster } from '../../helpers/zeromq-master.ts';
import { GREETING, HELLO, READY_REQ } from '../../helpers/zmtp-bytes.ts';

interface Stage {
  readonly socket: string;
  readonly peers: readonly Peer[];
  /** Opens a connection like the proxy of a network. */
  connect(network: string, address: string, known?: object): RawPeer;
}

async function startStage(t: ExecutionContext, more: Partial<RelayOptions> = {}): Promise<Stage> {
  const peers: Peer[] = [];
  const ports = { from: [HOST], requestPort: 0, publishPort: 0 };
  const { relay } = await startMaster(t, { relay: ports }, (body, peer) => {
    peers.push(peer);
    return body;
  });
  const socket = path.join(temporaryDirectory(t), 'ret.sock');
  const instances = new Map([
    ['net-A 10.0.0.5', { instance: 'i-a', project: 'p1' }],
    [`net-L ${HOST}`, { instance: 'i-l', project: 'p3' }],
    ['net-B 10.0.0.5', { instance: 'i-b', project: 'p2' }],
  ]);
  const running = await startRelay(
    { host: HOST, ports: [{ socket, port: relay?.requestPort ?? 0 }], ...more },
    {
      find: async ([network], address) => {
        if (network === 'net-C') throw new Error('Neutron is down');
        if (network === 'net-D') return { instance: 'a tenant wrote it', project: 'p' };
        return instances.get(`${network} ${address}`);
      },
      networksOf: async (router) => (router === 'router-B' ? ['net-B'] : []),
      log: createSilentLogger(),
    },
  );
  t.teardown(() => running.close());
  const connect: Stage['connect'] = (network, address, known = {}) => {
    const peer = new RawPeer(net.connect(socket));
    t.teardown(() => peer.socket.destroy());
    const destination = { address: '169.254.169.254', port: 4506 };
    const ids = { network, ...known };
    peer.write(encodeProxyHeader(ids, { address, port: 40_000 }, destination));
    peer.write(GREETING, READY_REQ, HELLO);
    return peer;
  };
  return { socket, peers, connect };
}

test('a connection that a proxy passes on reaches the master with instance and project', async (t) => {
  const { socket, peers, connect } = await startStage(t);
  t.is(statSync(socket).mode & 0o777, 0o600);
  const first = connect('net-A', '10.0.0.5');
  await until('the request of A', () => peers.length === 1);
  // Data about instances from the proxy itself is not forwarded.
  connect('net-B', '10.0.0.5', { instance: 'i-a', project: 'p1' });
  await until('the request of B', () => peers.length === 2);
  t.deepEqual(
    peers.map(({ address }) => address),
    ['instance:p1/i-a', 'instance:p2/i-b'],
  );
  // A proxy in the namespace of a router does not report a network.
  connect('router-B', '10.0.0.5');
  await until('the request through a router', () => peers.length === 3);
  t.is(peers[2]?.address, 'instance:p2/i-b');
  await until('the answer', () => first.received.includes('hello'));
});

test('connections of an instance are limited, and unidentified clients have none', async (t) => {
  const { peers, connect } = await startStage(t, { connectionsPerInstance: 1 });
  const first = connect('net-A', '10.0.0.5');
  await until('the request of A', () => peers.length === 1);
  await connect('net-A', '10.0.0.5').closed('one too many');
  await connect('net-A', '10.0.0.9').closed('of nobody');
  await connect('net-C', '10.0.0.5').closed('of whom cannot be found out');
  await connect('net-D', '10.0.0.5').closed('with an id that is none');
  connect('net-B', '10.0.0.5');
  await until('the request of B', () => peers.length === 2);
  first.socket.destroy();
  while (peers.length < 3) {
    const peer = connect('net-A', '10.0.0.5');
    await Promise.race([peer.closed('while there is no room'), answered(peer)]);
  }
  t.is(peers[2]?.address, 'instance:p1/i-a');
});

function answered({ socket }: RawPeer): Promise<unknown> {
  return new Promise((resolve) => socket.once('data', resolve));
}

test('connections of a network are limited', async (t) => {
  const { peers, connect } = await startStage(t, { connectionsPerNetwork: 1 });
  connect('net-A', '10.0.0.5');
  await until('the request of A', () => peers.length === 1);
  await connect('net-A', '10.0.0.5').closed('one too many');
  connect('net-B', '10.0.0.5');
  await until('the request of B', () => peers.length === 2);
  t.is(peers[1]?.address, 'instance:p2/i-b');
});

const proxied = testWhere(existsSync('/usr/sbin/haproxy'), 'the package haproxy');

proxied(
  'through a real haproxy, a guest keeps its identity, whatever header it sends',
  async (t) => {
    const { socket, peers } = await startStage(t);
    const port = await freePort();
    const file = path.join(path.dirname(socket), 'haproxy.cfg');
    writeFileSync(
      file,
      `global
    maxconn 16
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    unique-id-format net-L
listen salt-ret
    bind ${HOST}:${port}
    server master unix@${socket} send-proxy-v2 proxy-v2-options unique-id
`,
    );
    const proxy = spawn('/usr/sbin/haproxy', ['-db', '-f', file], { stdio: 'ignore' });
    t.teardown(() => proxy.kill('SIGKILL'));
    const connect = async (...bytes: readonly Uint8Array[]): Promise<RawPeer> => {
      const peer = await openRaw(port);
      t.teardown(() => peer.socket.destroy());
      peer.write(...bytes, GREETING, READY_REQ, HELLO);
      return peer;
    };
    for (let isUp = false; !isUp; ) {
      const peer = new RawPeer(net.connect({ host: HOST, port }));
      t.teardown(() => peer.socket.destroy());
      peer.write(GREETING, READY_REQ, HELLO);
      const ended = peer.closed('until haproxy listens').then(() => false);
      isUp = await Promise.race([ended, answered(peer).then(() => true)]);
    }
    await until('the first request', () => peers.length === 1);
    const ids = { network: 'net-A', instance: 'i-a', project: 'p1' };
    const source = { address: '10.0.0.5', port: 40_000 };
    const forged = encodeProxyHeader(ids, source, { address: HOST, port });
    await (await connect(forged)).closed('with a header of its own');
    t.is(peers.length, 1);
    await connect();
    await until('the request', () => peers.length === 2);
    t.deepEqual([...new Set(peers.map(({ address }) => address))], ['instance:p3/i-l']);
  },
);

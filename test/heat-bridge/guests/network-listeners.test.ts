/** The metadata agent and its relay listen in the networks themselves, without a proxy. */

import { createServer } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { type FindInstance, startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { listenInNetwork, plainAddress } from '#guests/metadata-agent/network-listeners.ts';
import { startRelay } from '#guests/metadata-agent/relay.ts';
import { createSilentLogger } from '#master';
import { freePort } from '../../../bench/free-port.ts';
import { labNetworks } from '../../../examples/guests/network-lab.ts';
import { testWhere } from '../../helpers/needs.ts';
import { hasNamespaces } from '../../helpers/network-namespace.ts';
import { hasLabPrograms, openLab } from './network-lab.ts';

const log = createSilentLogger();
const now = Date.now;

/** Starts a service that returns the headers of each request. */
async function startNova(t: ExecutionContext): Promise<string> {
  const nova = createServer(({ headers }, response) => response.end(JSON.stringify(headers)));
  await new Promise<void>((resolve) => nova.listen(0, '127.0.0.1', resolve));
  t.teardown(() => nova.close());
  return `http://127.0.0.1:${(nova.address() as AddressInfo).port}`;
}

/** Finds an instance for each address: `of-NETWORK-ADDRESS`. */
const findAnybody: FindInstance = async ([network = ''], address) => ({
  instance: `of-${network}-${address}`,
  project: 'p',
});

async function startAgent(
  t: ExecutionContext,
  networks: Parameters<typeof startMetadataAgent>[0]['networks'],
  find = findAnybody,
): Promise<void> {
  const nova = { url: await startNova(t), secret: 'of nova' };
  const master = { url: 'http://127.0.0.1:1', name: 'net-1', secret: 'a secret of this agent' };
  const agent = await startMetadataAgent({ networks, nova, master, find, now, log });
  t.teardown(() => agent.close());
}

test('without a proxy, an instance is identified by its connection, whatever its request claims', async (t) => {
  const port = await freePort();
  const network = { networks: ['net-A', 'net-C'], namespace: undefined };
  const asked: (readonly string[])[] = [];
  await startAgent(t, [{ ...network, addresses: ['127.0.0.1'], port }], async (...given) => {
    asked.push(given[0]);
    return findAnybody(...given);
  });
  const url = `http://127.0.0.1:${port}/openstack`;
  const forged = {
    'x-forwarded-for': '10.0.0.9',
    'x-neutron-network-id': 'net-B',
    'x-neutron-router-id': 'r',
    'x-instance-id': 'other',
  };
  const told: Readonly<Record<string, string>> = JSON.parse(
    await (await fetch(url, { headers: forged })).text(),
  );
  t.like(told, { 'x-instance-id': 'of-net-A-127.0.0.1', 'x-forwarded-for': '127.0.0.1' });
  t.deepEqual(asked, [['net-A', 'net-C']]);
});

test('connections of one address to a network are limited, and others have their own limit', async (t) => {
  const port = await freePort();
  const network = { networks: ['net-A'], namespace: undefined, addresses: ['127.0.0.1'] };
  const servers = await listenInNetwork(network, port, (socket, { address }) => {
    socket.write(address);
  });
  t.teardown(() => {
    for (const server of servers) server.close();
  });
  const connect = (localAddress: string): Promise<boolean> =>
    new Promise((resolve) => {
      const socket = net.connect({ host: '127.0.0.1', port, localAddress });
      t.teardown(() => socket.destroy());
      socket.once('data', () => resolve(true));
      socket.once('close', () => resolve(false));
      socket.on('error', () => {});
    });
  for (let count = 0; count < 64; count += 1) t.true(await connect('127.0.0.7'));
  t.false(await connect('127.0.0.7'));
  t.true(await connect('127.0.0.8'));
  t.is(plainAddress('fe80::1%eth0'), 'fe80::1');
  t.is(plainAddress('::FFFF:10.0.0.5'), '10.0.0.5');
});

test('the relay asks once for simultaneous connections, and again after a failed look-up', async (t) => {
  let asked = 0;
  let isDown = true;
  const ends: net.Socket[] = [];
  const master = net.createServer((socket) => ends.push(socket));
  await new Promise<void>((resolve) => master.listen(0, '127.0.0.1', resolve));
  const guestPort = await freePort();
  const { port } = master.address() as AddressInfo;
  const networks = [{ networks: ['n'], namespace: undefined, addresses: ['127.0.0.1'], port: 0 }];
  const find: FindInstance = async ([network]) => {
    asked += 1;
    if (isDown) throw new Error('Neutron is down');
    return { instance: `of-${network}`, project: 'p' };
  };
  const ports = [{ port, guestPort }];
  const relay = await startRelay({ host: '127.0.0.1', ports, networks }, { find, log });
  t.teardown(async () => {
    await relay.close();
    for (const end of ends) end.destroy();
    master.close();
  });
  const connect = (): Promise<string> =>
    new Promise((resolve) => {
      const socket = net.connect({ host: '127.0.0.1', port: guestPort });
      t.teardown(() => socket.destroy());
      socket.once('close', () => resolve('closed'));
      master.once('connection', (end) => end.once('data', (bytes) => resolve(String(bytes))));
    });
  t.is(await connect(), 'closed');
  isDown = false;
  for (let count = 0; count < 5; count += 1) {
    t.regex(await connect(), /of-n/);
  }
  t.is(asked, 2);
});

test('an unusable address or a missing namespace ends the start with its name', async (t) => {
  const network = { networks: ['n'], addresses: ['192.0.2.1'] };
  for (const namespace of [undefined, 'saltbridge-none']) {
    const listening = listenInNetwork({ ...network, namespace }, 80, () => {});
    const message = /cannot listen on 192\.0\.2\.1 port 80/;
    await t.throwsAsync(listening, { code: 'ERR_BRIDGE_OPTIONS', message });
  }
});

const labTest = testWhere(hasNamespaces && hasLabPrograms, 'root, network namespaces, curl');

labTest(
  'two networks with the same addresses are separated, by IPv4 and link-local, without a proxy',
  async (t) => {
    const lab = openLab(t);
    const networks = labNetworks.map((it) => ({
      networks: [`net-${it}`],
      namespace: lab.host(it),
      addresses: ['169.254.169.254', `fe80::a9fe:a9fe%${lab.device(it)}`],
      port: 80,
    }));
    await startAgent(t, networks);
    for (const network of labNetworks) {
      const link = 'http://[fe80::a9fe:a9fe%25e0]/openstack';
      await lab.untilUp(network, link);
      const forged = ['-H', 'X-Forwarded-For: 10.0.0.9', '-H', 'X-Neutron-Network-ID: net-X'];
      const plain = await lab.run(
        network,
        'curl',
        '-s',
        ...forged,
        'http://169.254.169.254/openstack',
      );
      t.like(JSON.parse(plain), { 'x-instance-id': `of-net-${network}-10.0.0.5` });
      const own = await lab.linkLocal(network);
      const scoped = JSON.parse(await lab.run(network, 'curl', '-s', '-g', link));
      t.is(plainAddress(new URL(`http://[${own}]`).hostname), `[${scoped['x-forwarded-for']}]`);
    }
  },
);

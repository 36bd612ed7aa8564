/** The metadata agent: two networks with equal addresses, forged headers, and repeated requests. */

import { once } from 'node:events';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { guestLimits } from '#guests/limits.ts';
import { agentHeader, signAgentRequest } from '#guests/metadata-agent/agent-credentials.ts';
import { loadAgentOptions } from '#guests/metadata-agent/agent-options.ts';
import { macOfLinkLocal, startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { createSilentLogger } from '#master';
import { until } from '../../helpers/deadline.ts';
import { testWhere } from '../../helpers/needs.ts';
import { hasNamespaces } from '../../helpers/network-namespace.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { hasLabPrograms, startLab as startNetworks } from './network-lab.ts';
import { hasRouterPrograms, startRouter } from './router-lab.ts';
import { type GuestStage, sendToSocket, startGuests } from './stage.ts';
import { startCloud } from './stand-in-cloud.ts';

const secret = 'the secret of the agent of these networks';
const novaSecret = 'guest-secret';

interface Asked {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

interface Lab {
  readonly stage: GuestStage;
  readonly socket: string;
  readonly nova: readonly Asked[];
  readonly folder: string;
  /** Sends a request like the proxy of a network. Returns the head and body of the response. */
  ask(network: string, address: string, request?: string, more?: string): Promise<string>;
}

/** Id from the recorded vectors. The signature that Nova expects for it is known. */
const instanceA = '6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6';
const signatureOfA = 'd53fe68ea10dedede2f9af309abb7bd14181e29eacc83e2552a081242c7c01e7';

const instances = [
  { network: 'net-A', address: '10.0.0.5', instance: instanceA, project: 'p1' },
  { network: 'net-B', address: '10.0.0.5', instance: 'instance-b', project: 'p2' },
  { network: 'net-A', address: '10.0.0.9', instance: 'one', project: 'p1' },
  { network: 'net-A', address: '10.0.0.9', instance: 'two', project: 'p1' },
  { network: 'net-D', address: '10.0.1.5', instance: 'instance-d', project: 'p1' },
  { network: 'net-1', address: '10.0.1.5', instance: 'instance-1', project: 'p1' },
  { network: 'net-2', address: '10.0.2.5', instance: 'instance-2', project: 'p1' },
];

async function startLab(t: ExecutionContext): Promise<Lab> {
  const folder = temporaryDirectory(t);
  const write = (name: string, text: string): string => {
    const file = path.join(folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  };
  const agentSecret = write('agent.secret', `${secret}\n`);
  write('nova.secret', `${novaSecret}\n`);
  write('instances.json', JSON.stringify(instances));
  const stage = await startGuests(t, {
    guests: { agents: { 'net-1': { secret_file: agentSecret } } },
  });
  const asked: Asked[] = [];
  const nova = createServer(({ method, url, headers }, response) => {
    asked.push({ method, url, headers });
    response.writeHead(url === '/missing' ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ uuid: headers['x-instance-id'] }));
  });
  await new Promise<void>((resolve) => nova.listen(0, '127.0.0.1', resolve));
  t.teardown(() => nova.close());
  const socket = path.join(folder, 'metadata.sock');
  const config = write(
    'agent.yaml',
    `socket: ${socket}
nova: { url: "http://127.0.0.1:${(nova.address() as AddressInfo).port}", secret_file: nova.secret }
master: { url: "http://127.0.0.1:${stage.port}/", name: net-1, secret_file: agent.secret }
instances: instances.json
routers: { router-1: [net-A, net-D], router-2: [net-B], router-3: [net-1, net-2] }
`,
  );
  const log = createSilentLogger();
  const options = await loadAgentOptions(config, new AbortController().signal);
  const agent = await startMetadataAgent({ ...options, log, now: Date.now });
  t.teardown(() => agent.close());
  return {
    stage,
    socket,
    folder,
    nova: asked,
    ask: (network, address, request = 'GET /openstack', more = '') =>
      sendToSocket(
        socket,
        `${request} HTTP/1.1\r\nhost: 169.254.169.254\r\n${more}x-neutron-network-id: ${network}\r\nx-forwarded-for: ${address}\r\nconnection: close\r\n\r\n`,
      ),
  };
}

const statusOf = (answer: string): string => answer.split(' ')[1] ?? '';

test('one address in two networks means two instances, to Nova with its signature and to the master', async (t) => {
  const { stage, ask, nova } = await startLab(t);
  t.regex(await ask('net-A', '10.0.0.5'), /"uuid":"6f1e0c1a-/);
  t.regex(
    await ask('net-B', '::ffff:10.0.0.5', 'GET /openstack/latest/x?y=1'),
    /"uuid":"instance-b"/,
  );
  const [first, second] = nova;
  t.like(first, { method: 'GET', url: '/openstack' });
  t.is(first?.headers['x-instance-id-signature'], signatureOfA);
  t.deepEqual(
    Object.keys(first?.headers ?? {})
      .filter((it) => it.startsWith('x-'))
      .sort(),
    ['x-forwarded-for', 'x-instance-id', 'x-instance-id-signature', 'x-tenant-id'],
  );
  t.like(second, {
    url: '/openstack/latest/x?y=1',
    headers: { 'x-tenant-id': 'p2', 'x-forwarded-for': '10.0.0.5' },
  });
  t.is(statusOf(await ask('net-A', '10.0.0.5', 'GET /missing')), '404');
  await stage.guest('a.minion', { project: 'p1', instance: instanceA });
  await stage.guest('a.peer', { project: 'p1', instance: 'instance-c' });
  await stage.guest('b.minion', { project: 'p2', instance: 'instance-b' });
  const ofA = await ask('net-A', '10.0.0.5', 'GET /saltbridge/v1/peers');
  t.regex(ofA, /"self":"6f1e0c1a-[^"]*".*"minion":"a\.peer"/);
  const ofB = await ask('net-B', '10.0.0.5', 'GET /saltbridge/v1/peers');
  t.regex(ofB, /"self":"instance-b","peers":\[\]/);
});

test('through a router, an instance is found only in one of its networks', async (t) => {
  const { socket, nova } = await startLab(t);
  const ask = (router: string, address: string, more = ''): Promise<string> =>
    sendToSocket(
      socket,
      `GET /openstack HTTP/1.1\r\nhost: x\r\n${more}x-neutron-router-id: ${router}\r\nx-forwarded-for: ${address}\r\nconnection: close\r\n\r\n`,
    );
  t.regex(await ask('router-1', '10.0.0.5'), /"uuid":"6f1e0c1a-/);
  t.regex(await ask('router-1', '10.0.1.5'), /"uuid":"instance-d"/);
  t.regex(await ask('router-2', '10.0.0.5'), /"uuid":"instance-b"/);
  t.is(nova[0]?.headers['x-neutron-router-id'], undefined);
  for (const [router, address] of [
    ['router-2', '10.0.1.5'],
    ['router-4', '10.0.0.5'],
    // The id of a network is not accepted as that of a router.
    ['net-A', '10.0.0.5'],
    ['router-1', '10.0.0.9'],
  ] as const) {
    t.is(statusOf(await ask(router, address)), '404', `${router} ${address}`);
  }
  for (const more of ['x-neutron-network-id: net-B\r\n', 'x-neutron-router-id: router-2\r\n']) {
    t.is(statusOf(await ask('router-1', '10.0.0.5', more)), '400', more);
  }
  t.is(nova.length, 3);
});

test('values of the data space are read through the agent, without a token on the machine', async (t) => {
  const { stage, ask } = await startLab(t);
  await stage.guest('a.minion', { project: 'p1', instance: instanceA });
  await stage.guest('b.minion', { project: 'p2', instance: 'instance-b' });
  await stage.bridge.data.add({
    name: 's',
    roles: {
      a: { minions: ['a.minion'], writes: { x: {} } },
      b: { minions: ['b.minion'], reads: { x: 'a/x' } },
    },
  });
  const put = 'PUT /saltbridge/v1/data?key=a/x';
  const body = 'content-length: 0\r\n';
  t.is(statusOf(await ask('net-A', '10.0.0.5', put, body)), '200');
  t.is(statusOf(await ask('net-B', '10.0.0.5', put, body)), '403');
  const read = await ask('net-B', '10.0.0.5', 'GET /saltbridge/v1/data?key=a/x&wait=1');
  t.regex(read, /^HTTP\/1\.1 200 [\s\S]*x-saltbridge-version: 1/i);
  t.is(statusOf(await ask('net-A', '10.0.0.5', 'GET /saltbridge/v1/other')), '404');
  t.is(statusOf(await ask('net-A', '10.0.0.5', 'GET /saltbridge/v1/../enrolments')), '400');
});

test('forged headers of a guest have no effect, and do not identify another guest', async (t) => {
  const { ask, nova } = await startLab(t);
  const forged = [
    'x-forwarded-for: 10.0.0.7\r\n',
    'X-Neutron-Network-ID: net-B\r\n',
    'x-ovn-network-id: net-B\r\n',
    'x-neutron-router-id: r\r\n',
  ];
  for (const header of forged) {
    t.is(statusOf(await ask('net-A', '10.0.0.5', undefined, header)), '400', header);
  }
  for (const [network, address] of [
    ['net-A', '10.0.0.5, 10.0.0.7'],
    ['net-A', ''],
    ['../x', '10.0.0.5'],
    ['', '10.0.0.5'],
  ] as const) {
    t.is(statusOf(await ask(network, address)), '400', `${network} ${address}`);
  }
  // One address belongs to no instance, the other to two.
  t.is(statusOf(await ask('net-C', '10.0.0.5')), '404');
  t.is(statusOf(await ask('net-A', '10.0.0.9')), '404');
  t.deepEqual(nova, []);
  const ids = 'x-instance-id: instance-b\r\nx-tenant-id: p2\r\nx-metadata-provider: x\r\n';
  t.regex(await ask('net-A', '10.0.0.5', undefined, ids), /"uuid":"6f1e0c1a-/);
  t.is(nova[0]?.headers['x-metadata-provider'], undefined);
});

test('a query that the HTTP client escapes fits its signature', async (t) => {
  const { stage, ask } = await startLab(t);
  await stage.guest('a.minion', { project: 'p1', instance: instanceA });
  for (const query of ['key=a"', 'key=a#b', 'key=<a>', "key='"]) {
    const answer = await ask('net-A', '10.0.0.5', `GET /saltbridge/v1/data?${query}`);
    t.is(statusOf(answer), '404', query);
    t.regex(answer, /ERR_DATA_UNKNOWN/, query);
  }
});

test('unfinished bodies of one guest leave connections of an agent to others', async (t) => {
  const { socket, ask, nova } = await startLab(t);
  const answers: string[] = [];
  const held = Array.from({ length: 40 }, () => {
    const client = net.connect(socket);
    client.on('data', (data) => answers.push(String(data)));
    client.on('error', () => {});
    client.write(
      'POST /any HTTP/1.1\r\nhost: x\r\nx-neutron-network-id: net-A\r\nx-forwarded-for: 10.0.0.5\r\ncontent-length: 100\r\n\r\nx',
    );
    return client;
  });
  t.teardown(() => {
    for (const client of held) client.destroy();
  });
  await until('the refusals', () => answers.length === 8);
  t.true(answers.every((it) => statusOf(it) === '429'));
  t.is(statusOf(await ask('net-A', '10.0.0.5')), '429');
  t.is(statusOf(await ask('net-B', '10.0.0.5')), '200');
  t.is(nova.length, 1);
});

// The agent ends an unfinished body after ten seconds. Before that, the test opens a thousand
// connections, so no other test runs at the same time in this process.
test.serial(
  'unfinished bodies of the guests of one project leave requests of an agent to others',
  async (t) => {
    const folder = temporaryDirectory(t);
    const nova = createServer((_request, response) => response.end('{}'));
    await new Promise<void>((resolve) => nova.listen(0, '127.0.0.1', resolve));
    t.teardown(() => nova.close());
    const { port } = nova.address() as AddressInfo;
    const socket = path.join(folder, 'metadata.sock');
    const agent = await startMetadataAgent({
      socket,
      nova: { url: `http://127.0.0.1:${port}`, secret: novaSecret },
      master: { url: 'http://127.0.0.1:1', name: 'net-1', secret },
      find: async ([network = ''], address) => ({ project: network, instance: address }),
      log: createSilentLogger(),
      now: Date.now,
    });
    t.teardown(() => agent.close());
    let refused = 0;
    const { total = 0, timesFree = 0 } = guestLimits.agentProjectRequests;
    const ofOne = (total * timesFree) / (timesFree + 1);
    const held: net.Socket[] = [];
    t.teardown(() => {
      for (const client of held) client.destroy();
    });
    for (let index = 0; index < ofOne + 20; index += 1) {
      const client = net.connect(socket);
      held.push(client);
      client.on('data', (data) => {
        if (statusOf(String(data)) === '429') refused += 1;
      });
      client.on('error', () => {});
      client.write(
        `POST /any HTTP/1.1\r\nhost: x\r\nx-neutron-network-id: a\r\nx-forwarded-for: 10.0.0.${1 + (index % 64)}\r\ncontent-length: 100\r\n\r\nx`,
      );
      // The queue of connections that the agent has not accepted yet is short.
      await once(client, 'connect');
    }
    await until('the refusals', () => refused >= 20);
    const ask = (network: string): Promise<string> =>
      sendToSocket(
        socket,
        `GET /any HTTP/1.1\r\nhost: x\r\nx-neutron-network-id: ${network}\r\nx-forwarded-for: 10.0.0.200\r\nconnection: close\r\n\r\n`,
      );
    t.is(statusOf(await ask('a')), '429');
    t.is(statusOf(await ask('b')), '200');
    t.is(refused, 20);
  },
);

test('a response that a guest does not read counts towards its limit until the guest is gone', async (t) => {
  const folder = temporaryDirectory(t);
  const large = 'x'.repeat(4_194_304);
  const nova = createServer((_request, response) => response.end(large));
  await new Promise<void>((resolve) => nova.listen(0, '127.0.0.1', resolve));
  t.teardown(() => nova.close());
  const { port } = nova.address() as AddressInfo;
  const socket = path.join(folder, 'metadata.sock');
  const agent = await startMetadataAgent({
    socket,
    nova: { url: `http://127.0.0.1:${port}`, secret: novaSecret },
    master: { url: 'http://127.0.0.1:1', name: 'net-1', secret },
    find: async ([network = ''], address) => ({ project: network, instance: address }),
    log: createSilentLogger(),
    now: Date.now,
  });
  t.teardown(() => agent.close());
  const ask = async (address: string): Promise<{ status: string; client: net.Socket }> => {
    const client = net.connect(socket);
    t.teardown(() => client.destroy());
    client.write(
      `GET /any HTTP/1.1\r\nhost: x\r\nx-neutron-network-id: a\r\nx-forwarded-for: ${address}\r\n\r\n`,
    );
    const [first] = await once(client, 'data');
    client.pause();
    return { status: statusOf(String(first)), client };
  };
  const { perOwner = 0 } = guestLimits.agentRequests;
  const held: net.Socket[] = [];
  for (let index = 0; index < perOwner; index += 1) {
    const { status, client } = await ask('10.0.0.5');
    t.is(status, '200');
    held.push(client);
  }
  t.is((await ask('10.0.0.5')).status, '429');
  t.is((await ask('10.0.0.6')).status, '200');
  for (const client of held) client.destroy();
  let status = '429';
  while (status === '429') ({ status } = await ask('10.0.0.5'));
  t.is(status, '200');
});

test('the master accepts a request of an agent once, while it is fresh, and for the given project', async (t) => {
  const { stage, socket } = await startLab(t);
  t.is(statSync(socket).mode & 0o777, 0o600);
  await stage.guest('a.minion', { project: 'p1', instance: instanceA });
  const request = { method: 'GET', path: '/bridge/v1/guest/peers', body: new Uint8Array() };
  const own = { instance: instanceA, project: 'p1' };
  const agent = { name: 'net-1', secret };
  const signed = (more: object = {}, at = stage.clock.now, by = agent): string =>
    signAgentRequest(by, { ...own, ...more }, request, at);
  const ask = async (header: string, place = request.path): Promise<number> =>
    (await stage.call({ path: place, headers: { [agentHeader]: header } })).status;
  const once = signed();
  t.is(await ask(once), 200);
  t.is(await ask(once), 401);
  t.is(await ask(signed({}, stage.clock.now - 61_000)), 401);
  t.is(await ask(signed({}, stage.clock.now + 61_000)), 401);
  t.is(
    await ask(signed({}, undefined, { name: 'net-1', secret: 'another secret of somebody' })),
    401,
  );
  t.is(await ask(signed({}, undefined, { name: 'net-2', secret })), 401);
  t.is(await ask(signed(), '/bridge/v1/guest/peers?together=true'), 401);
  t.is(await ask(signed().replace(';p1;', ';p2;')), 401);
  t.is(await ask(signed({ project: 'p2' })), 404);
  t.is(await ask(signed({ instance: 'nobody' })), 404);
  // The signature for Nova is not valid for the master.
  t.is(await ask('d4db688ef1e8d70144c215f218e21de46d70f08b2b5281eea8d04e2374b00f09'), 401);
});

test('a weak secret and an invalid secret file are refused at the start', async (t) => {
  const { folder } = await startLab(t);
  const log = createSilentLogger();
  const find = async (): Promise<undefined> => undefined;
  const other = path.join(folder, 'other.sock');
  for (const [nova, master, message] of [
    ['', secret, /Nova's metadata proxy secret is empty/],
    [novaSecret, 'short', /at least 16 characters/],
  ] as const) {
    const started = startMetadataAgent({
      socket: other,
      nova: { url: 'http://127.0.0.1:1', secret: nova },
      master: { url: 'http://127.0.0.1:1', name: 'x', secret: master },
      find,
      now: Date.now,
      log,
    });
    await t.throwsAsync(started, { message });
  }
  mkdirSync(path.join(folder, 'b'));
  const whole = readFileSync(path.join(folder, 'agent.yaml'), 'utf8');
  const relay =
    'relay: { master: 192.0.2.1, publish_port: 4515, publish_socket: /p, ret_port: 4516, ret_socket: /r }\n';
  const relayed = path.join(folder, 'relayed.yaml');
  writeFileSync(relayed, whole + relay);
  const loaded = await loadAgentOptions(relayed, new AbortController().signal);
  t.like(loaded.relay, {
    host: '192.0.2.1',
    ports: [{ socket: '/p', port: 4515 }, { port: 4516 }],
  });
  const portless = whole + relay.replace('ret_port: 4516, ', '');
  // Abstract sockets cannot be reached from another network namespace and have no mode.
  const abstract = whole.replace(/^socket: .*/, 'socket: "\\0abstract"');
  for (const text of ['', abstract, 'socket: relative', 'socket: /x\nnova: {}\n', portless]) {
    const file = path.join(folder, 'b', 'agent.yaml');
    writeFileSync(file, text);
    const loaded = loadAgentOptions(file, new AbortController().signal);
    await t.throwsAsync(loaded, { code: 'ERR_BRIDGE_OPTIONS' });
  }
});

test('a socket of another process is replaced at the start, and gets no requests', async (t) => {
  const socket = path.join(temporaryDirectory(t), 'metadata.sock');
  let heard = 0;
  const foreign = net.createServer(() => {
    heard += 1;
  });
  await new Promise<void>((resolve) => foreign.listen(socket, resolve));
  t.teardown(() => foreign.close());
  const nowhere = { url: 'http://127.0.0.1:1', secret };
  const agent = await startMetadataAgent({
    socket,
    nova: nowhere,
    master: { ...nowhere, name: 'x' },
    find: async () => undefined,
    now: Date.now,
    log: createSilentLogger(),
  });
  t.teardown(() => agent.close());
  const lines = ['GET / HTTP/1.1', 'host: x', 'x-neutron-network-id: n', 'connection: close'];
  const text = `${lines.join('\r\n')}\r\nx-forwarded-for: 10.0.0.5\r\n\r\n`;
  t.is(statusOf(await sendToSocket(socket, text)), '404');
  t.is(heard, 0);
  t.is(statSync(socket).mode & 0o777, 0o600);
});

test('Neutron returns the port of an address in its network, or of a link-local address by its MAC', async (t) => {
  t.is(macOfLinkLocal('fe80::f816:3eff:fe4c:2c30'), 'fa:16:3e:4c:2c:30');
  t.is(macOfLinkLocal('fe80::182d:58ff:fe47:4688'), '1a:2d:58:47:46:88');
  t.is(macOfLinkLocal('fe80::1'), undefined);
  t.is(macOfLinkLocal('2001:db8::1'), undefined);
  const cloud = await startCloud(t);
  const port = (id: string, network: string, address: string): void => {
    cloud.ports.push({
      id,
      device_id: `server-of-${id}`,
      device_owner: 'compute:az1',
      project_id: 'p1',
      network_id: network,
      mac_address: 'fa:16:3e:4c:2c:30',
      security_groups: [],
      fixed_ips: [{ ip_address: address, subnet_id: 's' }],
    });
  };
  port('1', 'net-A', '10.0.0.5');
  const folder = temporaryDirectory(t);
  for (const name of ['nova', 'master']) writeFileSync(path.join(folder, name), secret);
  const file = path.join(folder, 'agent.yaml');
  writeFileSync(
    file,
    `socket: ${folder}/s
nova: { url: "http://127.0.0.1:1", secret_file: nova }
master: { url: "http://127.0.0.1:1", name: x, secret_file: master }
neutron:
  url: ${cloud.url}/network
  keystone: { url: "${cloud.url}/v3", username: u, password: p, project: s }
`,
  );
  const { find, networksOf } = await loadAgentOptions(file, new AbortController().signal);
  t.deepEqual(await find(['net-A'], '10.0.0.5'), { instance: 'server-of-1', project: 'p1' });
  t.true(cloud.asked.some((it) => it.includes('fixed_ips=ip_address%3D10.0.0.5')));
  await find(['net-A'], 'fe80::f816:3eff:fe4c:2c30');
  t.true(cloud.asked.some((it) => it.includes('mac_address=fa%3A16%3A3e%3A4c%3A2c%3A30')));
  t.is(await find(['net-B'], '10.0.0.5'), undefined);
  t.is((await find(['net-B', 'net-A'], '10.0.0.5'))?.instance, 'server-of-1');
  // Behind a router, its networks are found first, by its own ports in them.
  const interfaceIn = (network: string, owner: string): void => {
    cloud.ports.push({
      id: `interface-in-${network}`,
      device_id: 'router-1',
      device_owner: owner,
      project_id: 'p1',
      network_id: network,
      mac_address: 'fa:16:3e:00:00:01',
      security_groups: [],
      fixed_ips: [{ ip_address: '10.0.0.1', subnet_id: 's' }],
    });
  };
  interfaceIn('net-A', 'network:router_interface');
  interfaceIn('net-D', 'network:ha_router_replicated_interface');
  interfaceIn('net-E', 'network:router_gateway');
  // A tenant can set these headers.
  interfaceIn('net-F', 'compute:az1');
  t.deepEqual(await networksOf?.('router-1'), ['net-A', 'net-D']);
  t.deepEqual(await networksOf?.('router-2'), []);
  t.is((await find(['net-A', 'net-D'], '10.0.0.5'))?.instance, 'server-of-1');
  cloud.ports.length = 0;
  port('1;p2;x\r\nx', 'net-A', '10.0.0.6');
  t.is(await find(['net-A'], '10.0.0.6'), undefined);
  // Any number of requests of a guest causes one question.
  const { length } = cloud.asked;
  for (let count = 0; count < 20; count += 1) await find(['net-A'], '10.0.0.6');
  t.is(cloud.asked.length, length);
});

const program = fileURLToPath(
  new URL('../../../clients/guests/saltbridge/saltbridge-data', import.meta.url),
);
const labTest = testWhere(
  hasNamespaces && hasLabPrograms,
  'root, network namespaces, haproxy, curl',
);

labTest(
  'behind a real proxy, 10.0.0.5 in two networks means two instances, whatever their requests claim',
  async (t) => {
    const lab = await startLab(t);
    const { stage, folder, socket } = lab;
    const networks = await startNetworks(t, folder, socket);
    const run: typeof networks.run = (...args) => networks.run(...args);
    await stage.guest('a.minion', { project: 'p1', instance: instanceA });
    await stage.guest('b.minion', { project: 'p2', instance: 'instance-b' });
    await stage.bridge.data.add({
      name: 's',
      roles: {
        a: { minions: ['a.minion'], writes: { x: {} } },
        b: { minions: ['b.minion'], reads: { x: 'a/x' } },
      },
    });
    const metadata = 'http://169.254.169.254';
    t.regex(await run('A', 'curl', '-s', `${metadata}/openstack`), /"uuid":"6f1e0c1a-/);
    t.regex(await run('B', 'curl', '-s', `${metadata}/openstack`), /"uuid":"instance-b"/);
    const before = lab.nova.length;
    // Neutron's proxy keeps a header of the guest before the one that it adds.
    const status = ['-s', '-o', '/dev/null', '-w', '%{http_code}'];
    const forged = ['-H', 'X-Forwarded-For: 10.0.0.9'];
    t.is(await run('A', 'curl', ...status, ...forged, `${metadata}/openstack`), '400');
    t.is(lab.nova.length, before);
    const ids = [
      'X-Neutron-Network-ID: net-B',
      'X-Instance-ID: instance-b',
      'X-Neutron-Router-ID: r',
    ];
    const headers = ids.flatMap((it) => ['-H', it]);
    t.regex(await run('A', 'curl', '-s', ...headers, `${metadata}/openstack`), /"uuid":"6f1e0c1a-/);
    const agentForgery = ['-H', `${agentHeader}: 1;net-1;0;x;instance-b;p2;y`];
    const peers = await run('A', 'curl', '-s', ...agentForgery, `${metadata}/saltbridge/v1/peers`);
    t.regex(peers, /"self":"6f1e0c1a-/);
    // Neither machine has a token.
    const conf = path.join(folder, 'conf');
    mkdirSync(conf);
    writeFileSync(path.join(conf, 'guest.conf'), `url='${metadata}/saltbridge/v1'\n`);
    const data = (network: 'A' | 'B', ...args: readonly string[]): Promise<string> =>
      run(network, 'env', `SALTBRIDGE_GUEST=${conf}`, 'sh', program, ...args);
    const reading = data('B', 'get', 'a/x', '20');
    await data('A', 'put', 'a/x', 'of A');
    t.is(await reading, 'of A');
    await t.throwsAsync(data('B', 'put', 'a/x', 'of B'), { message: /not declare that it writes/ });
  },
);

testWhere(hasNamespaces && hasRouterPrograms, 'root, network namespaces, iptables, haproxy, curl')(
  'behind the real proxy of a router, instances of both of its networks are found',
  async (t) => {
    const { folder, socket, nova } = await startLab(t);
    const router = await startRouter(t, folder, 'router-3', socket);
    t.regex(await router.curl(1), /"uuid":"instance-1"/);
    t.regex(await router.curl(2), /"uuid":"instance-2"/);
    const forged = ['X-Neutron-Network-ID: net-A', 'X-Neutron-Router-ID: router-1'];
    const headers = forged.flatMap((it) => ['-H', it]);
    t.regex(await router.curl(1, ...headers), /"uuid":"instance-1"/);
    const before = nova.length;
    const status = ['-o', '/dev/null', '-w', '%{http_code}'];
    t.is(await router.curl(1, ...status, '-H', 'X-Forwarded-For: 10.0.2.5'), '400');
    t.is(await router.curl(1, ...status, '-H', 'X-OVN-Network-ID: net-2'), '400');
    t.is(nova.length, before);
  },
);

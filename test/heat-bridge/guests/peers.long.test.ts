/**
 * Peers: an instance sees the other instances of its project, from enrolments and from the cloud.
 */

import test, { type ExecutionContext } from 'ava';
import { type CloudPort, CloudReader, type CloudServer } from '#guests/cloud/cloud-reader.ts';
import { GuestRequests } from '#guests/data-spaces/guest-requests.ts';
import { type Peer, PeerDirectory, type PeerList } from '#guests/peers/peers.ts';
import type { Enrolment } from '#heat-bridge';
import { createSilentLogger } from '#master';
import { codeOf, type GuestMachine, type GuestStage, startGuests } from './stage.ts';
import { type StandInCloud, startCloud } from './stand-in-cloud.ts';

/**
 * Creates 500 instances in 20 projects. Each project has two networks named "private", and all
 * share "public".
 */
function fill(cloud: StandInCloud): void {
  cloud.networks.push({ id: 'public', name: 'public', project_id: 'admin' });
  cloud.subnets.push({ id: 'public-4', cidr: '203.0.113.0/24', network_id: 'public' });
  for (let project = 0; project < 20; project += 1) {
    const tenant = `project-${project}`;
    cloud.groups.push({ id: `group-${project}`, name: 'default' });
    for (const side of ['a', 'b']) {
      const network = `${tenant}-${side}`;
      cloud.networks.push({ id: network, name: 'private', project_id: tenant });
      cloud.subnets.push({ id: `${network}-4`, cidr: '10.0.0.0/24', network_id: network });
    }
    for (let index = 0; index < 25; index += 1) addServer(cloud, project, index);
  }
}

function addServer(cloud: StandInCloud, project: number, index: number, updatedAt = 0): string {
  const tenant = `project-${project}`;
  const id = `server-${project}-${index}`;
  const name = `web-${index}`;
  cloud.servers.push({ id, tenant_id: tenant, name, reservation: `r-${index % 5}`, updatedAt });
  // The addresses are equal in all projects, and in both networks of a project.
  for (const side of ['a', 'b'])
    addPort(cloud, id, tenant, `${tenant}-${side}`, `10.0.0.${index + 2}`);
  if (index === 0) addPort(cloud, id, tenant, 'public', `203.0.113.${project + 1}`);
  return id;
}

function addPort(
  cloud: StandInCloud,
  device: string,
  project: string,
  network: string,
  address: string,
): void {
  const id = `port-${cloud.ports.length}`;
  cloud.ports.push({
    id,
    device_id: device,
    device_owner: 'compute:az1',
    project_id: project,
    network_id: network,
    mac_address: 'fa:16:3e:00:00:01',
    security_groups: [`group-${project.split('-')[1]}`],
    fixed_ips: [{ ip_address: address, subnet_id: `${network}-4` }],
  });
}

async function start(
  t: ExecutionContext,
  cloud: StandInCloud,
  more: object = {},
): Promise<GuestStage> {
  const keystone = {
    url: `${cloud.url}/v3`,
    username: 'saltbridge',
    password: 'x',
    project: 'service',
  };
  const peers = {
    keystone,
    compute: { url: `${cloud.url}/compute` },
    network: { url: `${cloud.url}/network` },
    page_size: 50,
    poll_interval: 1,
    full_interval: 3600,
    ...more,
  };
  return startGuests(t, { guests: { peers } });
}

async function peersOf(stage: GuestStage, { token }: GuestMachine, query = ''): Promise<PeerList> {
  const headers = { 'x-auth-token': token };
  const answer = await stage.call({ path: `/bridge/v1/guest/peers${query}`, headers });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.json as PeerList;
}

/** Repeats a request until the response is as expected. */
async function until(
  ask: () => Promise<PeerList>,
  holds: (list: PeerList) => boolean,
): Promise<PeerList> {
  for (let tries = 0; tries < 100; tries += 1) {
    const list = await ask();
    if (holds(list)) return list;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('the peers did not become what was expected');
}

const named = (list: PeerList, id: string): Peer | undefined =>
  list.peers.find((it) => it.id === id);

test('each guest among 500 instances in 20 projects sees only its own project', async (t) => {
  const cloud = await startCloud(t);
  fill(cloud);
  const stage = await start(t, cloud);
  for (const project of [3, 7]) {
    const instance = `server-${project}-1`;
    const guest = await stage.guest(`web-1.p${project}`, {
      project: `project-${project}`,
      instance,
    });
    const list = await until(
      () => peersOf(stage, guest),
      ({ peers }) => peers.length === 24 && peers.every((it) => it.networks.length > 0),
    );
    t.like(list, { project_id: `project-${project}`, self: instance });
    t.true(list.peers.every(({ id }) => id?.startsWith(`server-${project}-`)));
    const text = JSON.stringify(list);
    for (const other of ['project-1', 'admin', 'ACTIVE'])
      t.false(text.includes(`"${other}"`), other);
    const first = named(list, `server-${project}-0`);
    t.like(first, {
      name: 'web-0',
      availability_zone: 'az1',
      reservation_id: 'r-0',
      security_groups: [{ id: `group-${project}`, name: 'default' }],
    });
    // Two networks with the same name are listed separately. A network of another project has its
    // id and name.
    t.deepEqual(
      first?.networks.map(({ id, label, addresses }) => [id, label, addresses]),
      [
        [
          `project-${project}-a`,
          'private',
          [{ address: '10.0.0.2', version: 4, cidr: '10.0.0.0/24' }],
        ],
        [
          `project-${project}-b`,
          'private',
          [{ address: '10.0.0.2', version: 4, cidr: '10.0.0.0/24' }],
        ],
        [
          'public',
          'public',
          [{ address: `203.0.113.${project + 1}`, version: 4, cidr: '203.0.113.0/24' }],
        ],
      ],
    );
    const together = await peersOf(stage, guest, '?together=true');
    t.deepEqual(new Set(together.peers.map((it) => it.reservation_id)), new Set(['r-1']));
    t.is(together.peers.length, 4);
  }
  t.true(cloud.asked.filter((it) => it.startsWith('/compute')).length >= 10);
});

test('the next poll reads only changes, and sees instances started or deleted later', async (t) => {
  const cloud = await startCloud(t);
  fill(cloud);
  const stage = await start(t, cloud);
  const guest = await stage.guest('web-1.p3', { project: 'project-3', instance: 'server-3-1' });
  const list = (): Promise<PeerList> => peersOf(stage, guest);
  await until(list, ({ peers }) => peers.length === 24);
  const before = cloud.asked.length;
  const added = addServer(cloud, 3, 30, Date.now());
  const gone = cloud.servers.find(({ id }) => id === 'server-3-0');
  if (gone !== undefined) Object.assign(gone, { isDeleted: true, updatedAt: Date.now() });
  const now = await until(list, (it) => named(it, added) !== undefined);
  t.is(named(now, 'server-3-0'), undefined);
  t.is(named(now, added)?.networks.length, 2);
  const later = cloud.asked.slice(before).filter((it) => it.startsWith('/compute'));
  t.true(later.every((it) => it.includes('changes-since=')));
  t.true(cloud.asked.slice(before).some((it) => it.includes(`device_id=${added}`)));
});

test('instances of a cell that is down keep their last state, and others are updated', async (t) => {
  const cloud = await startCloud(t);
  fill(cloud);
  const stage = await start(t, cloud, { full_interval: 1 });
  const guest = await stage.guest('web-1.p3', { project: 'project-3', instance: 'server-3-1' });
  const list = (): Promise<PeerList> => peersOf(stage, guest);
  await until(list, ({ peers }) => peers.length === 24);
  for (let index = 10; index < 25; index += 1) cloud.down.add(`server-3-${index}`);
  cloud.down.add('server-3-40');
  addServer(cloud, 3, 40);
  addServer(cloud, 3, 41);
  const now = await until(list, (it) => named(it, 'server-3-41') !== undefined);
  t.is(now.peers.length, 26);
  t.is(named(now, 'server-3-12')?.name, 'web-12');
  // The ports of an instance that was never known are in Neutron.
  t.like(named(now, 'server-3-40'), { id: 'server-3-40', networks: [{ label: 'private' }] });
});

test('a failed service changes nothing, and an expired token is renewed', async (t) => {
  const cloud = await startCloud(t);
  fill(cloud);
  const stage = await start(t, cloud, { full_interval: 1 });
  const guest = await stage.guest('web-1.p3', { project: 'project-3', instance: 'server-3-1' });
  const list = (): Promise<PeerList> => peersOf(stage, guest);
  await until(list, ({ peers }) => peers.length === 24);
  cloud.isNetworkDown = true;
  cloud.token = 'token-2';
  addServer(cloud, 3, 50);
  const before = cloud.asked.length;
  await until(list, () => cloud.asked.slice(before).some((it) => it.startsWith('/network')));
  t.is((await list()).peers.length, 24);
  cloud.isNetworkDown = false;
  const now = await until(list, (it) => named(it, 'server-3-50') !== undefined);
  t.is(now.peers.length, 25);
});

test("a port with a device id set by a tenant is not attributed to another project's instance", async (t) => {
  const cloud = await startCloud(t);
  fill(cloud);
  addPort(cloud, 'server-3-0', 'project-5', 'project-5-a', '10.66.66.66');
  const stage = await start(t, cloud);
  const guest = await stage.guest('web-1.p3', { project: 'project-3', instance: 'server-3-1' });
  const list = await until(
    () => peersOf(stage, guest),
    (it) => (named(it, 'server-3-0')?.networks.length ?? 0) > 0,
  );
  t.false(JSON.stringify(list).includes('10.66.66.66'));
});

test('the second machine sees the first as soon as that is enrolled, without any cloud', async (t) => {
  const stage = await startGuests(t);
  const first = await stage.guest('one', { instance: 'i-1' });
  await stage.guest('elsewhere', { project: 'p2', instance: 'i-9' });
  const second = await stage.guest('two', { instance: 'i-2' });
  t.deepEqual(await peersOf(stage, second), {
    project_id: 'p1',
    self: 'i-2',
    peers: [{ id: 'i-1', minion: 'one', security_groups: [], networks: [] }],
  });
  t.is((await peersOf(stage, first)).peers[0]?.minion, 'two');
  await stage.bridge.enroll.retire({ id: 'two' });
  t.deepEqual((await peersOf(stage, first)).peers, []);
  const pillar = JSON.stringify(await stage.master.pillar.show({ minion: 'one' }));
  t.regex(pillar, /"peers":\{"project_id":"p1","self":"i-1","peers":\[\]\}/);
  t.notRegex(JSON.stringify(await stage.master.pillar.show({ minion: 'nobody' })), /peers/);
});

test('lists of peers that a process of a guest requests leave the pillar of its machine complete', async (t) => {
  const stage = await startGuests(t);
  const guest = await stage.guest('one', { instance: 'i-1' });
  const headers = { 'x-auth-token': guest.token };
  const codes = new Set<unknown>();
  for (let count = 0; count < 80; count += 1) {
    const asked = await stage.call({ path: '/bridge/v1/guest/peers', headers });
    if (asked.status !== 200) codes.add(codeOf(asked));
  }
  t.deepEqual([...codes], ['ERR_DATA_BUSY']);
  const pillar = JSON.stringify(await stage.master.pillar.show({ minion: 'one' }));
  t.regex(pillar, /"peers":\{"project_id":"p1"/);
  t.notRegex(pillar, /_errors/);
});

test('peers require a rule and a token', async (t) => {
  const stage = await startGuests(t, { rules: [] });
  const guest = await stage.guest('one');
  const asked = await stage.call({
    path: '/bridge/v1/guest/peers',
    headers: { 'x-auth-token': guest.token },
  });
  t.is(asked.status, 403);
  t.is(codeOf(asked), 'ERR_DENIED');
  t.is((await stage.call({ path: '/bridge/v1/guest/peers' })).status, 401);
});

test('a response contains only peers enrolled for the same project', (t) => {
  const ids = Array.from({ length: 1_200 }, (_, at) => `i${at}`);
  let made = 0;
  class CountedPorts extends Map<string, readonly CloudPort[]> {
    override get(id: string): readonly CloudPort[] | undefined {
      made += 1;
      return super.get(id);
    }
  }
  const own: Enrolment = {
    ...{ number: '1', id: 'web1', project: 'p', instance: 'i0', protocol: 3, createdAt: 1 },
    by: 'claim',
    state: 'accepted',
  };
  const asked: string[] = [];
  const directory = new PeerDirectory({
    liveOf: () => own,
    liveOfInstance: () => [],
    acceptedOfProject: (project) => {
      asked.push(project);
      return [own];
    },
  });
  const server = { project: 'p', securityGroups: [], isDeleted: false };
  const networks = { labels: new Map(), cidrs: new Map(), securityGroups: new Map() };
  const reservation = (id: string): string => (id < 'i2' ? 'r1' : 'r2');
  const servers = new Map(
    ids.map((id) => [id, { ...server, id, reservation: reservation(id) }] as const),
  );
  directory.cloud = { servers, ports: new CountedPorts(), networks };
  const list = directory.of('web1', () => undefined);
  t.deepEqual([list.peers.length, list.truncated, made, asked], [1_000, true, 1_000, []]);
  made = 0;
  const together = directory.of('web1', () => undefined, true);
  t.deepEqual([together.truncated, together.peers.length], [undefined, made]);
  t.true(together.peers.every((it) => it.reservation_id === 'r1'));
});

test('a list of peers reads as many machines as it shows, however many the project has', (t) => {
  let read = 0;
  const all = Array.from(
    { length: 15_000 },
    (_, at): Enrolment => ({
      ...{ number: `${at}`, id: `m${at}`, project: 'p', instance: `i${at}` },
      ...{ protocol: 3, createdAt: 1, by: 'claim', state: 'signed-in' },
    }),
  );
  const byId = new Map(all.map((it) => [it.id, it]));
  const byInstance = new Map(all.map((it) => [it.instance, [it]]));
  function* counted<Value>(values: Iterable<Value>): Generator<Value> {
    for (const value of values) {
      read += 1;
      yield value;
    }
  }
  const directory = new PeerDirectory({
    liveOf: (id) => byId.get(id),
    liveOfInstance: (instance) => counted(byInstance.get(instance) ?? []),
    acceptedOfProject: () => counted(all),
  });
  const list = directory.of('m50', () => undefined, false, 100);
  t.deepEqual([list.peers.length, list.truncated], [100, true]);
  t.false(list.peers.some(({ minion }) => minion === 'm50'));
  t.is(read, 102);
  class CountedServers extends Map<string, CloudServer> {
    override get(id: string): CloudServer | undefined {
      read += 1;
      return super.get(id);
    }
  }
  const servers = new CountedServers();
  for (const { instance: id = '' } of all) {
    servers.set(id, { id, project: 'p', reservation: 'r', securityGroups: [], isDeleted: false });
  }
  const networks = { labels: new Map(), cidrs: new Map(), securityGroups: new Map() };
  directory.cloud = { servers, ports: new Map(), networks };
  read = 0;
  for (const isTogether of [false, true]) {
    const listed = directory.of('m50', () => undefined, isTogether, 100);
    t.deepEqual(
      [listed.peers.length, listed.truncated, listed.peers[0]?.minion],
      [100, true, 'm0'],
    );
  }
  t.true(read < 1_000, `${read} reads`);
  servers.set('i-new', { id: 'i-new', project: 'p', securityGroups: [], isDeleted: false });
  t.is(directory.of('m50', () => undefined, false, 14_998).truncated, true);
  t.is(directory.of('m50', () => undefined, false, 14_999).truncated, undefined);
});

test('peers in lists are limited for each project', async (t) => {
  const host = {
    audit: { append: () => {}, digest: async () => '' },
    decide: () => ({ effect: 'allow', rule: 'r', reason: 'x' }) as const,
    logger: createSilentLogger(),
    now: () => 0,
  };
  const peer: Peer = { security_groups: [], networks: [] };
  const requests = new GuestRequests({
    host,
    values: {
      read: () => Promise.reject(new Error('unused')),
      write: () => Promise.reject(new Error('unused')),
    },
    peers: {
      projectOf: (minion) => minion.slice(0, 1),
      of: (minion) => ({
        project_id: minion.slice(0, 1),
        peers: Array.from({ length: 1_000 }, () => peer),
      }),
    },
    addresses: async () => () => undefined,
  });
  const codes = new Set<unknown>();
  for (let at = 0; at < 2_400; at += 1) {
    await requests.peers(`a${at}`).catch((error: unknown) => codes.add(Object(error).code));
  }
  t.deepEqual([...codes], ['ERR_DATA_BUSY']);
  t.is((await requests.peers('b1')).peers.length, 1_000);
  t.is((await requests.pillarPeers('a1', 100)).project_id, 'a');
});

test('a name that Salt would interpret is not sent to peers', (t) => {
  const slot = '__slot__:salt:cmd.run(id)';
  const own: Enrolment = {
    ...{ number: '1', id: 'web1', project: 'p', instance: 'i0', protocol: 3, createdAt: 1 },
    by: 'claim',
    state: 'accepted',
  };
  const directory = new PeerDirectory({
    liveOf: () => own,
    liveOfInstance: () => [own],
    acceptedOfProject: () => [own],
  });
  const server = { id: 'i1', project: 'p', name: slot, securityGroups: [slot], isDeleted: false };
  const port = { device: 'i1', project: 'p', network: 'n1', mac: 'fa:16:3e:00:00:01' };
  const networks = {
    labels: new Map([['n1', slot]]),
    cidrs: new Map<string, string>(),
    securityGroups: new Map([['g1', slot]]),
  };
  const withGroups = (securityGroups: readonly string[]): PeerList => {
    const ports = new Map([['i1', [{ ...port, securityGroups, addresses: [] }]]]);
    directory.cloud = { servers: new Map([['i1', server]]), ports, networks };
    return directory.of('web1', () => undefined);
  };
  t.like(withGroups([]).peers[0], {
    name: '',
    security_groups: [{ name: '' }],
    networks: [{ label: '' }],
  });
  t.like(withGroups(['g1']).peers[0], { security_groups: [{ id: 'g1', name: '' }] });
});

test('a response of a service without pages is read', async (t) => {
  const ports = Array.from({ length: 150_000 }, (_, at) => ({ id: `n${at}`, name: 'n' }));
  const body = JSON.stringify({ networks: ports });
  const reader = new CloudReader({
    keystone: { url: 'http://k/v3', user: { id: 'u', password: 'p' }, project: { id: 'p' } },
    ...{ compute: 'http://nova', network: 'http://neutron', pageSize: 500 },
    ask: async ({ url }) => {
      if (url.endsWith('/auth/tokens')) {
        const headers = { 'x-subject-token': 't' };
        return { kind: 'answer', status: 201, headers, body: '{"token":{"catalog":[]}}' };
      }
      const empty = '{"subnets":[],"security_groups":[]}';
      const isNetworks = url.includes('/networks?');
      return { kind: 'answer', status: 200, headers: {}, body: isNetworks ? body : empty };
    },
  });
  t.is((await reader.networks()).labels.size, ports.length);
});

/** Notifications of Nova and Neutron. They cause the bridge to read instances again. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { instancesInNotifications } from '#guests/peers/peer-notifications.ts';
import { PeerPoller } from '#guests/peers/peer-poller.ts';
import { PeerDirectory } from '#guests/peers/peers.ts';
import { createSilentLogger } from '#master';
import { until } from '../../helpers/deadline.ts';
import type { ApiAnswer } from '../../helpers/salt-api.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { type GuestStage, startGuests } from './stage.ts';
import { type StandInCloud, startCloud } from './stand-in-cloud.ts';

const secret = 'a secret of the notification pipeline';
const id = (number: number): string =>
  `a2b4c6d8-1234-4abc-9def-${String(number).padStart(12, '0')}`;

const created = (uuid: string): object => ({
  event_type: 'instance.create.end',
  payload: { 'nova_object.data': { uuid, tenant_id: 'p9', display_name: 'a lie' } },
});

test('only the instances of each known form are read', (t) => {
  const inEnvelope = {
    'oslo.version': '2.0',
    'oslo.message': JSON.stringify(created(id(1))),
  };
  const unversioned = {
    event_type: 'compute.instance.delete.end',
    payload: { instance_id: id(2) },
  };
  const port = { event_type: 'port.update.end', payload: { port: { device_id: id(3) } } };
  const traits = [
    ['host', 1, 'x'],
    ['instance_id', 1, id(4)],
  ];
  const ofCeilometer = { event_type: 'compute.instance.create.end', traits, raw: {} };
  const list = [inEnvelope, unversioned, port, ofCeilometer, created(id(1))];
  t.deepEqual(instancesInNotifications(list), [1, 2, 3, 4].map(id));
  t.deepEqual(instancesInNotifications(inEnvelope), [id(1)]);
  for (const other of [
    undefined,
    'text',
    { 'oslo.message': '{' },
    { ...created(id(1)), event_type: 'image.create' },
    { ...created('../servers'), event_type: 'instance.create.end' },
    { event_type: 'instance.create.end', payload: { 'nova_object.data': { uuid: [id(1)] } } },
  ]) {
    t.deepEqual(instancesInNotifications([other]), [], JSON.stringify(other));
  }
  const many = Array.from({ length: 1001 }, () => created(id(1)));
  t.throws(() => instancesInNotifications(many), { code: 'ERR_ENROLL_ARGS' });
});

async function start(t: ExecutionContext): Promise<{
  readonly stage: GuestStage;
  readonly cloud: StandInCloud;
  notify(body: object, password?: string): Promise<ApiAnswer>;
}> {
  const cloud = await startCloud(t);
  const file = path.join(temporaryDirectory(t), 'notifications.secret');
  writeFileSync(file, secret, { mode: 0o600 });
  const peers = {
    keystone: { url: `${cloud.url}/v3`, username: 's', password: 'x', project: 'service' },
    compute: { url: `${cloud.url}/compute` },
    network: { url: `${cloud.url}/network` },
    poll_interval: 3600,
    notifications: { secret_file: file },
  };
  const stage = await startGuests(t, { guests: { peers } });
  return {
    stage,
    cloud,
    notify: (body, password = secret) => {
      const authorization = `Basic ${Buffer.from(`nova:${password}`).toString('base64')}`;
      const headers = { 'content-type': 'application/json', authorization };
      return stage.call({ method: 'POST', path: '/bridge/v1/notifications', headers, body });
    },
  };
}

test('an instance is a peer as soon as a notification has named it, with the data from Nova', async (t) => {
  const { stage, cloud, notify } = await start(t);
  const { token } = await stage.guest('one', { project: 'p1', instance: id(1) });
  const peers = async (): Promise<string> => {
    const headers = { 'x-auth-token': token };
    return (await stage.call({ path: '/bridge/v1/guest/peers', headers })).text;
  };
  await until('the first poll', () => cloud.asked.some((it) => it.includes('security-groups')));
  const common = { tenant_id: 'p1', name: 'web-2', reservation: 'r-1' };
  // The update is older than the period that a poll requests, so it is found only by its name.
  cloud.servers.push({ ...common, id: id(2), updatedAt: 0 });
  cloud.servers.push({ ...common, id: id(3), tenant_id: 'p2', updatedAt: 0 });
  t.is((await notify(created(id(2)), 'another secret of somebody')).status, 401);
  t.is((await stage.call({ method: 'POST', path: '/bridge/v1/notifications' })).status, 401);
  t.notRegex(await peers(), /web-2/);
  t.deepEqual((await notify([created(id(2)), created(id(3)), created(id(4))])).json, {
    instances: 3,
  });
  const asked = cloud.asked.length;
  await until('the early poll', () => cloud.asked.slice(asked).some((it) => it.includes('/ports')));
  for (let text = ''; !text.includes(id(2)); ) text = await peers();
  t.notRegex(await peers(), /a lie|0003"|0004"/);
  // Even on a slow machine, this is more than the rate limit allows.
  let refused = false;
  for (let batch = 0; batch < 20 && !refused; batch += 1) {
    const answers = await Promise.all(Array.from({ length: 100 }, () => notify({})));
    refused = answers.some(({ status }) => status === 429);
  }
  t.true(refused);
});

test('a flood of notifications causes a limited number of requests, spread over the polls', async (t) => {
  const asked: string[] = [];
  const reader = {
    servers: async () => [],
    server: async (instance: string) => {
      asked.push(instance);
      return undefined;
    },
    ports: async () => [],
    networks: async () => new PeerDirectory(nobody).cloud.networks,
  };
  const times = { intervalMs: 3_600_000, fullIntervalMs: 3_600_000, now: () => Date.now() };
  const directory = new PeerDirectory(nobody);
  const poller = new PeerPoller({ reader, directory, ...times, log: createSilentLogger() });
  await poller.poll();
  poller.noteChanged(Array.from({ length: 5000 }, (_, index) => id(index)));
  await poller.poll();
  t.is(asked.length, 100);
  for (let polls = 0; polls < 15; polls += 1) await poller.poll();
  t.is(new Set(asked).size, 1000);
  t.is(asked.length, 1000);
});

const nobody = { liveOf: () => undefined, liveOfInstance: () => [], acceptedOfProject: () => [] };

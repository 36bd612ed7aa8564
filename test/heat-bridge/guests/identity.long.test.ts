/**
 * Enrolment by identity: the data that an instance receives through a metadata agent if a rule
 * matches it.
 */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  type AgentInstance,
  agentHeader,
  signAgentRequest,
} from '#guests/metadata-agent/agent-credentials.ts';
import { IdentityEnrolment } from '#guests/metadata-agent/identity.ts';
import { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { createSilentLogger } from '#master';
import { checkServerConfig } from '#server';
import { auditRecords } from '../../helpers/audit-records.ts';
import { until } from '../../helpers/deadline.ts';
import { type ApiAnswer, json } from '../../helpers/salt-api.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { configDirectory } from '../../master/config/files.ts';
import { fingerOf } from '../enroll/stage.ts';
import { codeOf, type GuestStage, sendToSocket, startGuests } from './stage.ts';
import { type StandInCloud, startCloud } from './stand-in-cloud.ts';

const secret = 'the secret of the agent of these networks';
const web = { instance: '6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6', project: 'p1' };
const userDataPath = '/bridge/v1/guest/user-data';

interface Stage extends Omit<GuestStage, 'ask'> {
  readonly cloud: StandInCloud;
  /** Sends a request like an agent does. */
  ask(asking?: AgentInstance, agent?: string): Promise<ApiAnswer>;
  claim(ticket: string, id: string, instance: string): Promise<ApiAnswer>;
}

async function start(t: ExecutionContext, identity: object | undefined): Promise<Stage> {
  const cloud = await startCloud(t);
  const file = path.join(temporaryDirectory(t), 'agent.secret');
  writeFileSync(file, secret, { mode: 0o600 });
  const user = { username: 'saltbridge', password: 'x', project: 'service' };
  const peers = {
    keystone: { url: `${cloud.url}/v3`, ...user },
    compute: { url: `${cloud.url}/compute` },
    network: { url: `${cloud.url}/network` },
    poll_interval: 3600,
  };
  const agents = { 'net-1': { secret_file: file }, 'net-2': { secret_file: file } };
  const guests = { agents, peers, ...(identity && { identity }) };
  const stage = await startGuests(t, { guests, startAt: Date.UTC(2026, 0, 1, 12) });
  return {
    ...stage,
    cloud,
    ask: (asking = web, name = 'net-1') => {
      const request = { method: 'GET', path: userDataPath, body: new Uint8Array() };
      const signed = signAgentRequest({ name, secret }, asking, request, stage.clock.now);
      return stage.call({ path: userDataPath, headers: { [agentHeader]: signed } });
    },
    claim: (ticket, id, instance) =>
      stage.call({
        method: 'POST',
        path: '/bridge/v1/enroll/claim',
        headers: json(),
        body: { ticket, id, instance, fingerprint: fingerOf('minion') },
      }),
  };
}

/** Starts an instance in the simulated cloud. */
function boot(
  { servers, ports }: StandInCloud,
  { instance, project }: AgentInstance,
  { name = 'web', network = 'net-A', image = 'debian-12', portOf = project } = {},
): void {
  const common = { tenant_id: project, reservation: 'r', updatedAt: 0 };
  servers.push({ id: instance, name, image, ...common });
  ports.push({
    id: `port-${instance}`,
    device_id: instance,
    device_owner: 'compute:az1',
    project_id: portOf,
    network_id: network,
    mac_address: 'fa:16:3e:4c:2c:30',
    security_groups: [],
    fixed_ips: [{ ip_address: '10.0.0.5', subnet_id: 's' }],
  });
}

/** Returns the ticket in user-data. */
function ticketIn({ text }: ApiAnswer): string {
  const [, ticket = ''] = /ticket='([^']+)'/.exec(text) ?? [];
  return ticket;
}

/** Whether the response is the one for an instance without any enrolment. */
function isUnknown({ status, json: body }: ApiAnswer): boolean {
  const error = { code: 'ERR_ENROLL_UNKNOWN', message: 'the instance is not enrolled' };
  return status === 404 && JSON.stringify(body).includes(JSON.stringify(error).slice(1, -1));
}

test('an instance that matches a rule gets its user-data until it has claimed', async (t) => {
  const stage = await start(t, {
    'web servers': { instance: { project: 'p1' }, masters: ['169.254.169.254'] },
  });
  boot(stage.cloud, web);
  const answers = await Promise.all(Array.from({ length: 5 }, () => stage.ask()));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  const [ticket = '', ...others] = new Set(answers.map(ticketIn));
  t.deepEqual([ticket === '', others], [false, []]);
  const [first] = answers;
  t.regex(first?.text ?? '', /^Content-Type: multipart\/mixed/);
  // The machine can use the same path for all further requests.
  t.regex(first?.text ?? '', /saltbridge\/v1\/enroll/);
  t.notRegex(first?.text ?? '', /url='https/);
  t.regex(first?.text ?? '', /master: "169\.254\.169\.254"/);
  const { instance } = web;
  t.like(await stage.bridge.enroll.list(), [{ id: instance, instance, project: 'p1' }]);
  t.is((await stage.claim(ticket, 'web', instance)).status, 403);
  t.is((await stage.claim(ticket, instance, 'another')).status, 403);
  t.is((await stage.claim(ticket, instance, instance)).status, 200);
  const lookedUp = stage.cloud.asked.length;
  t.true(isUnknown(await stage.ask()));
  await stage.bridge.enroll.retire({ instance });
  // The key works again after its minion was removed, because root on the instance can request it.
  t.true(isUnknown(await stage.ask()));
  t.is(stage.cloud.asked.length, lookedUp);
  t.is((await stage.bridge.enroll.list()).length, 1);
  const records = await auditRecords(stage);
  const asked = records.filter(({ action }) => action === 'enroll.asked');
  const who = { kind: 'service', name: 'net-1' };
  const entry = { who, what: 'bridge.identity', on: [instance] } as const;
  t.like(asked, [
    { ...entry, rule: 'web servers', outcome: 'permitted' },
    { ...entry, detail: 'the instance has already used its enrolment', outcome: 'denied' },
  ]);
  t.false(JSON.stringify(records).includes(ticket));
});

test('an instance of another project, image, network, zone or agent gets the reply for an unknown one', async (t) => {
  const project = 'p1';
  const base = { project, image: ['debian-12', 'debian-13'], network: 'net-A', agent: 'net-1' };
  const stage = await start(t, {
    base: { instance: { ...base, zone: 'az1' } },
    nowhere: { instance: { project: 'p3', zone: 'az9' } },
  });
  const ask = async (
    instance: string,
    given: Parameters<typeof boot>[2] & { project?: string; says?: string; agent?: string } = {},
  ): Promise<ApiAnswer> => {
    const { project: owner = project, says = owner, agent, ...more } = given;
    boot(stage.cloud, { instance, project: owner }, more);
    return stage.ask({ instance, project: says }, agent);
  };
  const refused = {
    'nobody-knows-it': await stage.ask({ instance: 'nobody', project }),
    'project-without-rule': await ask('a', { project: 'p2' }),
    // A tenant gives a port the device id of another tenant's instance. The agent ignores it.
    'project-of-another': await ask('b', { project: 'p2', says: project, portOf: project }),
    image: await ask('c', { image: 'debian-11' }),
    network: await ask('d', { network: 'net-B' }),
    // A tenant gives a port in another tenant's network the device id of its own instance.
    port: await ask('e', { network: 'net-B' }).then(() => {
      boot(stage.cloud, { instance: 'e', project }, { portOf: 'p2' });
      return stage.ask({ instance: 'e', project });
    }),
    zone: await ask('f', { project: 'p3' }),
    agent: await ask('g', { agent: 'net-2' }),
  };
  for (const [what, answer] of Object.entries(refused)) t.true(isUnknown(answer), what);
  t.is(new Set(Object.values(refused).map(({ text }) => text)).size, 1);
  t.deepEqual(await stage.bridge.enroll.list(), []);
  stage.cloud.isNetworkDown = true;
  t.true(isUnknown(await ask('h')));
  stage.cloud.isNetworkDown = false;
  t.is((await stage.ask({ instance: 'h', project })).status, 200);
});

test('two instances never share an id, and a later instance gets it after the first is retired', async (t) => {
  const stage = await start(t, { all: { instance: { project: 'p1' }, id: '{name}.{project}' } });
  const [one, two] = ['one', 'two'].map((instance) => ({ instance, project: 'p1' }));
  if (one === undefined || two === undefined) throw new TypeError('two instances');
  for (const each of [one, two]) boot(stage.cloud, each);
  boot(stage.cloud, { instance: 'odd', project: 'p1' }, { name: '../*' });
  t.true(isUnknown(await stage.ask({ instance: 'odd', project: 'p1' })));
  const answers = await Promise.all([stage.ask(one), stage.ask(two)]);
  const at = answers.findIndex(({ status }) => status === 200);
  const [first, second] = at === 0 ? [one, two] : [two, one];
  t.true(answers.some(isUnknown));
  const id = 'web.p1';
  t.like(await stage.bridge.enroll.list(), [{ id, instance: first.instance, state: 'open' }]);
  const ticket = ticketIn(answers[at] ?? (await stage.ask(first)));
  t.is((await stage.claim(ticket, id, first.instance)).status, 200);
  t.true(isUnknown(await stage.ask(second)));
  await stage.bridge.enroll.retire({ id });
  const next = await stage.ask(second);
  t.is((await stage.claim(ticketIn(next), id, second.instance)).status, 200);
  t.true(isUnknown(await stage.ask(first)));
});

test('no data from a guest changes its identity, and only agents get a reply', async (t) => {
  const stage = await start(t, { all: { instance: { project: ['p1', 'p2'] } } });
  const other = { instance: 'other', project: 'p2' };
  for (const each of [web, other]) boot(stage.cloud, each);
  const socket = path.join(temporaryDirectory(t), 's');
  const nova = { url: 'http://127.0.0.1:1', secret: 'of nova' };
  const agent = await startMetadataAgent({
    socket,
    nova,
    master: { url: `http://127.0.0.1:${stage.port}`, name: 'net-1', secret },
    find: async ([network]) => (network === 'net-A' ? web : other),
    now: () => stage.clock.now,
    log: createSilentLogger(),
  });
  t.teardown(() => agent.close());
  const request = { method: 'GET', path: userDataPath, body: new Uint8Array() };
  const forged = signAgentRequest(
    { name: 'net-1', secret: 'a secret that a guest guesses' },
    other,
    request,
    stage.clock.now,
  );
  const headers = [
    'GET /saltbridge/v1/user-data?instance=other&project=p2&id=other HTTP/1.1',
    'host: 169.254.169.254',
    `${agentHeader}: ${forged}`,
    'x-instance-id: other',
    'x-tenant-id: p2',
    'x-neutron-network-id: net-A',
    'x-forwarded-for: 10.0.0.5',
    'connection: close',
  ];
  const text = await sendToSocket(socket, `${headers.join('\r\n')}\r\n\r\n`);
  t.regex(text, /^HTTP\/1\.1 200 [\s\S]*multipart\/mixed/);
  t.like(await stage.bridge.enroll.list(), [{ id: web.instance }]);
  const twice = await sendToSocket(
    socket,
    `${headers.join('\r\n')}\r\nX-Neutron-Network-ID: B\r\n\r\n`,
  );
  t.regex(twice, /^HTTP\/1\.1 400 /);
  const guest = await stage.guest('web-9', { project: 'p2', instance: 'nine' });
  const signed = (): string =>
    signAgentRequest({ name: 'net-1', secret }, web, request, stage.clock.now);
  const once = signed();
  for (const [status, more] of [
    [401, {}],
    [401, { 'x-auth-token': guest.token }],
    [401, { [agentHeader]: forged }],
    [401, { [agentHeader]: signed().replace(';p1;', ';p2;') }],
    [200, { [agentHeader]: once }],
    [401, { [agentHeader]: once }],
  ] as const) {
    t.is((await stage.call({ path: userDataPath, headers: more })).status, status);
  }
  t.is((await stage.bridge.enroll.list()).length, 2);
});

test('an instance that asks too often must wait, and other instances need not', async (t) => {
  const stage = await start(t, { all: { instance: { project: 'p1' } } });
  boot(stage.cloud, web);
  // The rate permits 20 requests at once. A slow machine permits some more.
  const answers = await Promise.all(Array.from({ length: 80 }, () => stage.ask()));
  const refused = answers.filter(({ status }) => status === 429);
  t.is(answers.filter(({ status }) => status === 200).length, 80 - refused.length);
  t.deepEqual(new Set(refused.map(codeOf)), new Set(['ERR_EAUTH_LIMIT']));
  boot(stage.cloud, { instance: 'another', project: 'p1' });
  t.is((await stage.ask({ instance: 'another', project: 'p1' })).status, 200);
  const asked = (await auditRecords(stage)).filter(({ action }) => action === 'enroll.asked');
  t.is(asked.length, 2);
});

test('an instance may ask 20 times at once, and again every two seconds', async (t) => {
  let now = 0;
  const identity = new IdentityEnrolment({
    rules: [],
    enrolments: { isOver: async () => false, userDataFor: async () => ({ userData: 'x' }) },
    cloud: { server: async () => undefined, ports: async () => [] },
    bursts: { note: () => true },
    log: { warn: () => {} },
    monotonic: () => now,
  });
  const ask = async (instance: string): Promise<unknown> =>
    identity
      .userDataFor({ instance, project: 'p1', agent: 'net-1' })
      .catch((error: unknown) => Object(error).code);
  const asked: unknown[] = [];
  for (let count = 0; count < 22; count += 1) asked.push(await ask('one'));
  t.deepEqual(asked.slice(0, 20), Array(20).fill('ERR_ENROLL_UNKNOWN'));
  t.deepEqual(asked.slice(20), ['ERR_EAUTH_LIMIT', 'ERR_EAUTH_LIMIT']);
  t.is(await ask('another'), 'ERR_ENROLL_UNKNOWN');
  now = 2_000;
  t.is(await ask('one'), 'ERR_ENROLL_UNKNOWN');
  t.is(await ask('one'), 'ERR_EAUTH_LIMIT');
});

test('waiting requests of the instances of one project leave room for other projects', async (t) => {
  const asked: string[] = [];
  let respond = (_server: undefined): void => {};
  const response = new Promise<undefined>((resolve) => {
    respond = resolve;
  });
  const identity = new IdentityEnrolment({
    rules: [
      { name: 'all', id: '{uuid}', conditions: {}, ticketLifetime: undefined, masters: undefined },
    ],
    enrolments: { isOver: async () => false, userDataFor: async () => ({ userData: 'x' }) },
    cloud: {
      server: (instance) => {
        asked.push(instance);
        return response;
      },
      ports: async () => [],
    },
    bursts: { note: () => true },
    log: { warn: () => {} },
  });
  const ask = (instance: string, project: string): Promise<unknown> =>
    identity
      .userDataFor({ instance, project, agent: 'net-1' })
      .catch((error: unknown) => Object(error).code);
  const waiting = Array.from({ length: 750 }, (_, at) => ask(`a-${at}`, 'a'));
  t.is(await ask('a-x', 'a'), 'ERR_EAUTH_LIMIT');
  waiting.push(ask('b-1', 'b'));
  await until('the request of the other project', () => asked.includes('b-1'));
  t.is(asked.length, 13);
  respond(undefined);
  t.deepEqual(new Set(await Promise.all(waiting)), new Set(['ERR_ENROLL_UNKNOWN']));
});

test('an instance has one enrolment, whether by Nova or by itself', async (t) => {
  const stage = await start(t, { all: { instance: { project: 'p1' } } });
  boot(stage.cloud, web);
  const { instance, project } = web;
  await stage.bridge.enroll.create({ id: 'by-hand', project, instance });
  t.true(isUnknown(await stage.ask()));
  t.is((await stage.bridge.enroll.list()).length, 1);
});

test('without a rule all requests are refused', async (t) => {
  for (const identity of [undefined, {}]) {
    const stage = await start(t, identity);
    boot(stage.cloud, web);
    t.is((await stage.ask()).status, 404);
    t.deepEqual(await stage.bridge.enroll.list(), []);
  }
});

test('every mistake in the rules is reported with its line', async (t) => {
  const directory = configDirectory(t, {
    master: `saltbridge:
  bridge:
    guests:
      identity:
        empty: { instance: {} }
        unknown:
          instance: { project: p1, imag: x }
        form:
          instance: { project: p1 }
          id: "{name}"
        agent:
          instance:
            agent: x
        fine: { instance: { project: [p1, p2] } }
`,
  });
  const { problems } = await checkServerConfig(directory);
  const told = problems.map(({ line, key, problem }) => {
    const [, place = key] = key.split('saltbridge:bridge:guests:identity');
    return `${line} ${place}: ${problem}`;
  });
  t.deepEqual(told, [
    '4 : `agents` is required, because only a metadata agent can request user-data for an instance',
    '4 : the section `saltbridge: bridge: enroll` with the option `masters` is required',
    '4 : the section `peers` is required, because it configures the access to Nova and Neutron',
    '5 :empty:instance: must set at least one of the conditions project, agent, image, network, zone',
    '7 :unknown:instance:imag: there is no such key; did you mean image?',
    '10 :form:id: must be {uuid} or {name}.{project}',
    '13 :agent:instance:agent: unknown metadata agent x; add it under agents',
  ]);
});

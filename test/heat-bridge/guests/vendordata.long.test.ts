/** Nova's dynamic vendordata: each instance gets one ticket, and only Nova can request it. */

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '#acl';
import { auditRecords } from '../../helpers/audit-records.ts';
import { testWhere } from '../../helpers/needs.ts';
import { type ApiAnswer, json } from '../../helpers/salt-api.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { fingerOf } from '../enroll/stage.ts';
import { keystoneSection, startKeystone, tokenOf } from '../keystone/recorded-keystone.ts';
import { codeOf, everyGuest, type GuestStage, startGuests } from './stage.ts';

const instance = '6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6';
/** A request of Nova 26. */
const asked = {
  'project-id': '7d1f0c6a5b3e4e0f9a8b7c6d5e4f3a2b',
  'instance-id': instance,
  'image-id': '0b9c8d7e-6f5a-4b3c-8d2e-1f0a9b8c7d6e',
  'user-data': 'I2Nsb3VkLWNvbmZpZwo=',
  hostname: 'web-1',
  metadata: { role: 'web', 'salt-id': 'master' },
  'boot-roles': 'member,reader',
};

const nova: PolicyRule = allow('nova', {
  subject: { project: 'databases', user: 'trove', role: 'trove-admin' },
  action: 'command',
  resource: { fun: 'bridge.vendordata' },
});

interface Stage extends GuestStage {
  post(body?: object, token?: string): Promise<ApiAnswer>;
}

async function start(
  t: ExecutionContext,
  vendordata: object = {},
  rules: readonly PolicyRule[] = [nova, everyGuest],
): Promise<Stage> {
  const keystone = await startKeystone(t);
  const stage = await startGuests(t, {
    rules,
    guests: { vendordata },
    more: { keystone: keystoneSection(keystone.url) },
  });
  return {
    ...stage,
    post: (body = asked, token = tokenOf('trove')) =>
      stage.call({ method: 'POST', path: '/bridge/v1/vendordata', headers: json(token), body }),
  };
}

/** Returns the ticket in user-data. */
function ticketIn({ json: answer }: ApiAnswer): string {
  const [, ticket = ''] = /ticket='([^']+)'/.exec(String(answer)) ?? [];
  return ticket;
}

async function claim(stage: Stage, ticket: string, more: object = {}): Promise<ApiAnswer> {
  const body = { ticket, id: instance, instance, fingerprint: fingerOf('minion'), ...more };
  const path = '/bridge/v1/enroll/claim';
  return stage.call({ method: 'POST', path, headers: json(), body });
}

test('five simultaneous requests get the same ticket, and none after its use', async (t) => {
  const stage = await start(t);
  const answers = await Promise.all(Array.from({ length: 5 }, () => stage.post()));
  t.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
  const [first] = answers;
  const ticket = ticketIn(first ?? (await stage.post()));
  t.not(ticket, '');
  t.is(new Set(answers.map(({ text }) => text)).size, 1);
  t.regex(String(first?.json), /^Content-Type: multipart\/mixed/);
  const open = await stage.bridge.enroll.list();
  t.is(open.length, 1);
  t.like(open[0], { id: instance, instance, project: asked['project-id'], state: 'open' });
  t.is((await claim(stage, ticket, { instance: 'another' })).status, 403);
  t.is((await claim(stage, ticket)).status, 200);
  t.deepEqual((await stage.post()).json, {});
  t.is((await claim(stage, ticket)).status, 403);
  // The ticket is returned again after its minion was removed, because root on the instance can
  // request it.
  await stage.bridge.enroll.retire({ instance });
  t.deepEqual((await stage.post()).json, {});
});

test("another project's enrolment that names the instance does not block it", async (t) => {
  const stage = await start(t);
  await stage.guest('named', { project: 'another', instance });
  t.not(ticketIn(await stage.post()), '');
});

test("another project's unused ticket for the id of the instance does not block it", async (t) => {
  const stage = await start(t);
  await stage.bridge.enroll.create({ id: instance, project: 'another', format: 'none' });
  t.not(ticketIn(await stage.post()), '');
});

test('the ticket is not stored, and is the same after a restart', async (t) => {
  const stage = await start(t);
  const ticket = ticketIn(await stage.post());
  for await (const { value } of stage.store.list([])) {
    t.false(Buffer.from(value).includes(ticket));
  }
  t.false(JSON.stringify(await auditRecords(stage)).includes(ticket));
  await stage.master.close();
  const keystone = await startKeystone(t);
  const { store, directory } = stage;
  const again = await startGuests(t, {
    rules: [nova],
    guests: { vendordata: {} },
    more: { keystone: keystoneSection(keystone.url) },
    store,
    directory,
  });
  const headers = json(tokenOf('trove'));
  const path = '/bridge/v1/vendordata';
  const answer = await again.call({ method: 'POST', path, headers, body: asked });
  t.is(ticketIn(answer), ticket);
});

test('only the service that a rule names gets a reply', async (t) => {
  const stage = await start(t);
  const guest = await stage.guest('web-9');
  t.is((await stage.post(asked, 'x'.repeat(40))).status, 401);
  t.is((await stage.post(asked, '')).status, 401);
  t.is((await stage.post(asked, guest.token)).status, 401);
  for (const name of ['sahara', 'tenant'] as const) {
    const refused = await stage.post(asked, tokenOf(name));
    t.is(refused.status, 403, name);
    t.is(codeOf(refused), 'ERR_DENIED');
  }
  t.false((await stage.bridge.enroll.list()).some((it) => it.instance === instance));
  const none = await start(t, {}, []);
  t.is((await none.post()).status, 403);
});

test('instances without a rule get nothing, and the guest cannot change that', async (t) => {
  const rule = allow('nova', {
    subject: { project: 'databases', user: 'trove', role: 'trove-admin' },
    action: 'command',
    resource: {
      fun: 'bridge.vendordata',
      arguments: [{ kwargs: { project: asked['project-id'], image: asked['image-id'] } }],
    },
  });
  const stage = await start(t, {}, [rule]);
  t.deepEqual((await stage.post({ ...asked, 'image-id': 'another' })).json, {});
  t.deepEqual((await stage.post({ ...asked, 'project-id': 'f'.repeat(32) })).json, {});
  t.deepEqual(await stage.bridge.enroll.list(), []);
  t.not(ticketIn(await stage.post()), '');
  // The same instance id in another project belongs to another instance.
  const wide = await start(t);
  await wide.post();
  t.deepEqual((await wide.post({ ...asked, 'project-id': 'f'.repeat(32) })).json, {});
});

test('an id from name and project is issued once, and only if it is a valid id', async (t) => {
  const stage = await start(t, { id: '{name}.{project}' });
  t.not(ticketIn(await stage.post()), '');
  const other = '11111111-2b3c-4d5e-8f90-a1b2c3d4e5f6';
  // Another instance has this name, and its id is already being enrolled.
  t.like(await stage.bridge.enroll.list(), [{ id: `web-1.${asked['project-id']}` }]);
  t.deepEqual((await stage.post({ ...asked, hostname: '../*', 'instance-id': other })).json, {});
  const second = await stage.post({ ...asked, 'instance-id': other });
  t.deepEqual(second.json, {});
  await t.throwsAsync(start(t, { id: '{name}' }), { message: /vendordata:id.*unique/ });
});

test('a ticket that was not used in time is replaced', async (t) => {
  const stage = await start(t, { ticket_lifetime: 60 });
  const first = ticketIn(await stage.post());
  stage.clock.now += 61_000;
  const next = async (): Promise<string> => ticketIn(await stage.post());
  let second = await next();
  for (let tries = 0; tries < 50 && second === first; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (tries % 5 === 0) second = await next();
  }
  t.not(second, first);
  t.is((await claim(stage, second)).status, 200);
});

test('malformed and too many requests are refused', async (t) => {
  const stage = await start(t);
  for (const body of [{}, { ...asked, 'instance-id': '../x' }, { ...asked, 'project-id': 1 }]) {
    t.is((await stage.post(body)).status, 400);
  }
  const answers = [];
  for (let count = 0; count < 25; count += 1) answers.push((await stage.post()).status);
  t.is(answers[0], 200);
  t.is(answers.at(-1), 429);
  t.is((await stage.post({ ...asked, 'instance-id': 'another' })).status, 200);
});

test('without the section, requests of Nova are refused', async (t) => {
  const stage = await startGuests(t, { rules: [nova] });
  const headers = json(tokenOf('trove'));
  const answer = await stage.call({
    method: 'POST',
    path: '/bridge/v1/vendordata',
    headers,
    body: asked,
  });
  t.is(answer.status, 404);
});

const python = '/usr/bin/python3';
const hasCloudInit = spawnSync(python, ['-c', 'import cloudinit.user_data']).status === 0;
const reader = fileURLToPath(
  new URL('../../../test/fixtures/cloud-init/vendordata.py', import.meta.url),
);

testWhere(hasCloudInit, 'the package cloud-init')(
  'cloud-init reads the answer, and its schema accepts the cloud-config in it',
  async (t) => {
    const stage = await start(t);
    const { text } = await stage.post();
    const read = spawnSync(python, [reader, temporaryDirectory(t)], { input: text });
    t.is(read.status, 0, String(read.stderr));
    const { kinds, config } = JSON.parse(String(read.stdout));
    t.deepEqual(kinds, ['text/cloud-config', 'text/x-shellscript']);
    t.like(config, { salt_minion: { conf: { id: instance, master: '127.0.0.1' } } });
  },
);

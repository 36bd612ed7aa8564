/** Callers cannot fill the audit log with requests that they repeat. */

import test from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { auditRecords } from '../helpers/audit-records.ts';
import { type ApiAnswer, json, startApi } from '../helpers/salt-api.ts';
import { codeOf, startGuests } from './guests/stage.ts';
import { keystoneSection, startKeystone, tokenOf } from './keystone/recorded-keystone.ts';
import { acl } from './stage.ts';

const project = '7d1f0c6a5b3e4e0f9a8b7c6d5e4f3a2b';

test('removals of unknown registrations write a limited number of audit records', async (t) => {
  const bridge = createBridge();
  const api = await startApi(t, {
    config: { acl: acl([]), bridge: { guests: {}, handles: {} } },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
  });
  const headers = json(await api.login('scoped'));
  for (let count = 0; count < 40; count += 1) {
    const path = `/bridge/v1/data/unknown-${count}`;
    t.is((await api.ask({ method: 'DELETE', path, headers })).status, 404);
  }
  const failed = (await auditRecords(api)).filter(({ action }) => action === 'data.remove');
  t.true(failed.length >= 20 && failed.length < 30, `${failed.length} records`);
});

test('repeated requests for enrolments and vendordata write one audit record a minute', async (t) => {
  const keystone = await startKeystone(t);
  const stage = await startGuests(t, {
    rules: [
      allow('nova', {
        subject: { project: 'databases' },
        action: 'command',
        resource: { fun: 'bridge.*' },
      }),
    ],
    guests: { vendordata: {} },
    more: { keystone: keystoneSection(keystone.url) },
  });
  const headers = json(tokenOf('trove'));
  const post = (path: string, body: object): Promise<ApiAnswer> =>
    stage.call({ method: 'POST', path: `/bridge/v1/${path}`, headers, body });
  const created = await post('enrolments', { id: 'web1', format: 'none' });
  const { number } = Object(created.json).enrolment;
  for (let count = 0; count < 10; count += 1) {
    t.is((await stage.call({ path: `/bridge/v1/enrolments/${number}`, headers })).status, 200);
    await post('enrolments', { id: 'web1', format: 'none' });
    const asked = { 'project-id': project, 'instance-id': 'i-1', hostname: 'web' };
    await post('vendordata', asked);
  }
  await post('enrolments', { id: 'web2', format: 'none' });
  const asked = (await auditRecords(stage)).filter(({ action }) => action === 'enroll.asked');
  t.deepEqual(
    asked.map(({ what, on }) => `${what} ${on}`),
    ['bridge.enroll.create web1', 'bridge.vendordata i-1', 'bridge.enroll.create web2'],
  );
});

test('new and replaced registrations of an owner are limited', async (t) => {
  const bridge = createBridge();
  const rule = allow('x', {
    subject: { user: '*' },
    action: 'command',
    resource: { fun: 'bridge.data.add' },
  });
  const api = await startApi(t, {
    config: { acl: acl([rule]), bridge: { guests: {} } },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
  });
  const [headers, other] = [json(await api.login('scoped')), json(await api.login('limited'))];
  const add = (as: typeof headers): Promise<ApiAnswer> =>
    api.ask({ method: 'POST', path: '/bridge/v1/data', headers: as, body: {} });
  const codes = new Set<unknown>();
  for (let batch = 0; batch < 200 && !codes.has('ERR_LIMIT'); batch += 1) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => add(headers)));
    for (const answer of answers) codes.add(codeOf(answer));
  }
  t.true(codes.has('ERR_LIMIT'), [...codes].join());
  t.not(codeOf(await add(other)), 'ERR_LIMIT');
});

/** Joining, connecting, revocation and renewal, on real sockets. */

import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import test from 'ava';
import { joinSite, type SiteInfo } from '#edge';
import { generateKey, publicBytesOf, signParts } from '#edge/identity/ed25519.ts';
import { joinPurpose } from '#edge/identity/join-message.ts';
import { siteDirectory } from '#edge/identity/site-identity.ts';
import { SiteRegistry } from '#edge/identity/site-registry.ts';
import { readAuditLog } from '#master';
import { makeCertificate } from '../helpers/certificate.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { memoryRows } from './bundles/tuf-stage.ts';
import {
  createTicket,
  eventually,
  siteInfo,
  siteStatus,
  startCentre,
  startMaster,
  startSite,
  stateDirOf,
} from './edge-stage.ts';
import { siteSection } from './sections.ts';

test('a site joins with a ticket, connects, and is listed', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north');
  await eventually(async () => (await siteStatus(site)).isConnected);
  const info = await siteInfo(centre, 'north');
  t.is(info.state, 'joined');
  t.true(info.isConnected);
  t.true(Math.abs(info.clockDifferenceMs ?? Infinity) < 10_000);
  const { clockDifferenceMs = Infinity, timeFloor } = await siteStatus(site);
  t.true(Math.abs(clockDifferenceMs) < 10_000);
  t.true(Math.abs(timeFloor - Date.now()) < 60_000);
  t.is(statSync(`${site.stateDir}/site/identity.json`).mode & 0o777, 0o600);
  const listed = await centre.rpc('site').call<readonly SiteInfo[]>('list');
  t.deepEqual(
    listed.map(({ name }) => name),
    ['north'],
  );
});

test('a ticket is used once, by one key', async (t) => {
  const centre = await startCentre(t);
  const { ticket } = await createTicket(centre, 'north');
  const options = { site: { name: 'north', centre: centre.url } };
  await joinSite(ticket, { stateDir: temporaryDirectory(t), ...options });
  const error = await t.throwsAsync(
    joinSite(ticket, { stateDir: temporaryDirectory(t), ...options }),
    { code: 'ERR_SITE_TICKET' },
  );
  t.regex(error.message, /already used/);
});

test('a site with a damaged identity does not use its ticket', async (t) => {
  const centre = await startCentre(t);
  const { ticket } = await createTicket(centre, 'north');
  const stateDir = temporaryDirectory(t);
  const options = { stateDir, site: { name: 'north', centre: centre.url } };
  mkdirSync(siteDirectory(stateDir));
  writeFileSync(`${siteDirectory(stateDir)}/identity.json`, '{');
  const error = await t.throwsAsync(joinSite(ticket, options), { code: 'ERR_SITE_STATE' });
  t.regex(error.message, /remove this directory/);
  rmSync(siteDirectory(stateDir), { recursive: true });
  await joinSite(ticket, options);
});

test('a repeated request of the same site is answered again', async (t) => {
  const centre = await startCentre(t);
  const { ticket } = await createTicket(centre, 'north');
  const key = generateKey();
  const body = JSON.stringify({
    ticket,
    key: publicBytesOf(key).toString('base64url'),
    proof: signParts(key, joinPurpose, [Buffer.from(ticket)]).toString('base64url'),
  });
  const headers = { 'content-type': 'application/json' };
  const join = async (): Promise<number> =>
    (await fetch(`${centre.url}/site/v1/join`, { method: 'POST', headers, body })).status;
  t.is(await join(), 200);
  const replies = await Promise.all(Array.from({ length: 10 }, join));
  t.true(replies.every((status) => status === 200));
  // The audit log contains the first request only.
  const { master } = centre.server;
  await master.audit.flush();
  const records = await Array.fromAsync(readAuditLog({ stateDir: centre.stateDir }));
  t.is(records.filter(({ action }) => action === 'site.join').length, 1);
});

test('a repeated request of the same site writes nothing', async (t) => {
  const rows = memoryRows({ now: 0 });
  let writes = 0;
  const write: typeof rows.write = (operations) => {
    writes += 1;
    return rows.write(operations);
  };
  const host = { now: () => 1, shared: { ...rows, write, follow: async () => {} } };
  const centreKey = generateKey();
  // Only these members are used.
  const sites = await SiteRegistry.open(
    host as unknown as Parameters<typeof SiteRegistry.open>[0],
    centreKey,
  );
  const request = { name: 'north', centre: 'http://127.0.0.1', lifetimeSeconds: 60 };
  const { ticket } = await sites.issue(request);
  const key = generateKey();
  const proof = signParts(key, joinPurpose, [Buffer.from(ticket)]);
  const join = () => sites.join(ticket, publicBytesOf(key), proof);
  t.deepEqual(await join(), { name: 'north', isNew: true });
  writes = 0;
  t.deepEqual(await join(), { name: 'north', isNew: false });
  t.is(writes, 0);
});

test('expired, altered and superseded tickets, and keys without their proof, are refused', async (t) => {
  const centre = await startCentre(t);
  const stateDir = temporaryDirectory(t);
  const site = { name: 'north', centre: centre.url };
  const client = centre.rpc('site');
  const short = { name: 'north', centre: centre.url, lifetimeSeconds: 1 };
  const { ticket: expired } = await client.call<{ ticket: string }>('ticket', short);
  const later = Date.now() + 5000;
  await t.throwsAsync(joinSite(expired, { stateDir, site, now: () => later }), {
    code: 'ERR_SITE_TICKET',
    message: /expired/,
  });
  const { ticket } = await createTicket(centre, 'north');
  await t.throwsAsync(joinSite(expired, { stateDir, site, now: () => 0 }), {
    code: 'ERR_SITE_TICKET',
  });
  const altered = ticket.replace(/.(?=.{20}$)/, (it) => (it === 'A' ? 'B' : 'A'));
  await t.throwsAsync(joinSite(altered, { stateDir, site }), { code: 'ERR_SITE_TICKET' });
  await t.throwsAsync(joinSite(ticket, { stateDir, site: { ...site, name: 'south' } }), {
    code: 'ERR_SITE_TICKET',
    message: /for north/,
  });
  const other = generateKey();
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({
    ticket,
    key: publicBytesOf(generateKey()).toString('base64url'),
    proof: signParts(other, joinPurpose, [Buffer.from(ticket)]).toString('base64url'),
  });
  const reply = await fetch(`${centre.url}/site/v1/join`, { method: 'POST', headers, body });
  t.is(reply.status, 403);
  t.is((await siteInfo(centre, 'north')).state, 'invited');
});

test('a site refuses the centre of another ticket', async (t) => {
  const centre = await startCentre(t);
  const other = await startCentre(t);
  const { ticket } = await createTicket(centre, 'north');
  await t.throwsAsync(
    joinSite(ticket, {
      stateDir: temporaryDirectory(t),
      site: { name: 'north', centre: other.url },
    }),
    { code: 'ERR_SITE_TICKET' },
  );
});

test('a revocation ends the connection, and the site is refused afterwards', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north');
  await eventually(async () => (await siteStatus(site)).isConnected);
  await centre.rpc('site').call('revoke', { name: 'north' });
  await eventually(async () => !(await siteStatus(site)).isConnected);
  await eventually(async () => /refused/.test((await siteStatus(site)).problem ?? ''));
  const info = await siteInfo(centre, 'north');
  t.is(info.state, 'revoked');
  t.false(info.isConnected);
});

test('a site renews its key over the connection and connects with the new one', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north');
  await eventually(async () => (await siteStatus(site)).isConnected);
  const before = readFileSync(`${site.stateDir}/site/identity.json`, 'utf8');
  const { fingerprint } = await siteInfo(centre, 'north');
  await site.rpc('edge').call('renew');
  t.not(readFileSync(`${site.stateDir}/site/identity.json`, 'utf8'), before);
  await eventually(async () => {
    const info = await siteInfo(centre, 'north');
    return info.isConnected && info.fingerprint !== fingerprint;
  });
  t.true((await siteStatus(site)).isJoined);
});

test('a site that has not joined serves minions and says what to do', async (t) => {
  const directory = temporaryDirectory(t);
  const options = { site: siteSection({ name: 'north', centre: 'http://127.0.0.1:9' }) };
  const site = await startMaster(t, options, directory);
  t.true((await site.server.master.status()).requestPort > 0);
  await eventually(async () => /site join/.test((await siteStatus(site)).problem ?? ''));
  t.false((await siteStatus(site)).isJoined);
});

test('a site connects again after its connection was lost and its centre has restarted', async (t) => {
  const directory = temporaryDirectory(t);
  const centre = await startCentre(t, {}, directory);
  const site = await startSite(t, centre, 'north');
  await eventually(async () => (await siteStatus(site)).isConnected);
  await centre.server.close();
  await eventually(async () => !(await siteStatus(site)).isConnected);
  const again = await startCentre(t, {}, directory, centre.port);
  await eventually(async () => (await siteInfo(again, 'north')).isConnected);
  t.is(stateDirOf(directory), again.stateDir);
});

test('over TLS both sides sign the keying material of the connection, and join with the CA', async (t) => {
  const directory = temporaryDirectory(t);
  const { certificate, key } = makeCertificate(directory);
  const api = { host: '127.0.0.1', hosts: ['*'], port: 0, sslCrt: certificate, sslKey: key };
  const centre = await startCentre(t, { api });
  const url = `https://localhost:${centre.port}`;
  const root = temporaryDirectory(t);
  const site = { name: 'north', centre: url, ca: certificate };
  const { ticket } = await createTicket(centre, 'north');
  await t.throwsAsync(
    joinSite(ticket, { stateDir: stateDirOf(root), site: { name: 'north', centre: url } }),
    { code: 'ERR_SITE_LINK' },
  );
  await joinSite(ticket, { stateDir: stateDirOf(root), site });
  const master = await startMaster(t, { site: siteSection(site) }, root);
  await eventually(async () => (await siteStatus(master)).isConnected);
  await eventually(async () => (await siteInfo(centre, 'north')).isConnected);
  t.pass();
});

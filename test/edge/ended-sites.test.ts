/** Rows of sites: the deletion of the data of revoked sites, and writes of repeated requests. */

import test from 'ava';
import { generateKey } from '#edge/identity/ed25519.ts';
import { SiteRegistry } from '#edge/identity/site-registry.ts';
import { sitesPrefix } from '#edge/identity/site-rows.ts';
import { memoryRows } from './bundles/tuf-stage.ts';

async function stage() {
  const shared = memoryRows({ now: 0 });
  const host = { now: () => 1, shared: { ...shared, follow: async () => {} } };
  const open = () => SiteRegistry.open(host as never, generateKey());
  const sites = await open();
  const request = { name: 'north', centre: 'https://centre.example.org', lifetimeSeconds: 60 };
  await sites.issue(request);
  return { sites, shared, open, request };
}

test('a revoked site is known as ended until its data are deleted', async (t) => {
  const { sites, open } = await stage();
  t.deepEqual(await sites.ended(), []);
  await sites.revoke('north');
  t.deepEqual(await (await open()).ended(), ['north']);
  const failure = new Error('the disk is full');
  const failed = sites.forgetEnded('north', () => Promise.reject(failure));
  t.is(await t.throwsAsync(failed), failure);
  t.deepEqual(await sites.ended(), ['north']);
  // The site is revoked again during the deletion.
  await sites.forgetEnded('north', async () => void (await sites.revoke('north')));
  t.deepEqual(await sites.ended(), ['north']);
  await sites.forgetEnded('north', async () => {});
  t.deepEqual(await sites.ended(), []);
});

test('the data of a site that is not revoked are not deleted', async (t) => {
  const { sites, request } = await stage();
  await sites.revoke('north');
  const key = Buffer.alloc(32, 1).toString('base64url');
  t.like(await sites.import('other', { name: 'north', key }, false), { result: 'refused' });
  t.deepEqual(await sites.ended(), ['north']);
  await sites.issue({ ...request, name: 'south' });
  t.like(await sites.import('other', { name: 'south', key }, false), { result: 'imported' });
  await sites.forgetEnded('south', async () => t.fail());
  await sites.forgetEnded('unknown', async () => t.fail());
});

test('a site that offers the same key again causes no write', async (t) => {
  const { sites, shared } = await stage();
  const key = Buffer.alloc(32, 1).toString('base64url');
  await sites.import('other', { name: 'south', key }, false);
  await sites.authenticate('south', () => true);
  const next = Buffer.alloc(32, 2);
  await sites.offerKey('south', next);
  const revision = async () => (await shared.get([...sitesPrefix, 'south']))?.revision;
  const before = await revision();
  await sites.offerKey('south', next);
  t.is(await revision(), before);
  await sites.offerKey('south', Buffer.alloc(32, 3));
  t.not(await revision(), before);
});

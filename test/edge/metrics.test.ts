/** Metrics of a centre about its sites. */

import test from 'ava';
import { contactAgeOf } from '#edge/identity/contact-age.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { eventually, type StageMaster, siteInfo, startCentre } from './edge-stage.ts';
import { joinRaw, RawLink } from './raw-site.ts';

/** Returns the samples of a metric by the value of its label. */
async function samplesOf({ server }: StageMaster, name: string): Promise<Record<string, number>> {
  const families = await server.master.metrics();
  const family = families.find((it) => it.name === `saltbridge_${name}`);
  const samples = family !== undefined && 'samples' in family ? family.samples : [];
  return Object.fromEntries(samples.map((it) => [Object.values(it.labels).join(), it.value]));
}

test('the centre counts sites by the age of their last contact, also after a restart', async (t) => {
  const directory = temporaryDirectory(t);
  const centre = await startCentre(t, {}, directory);
  const north = await joinRaw(t, centre, 'north');
  await joinRaw(t, centre, 'south');
  const link = await RawLink.signIn(t, centre, north);
  t.true(await link.isWelcome());
  const expected = { recent: 1, hour: 0, day: 0, week: 0, older: 0, never: 1 };
  t.deepEqual(await samplesOf(centre, 'sites_by_contact'), expected);
  link.socket.terminate();
  await eventually(async () => !(await siteInfo(centre, 'north')).isConnected);
  t.deepEqual(await samplesOf(centre, 'sites_by_contact'), expected);
  await centre.server.close();
  const again = await startCentre(t, {}, directory);
  t.deepEqual(await samplesOf(again, 'sites_by_contact'), expected);
  t.is(typeof (await siteInfo(again, 'north')).lastContactAt, 'number');
});

test('without a release, no site is behind', async (t) => {
  const centre = await startCentre(t);
  await joinRaw(t, centre, 'north');
  const none = { current: 0, refused: 0, behind: 0, away: 0, waiting: 0 };
  t.deepEqual(await samplesOf(centre, 'sites_by_release'), none);
});

test('a contact has the first age that contains it', (t) => {
  const [minute, now] = [60_000, 1e12];
  const ages = [0, 10, 11, 60, 61, 1440, 1441, 10_080, 10_081].map((minutes) =>
    contactAgeOf(now - minutes * minute, now),
  );
  const expected = ['recent', 'recent', 'hour', 'hour', 'day', 'day', 'week', 'week', 'older'];
  t.deepEqual(ages, expected);
  t.is(contactAgeOf(now + minute, now), 'recent');
  t.is(contactAgeOf(undefined, now), 'never');
});

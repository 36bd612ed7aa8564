/** A site that gets another centre by a statement, with two centres on real sockets. */

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  createRoot,
  createSigningKey,
  type NextCentre,
  type OrderReport,
  type ReleaseState,
  readRoot,
  readStatement,
  type StatementInfo,
} from '#edge';
import { generateKey } from '#edge/identity/ed25519.ts';
import { type SiteIdentity, SiteIdentityFile } from '#edge/identity/site-identity.ts';
import { endpointsOf } from '#edge/link/centre-endpoint.ts';
import { nextTrust, withNextCentre } from '#edge/rehoming/change-centre.ts';
import { signLeave } from '#edge/rehoming/leave-message.ts';
import { freePort } from '../../../bench/free-port.ts';
import { EmbeddedMinions } from '../../../examples/embedded-minions.ts';
import { makeCertificate } from '../../helpers/certificate.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { initKeys, type OfflineKeys, publish, writeFiles } from '../bundles/release-stage.ts';
import {
  type Centre,
  eventually,
  isServing,
  type StageMaster,
  siteInfo,
  siteStatus,
  startCentre,
  startMaster,
  startSite,
} from '../edge-stage.ts';
import { joinRaw } from '../raw-site.ts';
import { siteSection, sitesSection, testsOfCentre } from '../sections.ts';
import {
  copySites,
  importSites,
  offerOf,
  publishStatement,
  statementOf,
} from './rehoming-stage.ts';
import { onlineKeyOf, startRogue } from './rogue-centre.ts';

interface Stage {
  readonly old: Centre;
  readonly next: Centre;
  readonly keys: OfflineKeys;
}

async function startCentres(t: ExecutionContext): Promise<Stage> {
  const old = await startCentre(t);
  const next = await startCentre(t);
  const keys = await initKeys(old, 'centre-1');
  await initKeys(next, 'centre-2');
  return { old, next, keys };
}

async function startJoined(
  t: ExecutionContext,
  centre: Centre,
  options: Parameters<typeof startSite>[3] = {},
): Promise<StageMaster> {
  const site = await startSite(t, centre, 'north', options);
  await eventually(async () => (await siteStatus(site)).isConnected, 'the first connection');
  return site;
}

/** Waits until the site has the centre, and is connected to it. */
function movedTo(site: StageMaster, centre: Centre): Promise<void> {
  return eventually(async () => {
    const { centre: address, isConnected } = await siteStatus(site);
    return address === centre.url && isConnected;
  }, 'the connection to the next centre');
}

async function identityIn({ stateDir }: StageMaster): Promise<SiteIdentity> {
  const identity = await new SiteIdentityFile(`${stateDir}/site`).read();
  if (identity === undefined) throw new Error('the site has no identity');
  return identity;
}

async function holds(centre: Centre): Promise<void> {
  await eventually(async () => {
    const [info] = await centre.rpc('site').call<readonly StatementInfo[]>('rehome.statements');
    return info?.replies.some(({ state }) => state === 'held') === true;
  }, 'the site holds the statement');
}

function eventsOf(centre: Centre, kind = 'event'): Promise<readonly Entry[]> {
  return centre.rpc('site').call<readonly Entry[]>('entries', { name: 'north', kind });
}

interface Entry {
  readonly value: { readonly tag?: string; readonly action?: string; readonly what?: string };
}

// EDGE-C15 of docs/consistency.md
test('a site changes to the centre of a statement at once, while its centre lives', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const site = await startJoined(t, old);
  t.deepEqual(await copySites(old, next), [{ name: 'north', result: 'imported' }]);
  t.like(await siteInfo(next, 'north'), { state: 'expected', from: { centre: 'centre-1' } });
  await publishStatement(old, statementOf(await offerOf(next), keys.root.slice(0, 2)));
  await movedTo(site, next);
  t.like(await siteInfo(next, 'north'), { state: 'joined', from: { centre: 'centre-1' } });
  await eventually(
    async () => (await siteInfo(old, 'north')).state === 'rehomed',
    'the old centre',
  );
  t.like(await siteInfo(old, 'north'), { to: { centre: 'centre-2' }, isConnected: false });
  const tags = async (): Promise<readonly (string | undefined)[]> =>
    (await eventsOf(next)).map(({ value }) => value.tag);
  await eventually(async () => (await tags()).includes('rehomed'), 'the alarm');
  const audit = async (): Promise<readonly Entry[]> => eventsOf(next, 'audit');
  await eventually(async () => {
    const found = (await audit()).find(({ value }) => value.action === 'site.rehome');
    return found?.value.what === 'centre-1 to centre-2';
  }, 'the audit record of the change');
});

// EDGE-C15 and EDGE-C16 of docs/consistency.md
test('a site whose centre is gone tries the next centre, and its log continues there', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const site = await startJoined(t, old, { autoAccept: true, site: { alarms: ['fire/*'] } });
  const minions = new EmbeddedMinions();
  t.teardown(() => minions.close());
  const { requestPort } = await site.server.master.status();
  await (await minions.start({ directory: site.directory, requestPort }, 'web1')).connected;
  await site.server.master.events.fire('fire/1', {});
  const alarms = async (centre: Centre): Promise<readonly string[]> =>
    (await eventsOf(centre)).flatMap(({ value }) => value.tag ?? []).toSorted();
  await eventually(async () => (await alarms(old)).includes('fire/1'), 'the first alarm');
  await copySites(old, next);
  await publishStatement(
    old,
    statementOf(await offerOf(next), keys.root.slice(1), { afterSeconds: 2 }),
  );
  await holds(old);
  t.is((await siteStatus(site)).centre, old.url);
  await old.server.close();
  await site.server.master.events.fire('fire/2', {});
  await movedTo(site, next);
  await site.server.master.events.fire('fire/3', {});
  // What the old centre has acknowledged is not sent again; everything else arrives once.
  await eventually(async () => (await alarms(next)).includes('fire/3'), 'the last alarm');
  t.deepEqual(await alarms(next), ['fire/2', 'fire/3', 'rehomed']);
  // Facts and claims of keys are reported again.
  await eventually(async () => {
    const found = await Array.fromAsync(next.rpc('site').stream<{ minion: string }>('minions'));
    return found.some(({ minion }) => minion === 'web1');
  }, 'the facts');
  await eventually(async () => {
    const claims = await next.rpc('site').call<readonly { id: string }[]>('releases.claims');
    return claims.some(({ id }) => id === 'web1');
  }, 'the claims');
});

// EDGE-C15 of docs/consistency.md
test('a centre that was restored at another address gets its sites, and their logs', async (t) => {
  const directory = temporaryDirectory(t);
  const old = await startCentre(t, {}, directory);
  const keys = await initKeys(old, 'centre-1');
  const site = await startJoined(t, old, { site: { alarms: ['fire/*'] } });
  await site.server.master.events.fire('fire/1', {});
  const has = (centre: Centre, tag: string) => async (): Promise<boolean> =>
    (await eventsOf(centre)).some(({ value }) => value.tag === tag);
  await eventually(has(old, 'fire/1'), 'the first alarm');
  const port = await freePort();
  const spare = `http://127.0.0.1:${port}`;
  const text = statementOf(await offerOf(old, [spare]), keys.root.slice(0, 2), { afterSeconds: 1 });
  await old.server.close();
  const backup = temporaryDirectory(t);
  cpSync(directory, backup, { recursive: true });
  const again = await startCentre(t, {}, directory, old.port);
  await eventually(async () => (await siteInfo(again, 'north')).isConnected, 'the old centre');
  await publishStatement(again, text);
  await holds(again);
  await site.server.master.events.fire('fire/2', {});
  await eventually(has(again, 'fire/2'), 'the second alarm');
  await again.server.close();
  const restored = await startCentre(t, {}, backup, port);
  await movedTo(site, restored);
  await site.server.master.events.fire('fire/3', {});
  await eventually(has(restored, 'fire/3'), 'the third alarm');
  const tags = (await eventsOf(restored)).map(({ value }) => value.tag).toSorted();
  // The alarm between the backup and the loss of the old centre is not known.
  t.deepEqual(tags, ['fire/1', 'fire/3', 'rehomed']);
  t.is((await siteInfo(restored, 'north')).state, 'joined');
});

test('a site reaches its next centre with a key that it had when it was exported', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const site = await startJoined(t, old);
  await copySites(old, next);
  await site.rpc('edge').call('renew');
  const { fingerprint: exported } = await siteInfo(next, 'north');
  await eventually(async () => {
    const info = await siteInfo(old, 'north');
    return info.isConnected && info.fingerprint !== exported;
  }, 'the new key at the old centre');
  const { fingerprint } = await siteInfo(old, 'north');
  await publishStatement(old, statementOf(await offerOf(next), keys.root));
  await eventually(async () => {
    const info = await siteInfo(next, 'north');
    return info.isConnected && info.fingerprint === fingerprint;
  }, 'the present key at the next centre');
  t.true((await siteStatus(site)).isConnected);
});

// EDGE-C17 of docs/consistency.md
test('an order that the site has accepted is completed after the change, and no other runs', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const options = {
    autoAccept: true,
    acl: testsOfCentre,
    timeoutSeconds: 60,
    gatherJobTimeoutSeconds: 60,
  };
  let site = await startJoined(t, old, options);
  const minions = new EmbeddedMinions();
  t.teardown(() => minions.close());
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const calls: string[] = [];
  const functions = {
    'test.slow': async () => {
      calls.push('slow');
      await finished;
      return true;
    },
    'test.late': () => calls.push('late') > 0,
  };
  const { publishPort, requestPort } = await site.server.master.status();
  const started = await minions.start(
    { directory: site.directory, requestPort },
    'web1',
    functions,
  );
  await started.connected;
  const issue = (centre: Centre, fun: string): Promise<OrderReport> => {
    const work = { kind: 'job', tgt: '*', fun };
    return centre.rpc('site').call('order', { sites: ['north'], work, validSeconds: 3600 });
  };
  await issue(old, 'test.slow');
  await eventually(() => calls.length === 1, 'the order runs');
  await copySites(old, next);
  await publishStatement(old, statementOf(await offerOf(next), keys.root));
  await movedTo(site, next);
  // The old centre cannot give an order to a site that it does not have any more.
  await eventually(async () => (await siteInfo(old, 'north')).state === 'rehomed');
  await t.throwsAsync(issue(old, 'test.late'), { code: 'ERR_SITE_UNKNOWN' });
  // The site completes the order although its key is not trusted any more, also after a restart.
  await site.server.close();
  const section = siteSection({ name: 'north', centre: old.url });
  site = await startMaster(
    t,
    { ...options, publishPort, requestPort, site: section },
    site.directory,
  );
  await movedTo(site, next);
  await eventually(async () => (await site.server.master.status()).subscribers > 0, 'the minion');
  finish();
  const ended = async (): Promise<boolean> => {
    const families = await site.server.master.metrics();
    const family = families.find(({ name }) => name === 'saltbridge_site_orders_ended_total');
    return JSON.stringify(family).includes('"value":1');
  };
  await eventually(ended, 'the end of the order');
  t.deepEqual(calls, ['slow']);
  const report = await issue(next, 'test.late');
  await eventually(async () => {
    const { counts } = await next.rpc('site').call<OrderReport>('result', { id: report.id });
    return counts.done === 1;
  }, 'the order of the next centre');
  t.deepEqual(calls, ['slow', 'late']);
});

test('a restored centre warns of later versions at its sites, and releases a higher one', async (t) => {
  const source = temporaryDirectory(t);
  const group = (name: string): void =>
    writeFiles(source, { master: `nodegroups:\n  ${name}: 'web*'\n` });
  const directory = temporaryDirectory(t);
  const sites = sitesSection({ source });
  const old = await startCentre(t, { sites }, directory);
  const keys = await initKeys(old, 'centre-1');
  const site = await startJoined(t, old);
  const uses = (name: string) => async (): Promise<boolean> =>
    (await isServing(site)) && name in site.server.master.config.nodegroups;
  await old.server.close();
  const backup = temporaryDirectory(t);
  cpSync(directory, backup, { recursive: true });
  const again = await startCentre(t, { sites }, directory, old.port);
  for (const name of ['one', 'two']) {
    group(name);
    await publish(again, keys);
    await eventually(uses(name), `the release ${name}`);
  }
  const port = await freePort();
  const spare = await offerOf(again, [`http://127.0.0.1:${port}`]);
  await publishStatement(again, statementOf(spare, keys.root, { afterSeconds: 1 }));
  await holds(again);
  await again.server.close();
  const restored = await startCentre(t, { sites }, backup, port);
  await movedTo(site, restored);
  await eventually(
    async () => (await siteInfo(restored, 'north')).release?.version === 2,
    'the report',
  );
  group('three');
  const low = await publish(restored, keys);
  t.is(low.version, 1);
  t.regex(low.warnings.join(), /north uses version 2.*--above 2/);
  const high = await publish(restored, keys, { above: 2 });
  t.is(high.version, 3);
  t.deepEqual(high.warnings, []);
  await eventually(uses('three'), 'the release of the restored centre');
});

test('a site that was killed after the change of its identity connects to its next centre, and reports the change', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const before = await startJoined(t, old);
  await copySites(old, next);
  await before.server.close();
  const { statement } = readStatement(statementOf(await offerOf(next), keys.root));
  const file = new SiteIdentityFile(`${before.stateDir}/site`);
  const { root, key } = await identityIn(before);
  if (root === undefined) throw new Error('the site has no root');
  const change = {
    statement,
    trust: await nextTrust(root, statement),
    key,
    configured: old.url,
    former: [],
    now: Date.now(),
  };
  await file.change((identity) => withNextCentre(identity, change));
  const section = siteSection({ name: 'north', centre: old.url });
  const site = await startMaster(t, { site: section }, before.directory);
  await movedTo(site, next);
  const has = async (): Promise<boolean> =>
    (await eventsOf(next)).some(({ value }) => value.tag === 'rehomed');
  await eventually(has, 'the alarm');
  await site.server.close();
  const last = await startMaster(t, { site: section }, before.directory);
  await movedTo(last, next);
  t.is((await eventsOf(next)).filter(({ value }) => value.tag === 'rehomed').length, 1);
});

// EDGE-C18 of docs/consistency.md
test('a site installs the releases of its next centre, and keeps its bundle until then', async (t) => {
  const sources = [temporaryDirectory(t), temporaryDirectory(t)] as const;
  const group = (name: string): string => `nodegroups:\n  ${name}: 'web*'\n`;
  writeFiles(sources[0], { master: group('one') });
  writeFiles(sources[1], { master: group('other') });
  const old = await startCentre(t, { sites: sitesSection({ source: sources[0] }) });
  const next = await startCentre(t, { sites: sitesSection({ source: sources[1] }) });
  const keys = await initKeys(old, 'centre-1');
  const nextKeys = await initKeys(next, 'centre-2');
  const site = await startJoined(t, old);
  const uses = (name: string) => async (): Promise<boolean> =>
    (await isServing(site)) && name in site.server.master.config.nodegroups;
  await publish(old, keys);
  await eventually(uses('one'), 'the first release');
  writeFiles(sources[0], { master: group('two') });
  await publish(old, keys);
  await eventually(uses('two'), 'the second release');
  await copySites(old, next);
  await publishStatement(old, statementOf(await offerOf(next), keys.root));
  await movedTo(site, next);
  t.true(await uses('two')());
  await publish(next, nextKeys);
  await eventually(uses('other'), 'the release of the next centre');
  await eventually(async () => {
    const [release] = await next.rpc('site').call<readonly ReleaseState[]>('releases.list');
    return release?.version === 1 && release.installed === 1;
  }, 'the report of the site');
});

test('a thief of the online key of a centre cannot give its sites to another centre', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const rogue = await startRogue(t, await onlineKeyOf(old.stateDir));
  const site = await startSite(t, old, 'north', {}, rogue.url);
  await rogue.waitFor('north');
  const offer = await offerOf(next);
  const now = Date.now();
  const dayMs = 86_400_000;
  const late = { afterSeconds: 3600 };
  const strangers = [createSigningKey(), createSigningKey()];
  const valid = statementOf(offer, keys.root, { ...late, issuedAt: now });
  const [head, body, signatures] = valid.split('.');
  const content = JSON.parse(Buffer.from(body ?? '', 'base64url').toString());
  const forged = Buffer.from(JSON.stringify({ ...content, afterSeconds: 0 })).toString('base64url');
  const bad: readonly (readonly [code: string, text: string])[] = [
    ['ERR_REHOME_STATEMENT', [head, forged, signatures].join('.')],
    ['ERR_REHOME_KEYS', statementOf(offer, strangers)],
    ['ERR_REHOME_KEYS', statementOf(offer, [keys.targets, ...keys.root.slice(0, 1)])],
    ['ERR_REHOME_CENTRE', statementOf(offer, keys.root, { centre: 'centre-2' })],
    ['ERR_REHOME_SITE', statementOf(offer, keys.root, { sites: ['south'] })],
    [
      'ERR_REHOME_EXPIRED',
      statementOf(offer, keys.root, { issuedAt: now - dayMs, expiresAt: now - 1 }),
    ],
  ];
  for (const [code, text] of bad) {
    await t.throwsAsync(rogue.give('north', text), { code }, code);
  }
  t.is((await identityIn(site)).statement, undefined);
  t.is(await rogue.give('north', valid), 'held');
  t.is(await rogue.give('north', valid), 'held');
  const older = statementOf(offer, keys.root, { issuedAt: now - 1 });
  await t.throwsAsync(rogue.give('north', older), { code: 'ERR_REHOME_OLD' });
  t.is((await identityIn(site)).statement, valid);
  t.true(rogue.isConnected('north'));
});

test('a site without a statement ignores another centre, and so does a site whose next centre has another key', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const foreign = await startSite(t, old, 'north', {}, next.url);
  await copySites(old, next);
  await eventually(
    async () =>
      /not the centre that this site has joined/.test((await siteStatus(foreign)).problem ?? ''),
    'the refusal',
  );
  const before = await identityIn(foreign);
  t.is(before.rehomed, undefined);
  t.false((await siteInfo(next, 'north')).isConnected);
  await foreign.server.close();
  const site = await startMaster(
    t,
    { site: siteSection({ name: 'north', centre: old.url }) },
    foreign.directory,
  );
  await eventually(async () => (await siteStatus(site)).isConnected, 'its centre');
  // A thief has taken over the address of the next centre, but does not have its key.
  const impostor = await startRogue(t, generateKey());
  await publishStatement(old, statementOf(await offerOf(next, [impostor.url]), keys.root));
  await holds(old);
  await eventually(() => impostor.attempts() > 1, 'attempts to reach the next centre');
  t.deepEqual(Buffer.from((await identityIn(site)).centreKey), Buffer.from(before.centreKey));
  t.true((await siteStatus(site)).isConnected);
  // A later statement names the true address.
  await publishStatement(old, statementOf(await offerOf(next), keys.root));
  await movedTo(site, next);
});

test('a statement that replaced root keys have signed loses its force, and a new one has it', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const site = await startJoined(t, old);
  await copySites(old, next);
  const client = old.rpc('site');
  const text = await client.call<string>('releases.root');
  const former = await readRoot(Buffer.from(text, 'base64'));
  const fresh = [createSigningKey(), createSigningKey(), createSigningKey()];
  const root = await createRoot(
    {
      version: 2,
      centre: 'centre-1',
      keys: { ...former.keys, root: fresh.map((it) => it.publicKey) },
    },
    [...keys.root, ...fresh],
    Date.now(),
  );
  await client.call('releases.setRoot', { root: root.toString('base64') });
  const offer = await offerOf(next);
  await t.throwsAsync(publishStatement(old, statementOf(offer, keys.root)), {
    code: 'ERR_REHOME_KEYS',
  });
  await publishStatement(old, statementOf(offer, fresh.slice(0, 2)));
  await movedTo(site, next);
  t.is((await identityIn(site)).rehomed?.from, 'centre-1');
});

test('an import refuses names that the centre uses or has revoked, and repeats no import', async (t) => {
  const { old, next } = await startCentres(t);
  for (const name of ['north', 'south', 'east']) await joinRaw(t, old, name);
  await joinRaw(t, next, 'north');
  await copySites(old, next);
  await next.rpc('site').call('revoke', { name: 'south' });
  const results = await copySites(old, next);
  t.deepEqual(
    results.map(({ name, result }) => [name, result]),
    [
      ['east', 'imported'],
      ['north', 'refused'],
      ['south', 'refused'],
    ],
  );
  t.regex(results[1]?.reason ?? '', /another site with this name/);
  const key = 'A'.repeat(43);
  const invalid = await importSites(next, { centre: 'centre-1', sites: [{ name: 'No.rth', key }] });
  t.like(invalid, [{ result: 'refused' }]);
  // A centre takes the keys of its own sites from a later export.
  t.like(await importSites(next, { centre: 'centre-2', sites: [{ name: 'north', key }] }), [
    { result: 'imported' },
  ]);
  const again = await importSites(next, { centre: 'centre-2', sites: [{ name: 'north', key }] });
  t.like(again, [{ result: 'unchanged' }]);
});

test('a former centre that was away during the change learns of the change when it is back', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const site = await startJoined(t, old);
  await copySites(old, next);
  const statement = statementOf(await offerOf(next), keys.root, { afterSeconds: 1 });
  await publishStatement(old, statement);
  await holds(old);
  await old.server.close();
  await movedTo(site, next);
  const { rehomed } = await identityIn(site);
  const again = await startCentre(t, {}, old.directory, old.port);
  const state = async (): Promise<string> => (await siteInfo(again, 'north')).state;
  await eventually(async () => (await state()) === 'rehomed', 'the former centre');
  t.is((await siteInfo(again, 'north')).to?.centre, 'centre-2');

  const leave = {
    name: 'north',
    issuedAt: rehomed?.issuedAt ?? 0,
    signature: rehomed?.leave?.signature ?? '',
  };
  const post = async (centre: Centre, changed: Partial<typeof leave> = {}): Promise<number> => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ ...leave, ...changed });
    return (await fetch(`${centre.url}/site/v1/left`, { method: 'POST', headers, body })).status;
  };
  // The site comes back. A repetition of the notification does not release it again.
  await copySites(next, again);
  t.is(await state(), 'expected');
  t.is(await post(again), 200);
  t.is(await state(), 'expected');
  t.is(await post(next), 403, 'the notification is for another centre');
  t.is(await post(again, { name: 'south' }), 403);
  t.is(await post(again, { signature: 'A'.repeat(86) }), 403);
  t.is(await post(again, { issuedAt: leave.issuedAt + 1 }), 403);
  t.is((await siteInfo(next, 'north')).state, 'joined');
});

test('a stranger cannot release a site from its centre', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const site = await startJoined(t, old);
  const issuedAt = Date.now();
  const waits = { issuedAt, afterSeconds: 86_400 };
  await publishStatement(old, statementOf(await offerOf(next), keys.root, waits));
  await holds(old);
  const signature = signLeave(generateKey(), 'north', 'centre-1', issuedAt);
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ name: 'north', issuedAt, signature });
  const reply = await fetch(`${old.url}/site/v1/left`, { method: 'POST', headers, body });
  t.is(reply.status, 403);
  t.is((await siteInfo(old, 'north')).state, 'joined');
  t.true((await siteStatus(site)).isConnected);
});

test('a site does not try the next centre before the time of the statement', async (t) => {
  const { old, next, keys } = await startCentres(t);
  const later = await startCentre(t);
  await initKeys(later, 'centre-3');
  const site = await startJoined(t, old);
  for (const centre of [next, later]) await copySites(old, centre);
  const issuedAt = Date.now();
  const waits = statementOf(await offerOf(later), keys.root, { issuedAt, afterSeconds: 3600 });
  await publishStatement(old, waits);
  await holds(old);
  // A site that had tried the next centre would have left, and would not get this statement.
  const atOnce = statementOf(await offerOf(next), keys.root, { issuedAt: issuedAt + 1 });
  await publishStatement(old, atOnce);
  await movedTo(site, next);
  t.is((await siteInfo(later, 'north')).state, 'expected');
});

test('a site reaches its next centre over TLS with the CA in the statement', async (t) => {
  const { certificate, key } = makeCertificate(temporaryDirectory(t));
  const old = await startCentre(t);
  const api = { host: '127.0.0.1', hosts: ['*'], port: 0, sslCrt: certificate, sslKey: key };
  const next = await startCentre(t, { api });
  const keys = await initKeys(old, 'centre-1');
  await initKeys(next, 'centre-2');
  const site = await startJoined(t, old);
  await copySites(old, next);
  const url = `https://localhost:${next.port}`;
  const ca = readFileSync(certificate, 'utf8');
  const request = { addresses: [url], ca, behindProxy: false };
  const offer = await next.rpc('site').call<NextCentre>('rehome.offer', request);
  await publishStatement(old, statementOf(offer, keys.root));
  await movedTo(site, { ...next, url });
  const { rehomed } = await identityIn(site);
  t.is(rehomed?.ca, ca);
});

test('the addresses and TLS options of a statement replace those of the configuration', async (t) => {
  const directory = temporaryDirectory(t);
  const ca = path.join(directory, 'ca.pem');
  writeFileSync(ca, 'own');
  const options = { centre: 'https://a', addresses: ['https://b'], ca, behindProxy: false };
  const own = ['https://a', 'https://b'].map((centre) => {
    return { centre, ca: Buffer.from('own'), behindProxy: false };
  });
  t.deepEqual(await endpointsOf({ rehomed: undefined }, options), own);
  const times = { issuedAt: 1, at: 2, from: 'centre-1', replaced: 'https://a' };
  const rehomed = { ...times, addresses: ['https://c'], ca: 'stated', behindProxy: true };
  const stated = { centre: 'https://c', ca: 'stated', behindProxy: true };
  t.deepEqual(await endpointsOf({ rehomed }, options), [stated]);
  const changed = { ...options, centre: 'https://d' };
  const again = await endpointsOf({ rehomed }, changed);
  t.deepEqual(
    again.map(({ centre }) => centre),
    ['https://d', 'https://b', 'https://c'],
  );
});

/** A centre in a cluster: each member serves each site. */

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { joinSite, type ReleaseState, type SiteInfo, type StatementInfo } from '#edge';
import { SiteIdentityFile, siteDirectory } from '#edge/identity/site-identity.ts';
import { layNodeKeys } from '../../campaigns/edge/nodes.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { initKeys, publish, writeFiles } from '../bundles/release-stage.ts';
import {
  type Centre,
  createTicket,
  eventually,
  siteInfo,
  startMaster,
  startSite,
  stateDirOf,
} from '../edge-stage.ts';
import { ended, issue, join } from '../order-stage.ts';
import { batchOf, entryOf, joinRaw, RawLink } from '../raw-site.ts';
import { offerOf, publishStatement, statementOf } from '../rehoming/rehoming-stage.ts';
import { siteSection, sitesSection, testsOfCentre } from '../sections.ts';
import { CentreMembers } from './cluster-stage.ts';

type Options = NonNullable<ConstructorParameters<typeof CentreMembers>[1]>;

async function membersOf<const N extends string>(
  t: ExecutionContext,
  names: readonly N[],
  options: Options = {},
): Promise<Readonly<Record<N, Centre>>> {
  t.timeout(240_000);
  const started = await new CentreMembers(t, options).start(names);
  const entries = names.map((name, place) => [name, started[place]]);
  return Object.fromEntries(entries) as Record<N, Centre>; // one for each name
}

/** Returns the latest release, as a member shows it. */
async function latestRelease(centre: Centre): Promise<ReleaseState | undefined> {
  const [latest] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
  return latest;
}

// EDGE-C19 of docs/consistency.md
test('a site gets a release from the other members after the publishing member was lost', async (t) => {
  const source = temporaryDirectory(t);
  writeFiles(source, {
    master: JSON.stringify({ file_roots: { base: [path.join(source, 'files')] } }),
    'files/large': Array.from({ length: 20_000 }, () => Math.random()).join('\n'),
    'files/equal': 'x'.repeat(300_000),
  });
  const { a, b, c } = await membersOf(t, ['a', 'b', 'c'], { sites: sitesSection({ source }) });
  await publish(a, await initKeys(a));
  await a.server.close();
  rmSync(path.join(a.stateDir, 'sites'), { recursive: true });
  t.false(existsSync(path.join(b.stateDir, 'sites', 'objects')));
  await startSite(t, b, 'north');
  await startSite(t, c, 'south');
  for (const member of [b, c]) {
    await eventually(async () => (await latestRelease(member))?.installed === 2, 'the release');
    t.is((await latestRelease(member))?.state, 'done');
  }
});

// EDGE-C21 of docs/consistency.md
test('a site of one member is a site of all members', async (t) => {
  const directory = temporaryDirectory(t);
  const source = path.join(directory, 'source');
  const secrets = path.join(directory, 'secrets');
  writeFiles(source, { master: 'file_ignore_glob: []\n' });
  mkdirSync(secrets);
  const rings = { first: ['north'], all: 100 };
  const sites = sitesSection({ source, secrets, rings });
  const { a, b } = await membersOf(t, ['a', 'b'], { sites });
  const secret = (text: string): void =>
    writeFileSync(path.join(secrets, 'north.yml'), text, { mode: 0o600 });
  secret('"*": { password: first }\n');
  const keys = await initKeys(a);

  // A ticket of `a` is used at `b`, once.
  const { ticket } = await createTicket(a, 'north');
  const stateDir = stateDirOf(temporaryDirectory(t));
  const site = siteSection({ name: 'north', centre: b.url, addresses: [a.url] });
  await joinSite(ticket, { stateDir, site });
  const twice = joinSite(ticket, {
    stateDir: stateDirOf(temporaryDirectory(t)),
    site: { name: 'north', centre: a.url },
  });
  await t.throwsAsync(twice, { code: 'ERR_SITE_TICKET' });
  layNodeKeys(`${path.dirname(stateDir)}/pki`, ['web1']);
  const options = { autoAccept: true, acl: testsOfCentre, pkiDir: '/pki' };
  const north = await startMaster(t, { ...options, site }, path.dirname(stateDir));
  const south = await startSite(t, a, 'south', { autoAccept: true, acl: testsOfCentre });
  for (const member of [a, b]) {
    await eventually(async () => {
      const list = await member.rpc('site').call<readonly SiteInfo[]>('list');
      const places = list.map((it) => [it.name, it.isConnected, it.member].join(' '));
      return places.join() === 'north true b,south true a';
    }, 'both sites are connected at both members');
  }

  // The ring is complete only if the site at the other member has installed the release.
  await publish(b, keys);
  await eventually(async () => (await latestRelease(a))?.state === 'done', 'the release');
  t.is((await latestRelease(b))?.installed, 2);

  // An order of `a` runs at the site of `b`, and `a` follows it.
  await join(t, north, 'web1', { 'test.echo': () => 'done' });
  const work = { kind: 'job', tgt: '*', fun: 'test.echo', arg: [] } as const;
  const report = await ended(a, await issue(a, ['north'], work));
  t.deepEqual(
    report.sites.map(({ site: name, state, succeeded }) => [name, state, succeeded]),
    [['north', 'done', 1]],
  );

  // A secret is changed at `a`.
  const password = async (): Promise<unknown> => {
    const shown = await north.server.master.pillar.show({ minion: 'web1' });
    return shown instanceof Map ? shown.get('password') : shown.password;
  };
  await eventually(async () => (await password()) === 'first', 'the secret');
  secret('"*": { password: second }\n');
  t.deepEqual(await a.rpc('site').call('secrets', { name: 'north' }), [
    { site: 'north', state: 'notified' },
  ]);
  await eventually(async () => (await password()) === 'second', 'the new secret');

  // A statement is published at `a`.
  const statement = statementOf(await offerOf(a), keys.root, { afterSeconds: 86_400 });
  await publishStatement(a, statement);
  for (const member of [a, b]) {
    await eventually(async () => {
      const [first] = await member.rpc('site').call<readonly StatementInfo[]>('rehome.statements');
      return first?.replies.every(({ state }) => state === 'held') === true;
    }, 'the site holds the statement');
  }
  const identity = await new SiteIdentityFile(siteDirectory(stateDir)).read();
  t.is(identity?.statement, statement);

  // A revocation at `a` ends the connection at `b`.
  await a.rpc('site').call('revoke', { name: 'north' });
  await eventually(async () => !(await siteInfo(b, 'north')).isConnected, 'the revocation');
  t.deepEqual(await Array.fromAsync(b.rpc('site').stream('minions', { name: 'north' })), []);
  await south.server.close();
});

// EDGE-C20 of docs/consistency.md
test('a site that changes the member in the middle of a batch is applied once', async (t) => {
  const { a, b } = await membersOf(t, ['a', 'b']);
  const identity = await joinRaw(t, a, 'north');
  const entries = [1, 2, 3].map((sequence) => {
    return entryOf(sequence, 'event', { tag: `fire/${sequence}`, data: {} });
  });
  const first = await RawLink.signIn(t, a, identity);
  t.true(await first.isWelcome());
  t.is((await first.ask('log.alarm', batchOf(entries.slice(0, 2)))).kind, 'reply');
  // The acknowledgement of the third entry is lost.
  first.sendRequest(9, 'log.alarm', batchOf(entries));
  const second = await RawLink.signIn(t, b, identity);
  t.true(await second.isWelcome());
  t.is(await first.closed, 4409);
  const reply = await second.ask('log.alarm', batchOf(entries));
  t.like(reply, { kind: 'reply', value: { sequence: 3 } });
  for (const member of [a, b]) {
    const stored = await member
      .rpc('site')
      .call<readonly { sequence: number }[]>('entries', { name: 'north' });
    t.deepEqual(stored.map(({ sequence }) => sequence).toSorted(), [1, 2, 3]);
    t.is((await siteInfo(member, 'north')).log.alarm?.sequence, 3);
  }
});

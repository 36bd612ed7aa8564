import test, { type ExecutionContext } from 'ava';
import { assignRings, Releases, type Rings } from '#edge/bundles/releases.ts';
import { edgeLimits } from '#edge/limits.ts';
import type { SharedArea } from '#master';
import { memoryRows } from './tuf-stage.ts';

interface Stage {
  readonly releases: Releases;
  /** Clock of the centre, and the number of its writes. */
  readonly clock: { now: number; writes: number };
  readonly connected: Set<string>;
  add(contentOf?: number): Promise<void>;
  report(site: string, version: number, failed?: number): Promise<void>;
  /** Sites that must install a version. */
  wanting(version: number): Promise<readonly string[]>;
}

const defaults: Rings = { first: 1, early: 10, all: 100 };

async function stage(sites: number, rings: Rings = defaults, stopAtFailures = 2): Promise<Stage> {
  const memory = memoryRows({ now: 0 });
  const clock = { now: 0, writes: 0 };
  const rows: SharedArea = {
    ...memory,
    write: (operations) => {
      clock.writes += 1;
      return memory.write(operations);
    },
    follow: async () => {},
    cluster: undefined,
  };
  const names = Array.from({ length: sites }, (_, index) => `site-${index}`);
  const connected = new Set(names);
  const releases = await Releases.open(
    {
      rows,
      rings,
      stopAtFailures,
      sites: () => names,
      isConnected: (site) => connected.has(site),
      now: () => clock.now,
    },
    () => {},
  );
  const report = async (site: string, version: number, failed?: number): Promise<void> =>
    releases.report(site, {
      version,
      saltbridge: '0.1.0',
      ...(failed === undefined
        ? {}
        : { failed: { version: failed, code: 'ERR_BUNDLE_CHECK', message: 'x' } }),
    });
  return {
    releases,
    clock,
    connected,
    report,
    add: async (contentOf) => {
      const version = releases.nextVersion;
      const more = contentOf === undefined ? {} : { contentOf };
      await releases.add({ version, sha256: `${version}`, length: 1, ...more });
      await releases.publish(version, []);
    },
    wanting: async (version) => {
      const found: string[] = [];
      for (const site of names) {
        if (releases.wantedBy(site)?.version === version) found.push(site);
      }
      return found;
    },
  };
}

async function installAll({ wanting, report }: Stage, version: number): Promise<number> {
  const sites = await wanting(version);
  for (const site of sites) await report(site, version);
  return sites.length;
}

function state({ releases }: Stage): string | undefined {
  return releases.published?.state;
}

test('releases ring by ring: 1 %, 10 %, all', async (t) => {
  const it = await stage(200);
  await it.add();
  t.is(await installAll(it, 1), 2);
  t.is(await installAll(it, 1), 18);
  t.is(state(it), 'releasing');
  t.is(await installAll(it, 1), 180);
  t.is(state(it), 'done');
  t.is((await it.wanting(1)).length, 0);
});

test('selects the same sites during a release, and others in the next', (t) => {
  const names = Array.from({ length: 500 }, (_, index) => `site-${index}`);
  const firstOf = (version: number): readonly string[] =>
    [...assignRings(version, [1, 100], names)].flatMap(([site, ring]) => (ring === 0 ? site : []));
  t.is(firstOf(1).length, 5);
  t.deepEqual(firstOf(1), firstOf(1));
  t.notDeepEqual(firstOf(1), firstOf(2));
  t.is(assignRings(1, [1], ['only']).get('only'), 0, 'a percentage selects at least one site');
  const lists = assignRings(1, [['b'], 100], ['a', 'b', 'c']);
  t.deepEqual([lists.get('a'), lists.get('b')], [1, 0]);
});

test('tells the state of each site with respect to the published release', async (t) => {
  const names = ['site-0', 'site-1', 'site-2', 'site-3'];
  const it = await stage(4, { first: ['site-0', 'site-1', 'site-2'], all: 100 });
  const states = (): unknown => names.map((site) => it.releases.progressOf(site));
  t.deepEqual(states(), [undefined, undefined, undefined, undefined]);
  await it.add();
  await it.report('site-0', 1);
  await it.report('site-1', 0, 1);
  t.deepEqual(states(), ['current', 'refused', 'behind', 'waiting']);
  await it.releases.hold();
  t.deepEqual(states(), ['current', 'refused', 'waiting', 'waiting']);
});

test('stops when sites fail, and resumes', async (t) => {
  const it = await stage(100, { first: 3, all: 100 });
  await it.add();
  const [one = '', two = '', three = ''] = await it.wanting(1);
  await it.report(one, 0, 1);
  await it.report(one, 0, 1);
  t.is(state(it), 'releasing', 'a site counts once');
  await it.report(two, 0, 1);
  t.is(state(it), 'stopped');
  t.is((await it.wanting(1)).length, 0);
  await it.releases.resume();
  t.deepEqual(it.releases.published?.failed, []);
  await it.report(three, 1);
  await it.report(one, 1);
  await it.report(two, 1);
  t.is((await it.wanting(1)).length, 97);
});

test('waits for connected sites of a ring, and not for those that are away', async (t) => {
  const it = await stage(100, { first: ['site-1', 'site-2'], all: 100 });
  it.connected.delete('site-2');
  await it.add();
  t.deepEqual(await it.wanting(1), ['site-1', 'site-2']);
  await it.report('site-1', 1);
  t.is(it.releases.published?.ring, 1);
  t.true((await it.wanting(1)).includes('site-2'), 'it gets the release when it is back');
});

test('waits until a site of the ring has installed the release, or an operator resumes', async (t) => {
  const it = await stage(100, { first: ['site-1'], all: 100 });
  it.connected.delete('site-1');
  await it.add();
  await it.report('site-5', 0);
  t.deepEqual(await it.wanting(1), ['site-1']);
  await it.releases.resume();
  t.is((await it.wanting(1)).length, 100);
});

test('holds a release: sites keep what they use', async (t) => {
  const it = await stage(10, { all: 100 });
  await it.add();
  await installAll(it, 1);
  await it.add();
  await it.report('site-1', 2);
  await it.releases.hold();
  t.deepEqual(await it.wanting(2), []);
  t.deepEqual(await it.wanting(1), []);
  await it.releases.resume();
  t.is((await it.wanting(2)).length, 9);
});

test('gives the former release to a site that is not in turn', async (t) => {
  const it = await stage(10, { first: ['site-1'], all: 100 });
  await it.add();
  await it.report('site-1', 1);
  await installAll(it, 1);
  await it.add();
  // These sites have lost their disks.
  for (const site of ['site-0', 'site-9']) await it.report(site, 0);
  t.deepEqual(await it.wanting(2), ['site-1']);
  t.deepEqual(await it.wanting(1), ['site-0', 'site-9']);
});

test('rolls back to all rings at once', async (t) => {
  const it = await stage(100);
  await it.add();
  await it.add(1);
  t.is((await it.wanting(2)).length, 100);
  t.is(it.releases.require(1).state, 'replaced');
});

test('refuses hold and resume in other states', async (t: ExecutionContext) => {
  const it = await stage(1, { all: 100 });
  await t.throwsAsync(it.releases.hold(), { code: 'ERR_RELEASE' });
  await it.add();
  await installAll(it, 1);
  await t.throwsAsync(it.releases.hold(), { code: 'ERR_RELEASE' });
  await t.throwsAsync(it.releases.resume(), { code: 'ERR_RELEASE' });
});

test('does not give a release that has stopped to further sites', async (t) => {
  const it = await stage(10, { first: ['site-1'], all: 100 }, 1);
  await it.add();
  await it.report('site-1', 0, 1);
  t.is(state(it), 'stopped');
  await it.add();
  t.deepEqual(await it.wanting(1), []);
});

test('keeps the last ten releases', async (t) => {
  const it = await stage(1, { all: 100 });
  for (let count = 0; count < 13; count++) await it.add();
  t.deepEqual(
    (await it.releases.prune()).map(({ version }) => version),
    [13, 12, 11, 10, 9, 8, 7, 6, 5, 4],
  );
});

test('a report that changes nothing is stored once in five minutes', async (t) => {
  const { clock, report } = await stage(2);
  for (let sent = 0; sent < 200; sent += 1) await report('site-0', 3, 4);
  t.is(clock.writes, 1);
  clock.now = 300_000;
  for (let sent = 0; sent < 200; sent += 1) await report('site-0', 3, 4);
  t.is(clock.writes, 2);
  await report('site-0', 3);
  await report('site-0', 3, 4);
  t.is(clock.writes, 4, 'a change is stored at once');
});

test('a repeated refusal counts again after an operator has resumed the release', async (t) => {
  const it = await stage(3, { all: 100 }, 1);
  await it.add();
  await it.report('site-0', 0, 1);
  t.is(state(it), 'stopped');
  await it.releases.resume();
  t.is(state(it), 'releasing');
  await it.report('site-0', 0, 1);
  t.is(state(it), 'stopped');
});

test('a site that alternates between reports is refused, and the others are not', async (t) => {
  const { clock, report } = await stage(2);
  const { burst = 0 } = edgeLimits.siteReports.rate ?? {};
  for (let sent = 0; sent < burst; sent += 1) await report('site-0', sent % 2);
  const alternate = async (): Promise<void> => {
    for (let sent = burst; sent < burst + 500; sent += 1) await report('site-0', sent % 2);
  };
  await t.throwsAsync(alternate, { code: 'ERR_SITE_LINK' });
  const { writes } = clock;
  await report('site-1', 1);
  t.is(clock.writes, writes + 1);
});

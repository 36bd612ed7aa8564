/** Parts of a centre at several members of a cluster that change the same rows. */

import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { encodeManifest, type Manifest } from '#edge/bundles/manifest.ts';
import { ObjectStore } from '#edge/bundles/object-store.ts';
import { PackCache, type StoredManifest } from '#edge/bundles/pack-cache.ts';
import { Releases } from '#edge/bundles/releases.ts';
import { markObjects, SharedObjects } from '#edge/bundles/shared-objects.ts';
import { CentreFacts } from '#edge/facts/centre-facts.ts';
import { MinionClaims } from '#edge/facts/minion-claims.ts';
import { openCentreKey } from '#edge/identity/centre-key.ts';
import { publicBytesOf } from '#edge/identity/ed25519.ts';
import { siteRow, sitesPrefix } from '#edge/identity/site-rows.ts';
import { MemberConnections } from '#edge/link/member-connections.ts';
import { Ingest, type IngestOptions } from '#edge/log/ingest.ts';
import type { LogEntryHandler } from '#edge/log/log.ts';
import { createSilentLogger, type SharedArea } from '#master';
import type { WireMap } from '#minion-protocol';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { batchOf, entryOf } from '../raw-site.ts';
import { SharedRows } from './shared-rows.ts';

/** Ingest of a member without connections. */
class TestIngest {
  readonly ingest: Ingest;
  readonly #handlers = new Map<string, (params: unknown, from: unknown) => Promise<unknown>>();

  constructor(shared: SharedArea) {
    const parts = {
      host: { logger: createSilentLogger(), shared },
      options: { parallelSites: 1 },
      links: {
        handle: (
          { name }: { readonly name: string },
          handler: (params: unknown, from: unknown) => Promise<unknown>,
        ) => this.#handlers.set(name, handler),
        onEnded: () => {},
      },
      sites: { isJoined: () => true },
    };
    // Only these members are used.
    this.ingest = new Ingest(parts as unknown as IngestOptions);
  }

  async send(site: string, batch: WireMap): Promise<unknown> {
    return this.#handlers.get('log.alarm')?.(batch, { site });
  }
}

/** Handler that counts the stored entries, and waits before its first entry. */
function counting(wait: Promise<void> = Promise.resolve()): {
  readonly handler: LogEntryHandler;
  readonly begun: Promise<void>;
} {
  const begun = Promise.withResolvers<void>();
  return {
    begun: begun.promise,
    handler: {
      operations: async ({ sequence }) => {
        begun.resolve();
        await wait;
        const key = ['stored', String(sequence), randomBytes(6).toString('hex')];
        return [{ op: 'put', key, value: Buffer.alloc(0) }];
      },
    },
  };
}

async function storedIn(rows: SharedArea): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { key } of rows.list(['stored'])) found.push(key[1] ?? '');
  return found;
}

async function putSite(rows: SharedArea, state: 'joined' | 'revoked'): Promise<void> {
  const value = siteRow.encode({ name: 'north', state });
  await rows.write([{ op: 'put', key: [...sitesPrefix, 'north'], value }]);
}

// EDGE-C20 of docs/consistency.md
test('a batch that two members receive is stored once', async (t) => {
  const rows = new SharedRows();
  await putSite(rows.of('a'), 'joined');
  const mayContinue = Promise.withResolvers<void>();
  const [a, b] = [new TestIngest(rows.of('a')), new TestIngest(rows.of('b'))];
  const slow = counting(mayContinue.promise);
  a.ingest.on('event', slow.handler);
  b.ingest.on('event', counting().handler);
  const entries = [1, 2, 3].map((sequence) => entryOf(sequence, 'event', {}));
  const first = a.send('north', batchOf(entries.slice(0, 2)));
  await slow.begun;
  // The site has lost its connection to `a`, and sends the batch to `b`, with a further entry.
  t.deepEqual(await b.send('north', batchOf(entries)), { sequence: 3, refused: [] });
  mayContinue.resolve();
  t.deepEqual(await first, { sequence: 3, refused: [] });
  t.deepEqual(await storedIn(rows.of('c')), ['1', '2', '3']);
});

test('a batch that is applied while another member revokes the site is refused', async (t) => {
  const rows = new SharedRows();
  await putSite(rows.of('a'), 'joined');
  const mayContinue = Promise.withResolvers<void>();
  const a = new TestIngest(rows.of('a'));
  const slow = counting(mayContinue.promise);
  a.ingest.on('event', slow.handler);
  const applied = a.send('north', batchOf([entryOf(1, 'event', {})]));
  await slow.begun;
  await putSite(rows.of('b'), 'revoked');
  mayContinue.resolve();
  await t.throwsAsync(applied, { code: 'ERR_SITE_REFUSED' });
  t.deepEqual(await storedIn(rows.of('c')), []);
});

async function openClaims(shared: SharedArea): Promise<MinionClaims> {
  const host = { shared, admission: { keyOf: () => undefined }, find: () => undefined };
  // Only `keyOf` and `find` are called.
  return MinionClaims.open(host as unknown as Parameters<typeof MinionClaims.open>[0]);
}

// EDGE-C13 of docs/consistency.md
test('only one of two sites at different members gets the id of a minion', async (t) => {
  const rows = new SharedRows();
  const [a, b] = await Promise.all([openClaims(rows.of('a')), openClaims(rows.of('b'))]);
  const ofNorth = await a.claim('north', 'web1');
  const ofSouth = await b.claim('south', 'web1');
  await rows.of('a').write(ofNorth);
  await t.throwsAsync(rows.of('b').write(ofSouth), { code: 'ERR_REVISION' });
  await t.throwsAsync(b.claim('south', 'web1'), { code: 'ERR_SITE_MESSAGE' });
  await rows.of('b').write(await b.claim('north', 'web1'));
  t.is(a.siteOf('web1'), 'north');
  t.deepEqual(await b.release('north'), ['web1']);
  await rows.of('a').write(await a.claim('south', 'web1'));
  t.is(b.siteOf('web1'), 'south');
});

// EDGE-C5 of docs/consistency.md
test('a member merges facts with those that another member has stored', async (t) => {
  const rows = new SharedRows();
  const open = async (member: string) => {
    const shared = rows.of(member);
    let operations: LogEntryHandler['operations'];
    const facts = await CentreFacts.open({
      host: { now: () => 0, shared },
      options: { factAheadSeconds: 300 },
      ingest: {
        on: (_kind, handler) => {
          operations = handler.operations;
        },
      },
      claims: await openClaims(shared),
    });
    const apply = async (ms: number, grains?: WireMap): Promise<void> => {
      const value = { minion: 'web1', present: true, ...(grains && { grains }) };
      const place = { site: 'north', class: 'fact', kind: 'minion', sequence: ms } as const;
      const entry = { ...place, value, at: { ms, count: 0 }, packed: Buffer.alloc(0) };
      await shared.write([...((await operations?.(entry)) ?? [])]);
    };
    return { facts, apply };
  };
  const [a, b] = [await open('a'), await open('b')];
  await a.apply(1, { os: 'Debian', release: '12' });
  await b.apply(2, { os: 'Debian', release: '13' });
  await a.apply(3);
  t.deepEqual((await b.facts.of('web1'))?.grains, { os: 'Debian', release: '13' });
});

async function openReleases(
  shared: SharedArea,
  connected: ReadonlySet<string>,
  stopAtFailures = 2,
): Promise<Releases> {
  return Releases.open(
    {
      rows: shared,
      rings: { early: ['north', 'south'], all: 100 },
      stopAtFailures,
      sites: () => ['east', 'north', 'south'],
      isConnected: (site) => connected.has(site),
      now: () => 0,
    },
    () => {},
  );
}

test('a release counts the failures that several members receive', async (t) => {
  const rows = new SharedRows();
  const connected = new Set(['north', 'south']);
  const [a, b] = [
    await openReleases(rows.of('a'), connected),
    await openReleases(rows.of('b'), connected),
  ];
  await a.add({ version: 1, sha256: 'one', length: 1 });
  await b.publish(1, []);
  const failed = { version: 1, code: 'ERR_BUNDLE_CHECK', message: 'x' };
  await Promise.all([
    a.report('north', { version: 0, saltbridge: '0.1.0', failed }),
    b.report('south', { version: 0, saltbridge: '0.1.0', failed }),
  ]);
  for (const member of [a, b]) {
    t.is(member.published?.state, 'stopped');
    t.deepEqual(member.published?.failed.toSorted(), ['north', 'south']);
  }
  t.is((await b.resume()).state, 'releasing');
  t.is((await a.hold()).state, 'held');
});

test('another member advances a release whose last report arrived at a member that died', async (t) => {
  const rows = new SharedRows();
  const connected = new Set(['north', 'south']);
  const [a, b] = [
    await openReleases(rows.of('a'), connected),
    await openReleases(rows.of('b'), connected),
  ];
  await a.add({ version: 1, sha256: 'one', length: 1 });
  await a.publish(1, []);
  await a.report('north', { version: 1, saltbridge: '0.1.0' });
  t.is(b.published?.ring, 0, 'south is connected to another member');
  // `a` dies, and `south` with it.
  connected.delete('south');
  await b.advance();
  t.is(b.published?.ring, 1);
  t.is(b.wantedBy('east')?.version, 1);
});

test('two members cannot add a release at the same time', async (t) => {
  const rows = new SharedRows();
  const connected = new Set<string>();
  const [a, b] = [
    await openReleases(rows.of('a'), connected),
    await openReleases(rows.of('b'), connected),
  ];
  const results = await Promise.allSettled([
    a.add({ version: 1, sha256: 'one', length: 1 }),
    b.add({ version: 1, sha256: 'other', length: 1 }),
  ]);
  t.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  t.is(a.require(1).sha256, b.require(1).sha256);
});

/** Contents and packs of a member. */
class TestMember {
  readonly shared: SharedObjects;
  readonly objects: ObjectStore;
  readonly packs: PackCache;
  readonly directory: string;

  constructor(
    t: ExecutionContext,
    rows: SharedArea,
    manifests: readonly StoredManifest[] = [],
    secret = Buffer.alloc(32),
  ) {
    this.directory = temporaryDirectory(t);
    this.shared = new SharedObjects(rows);
    this.objects = new ObjectStore(path.join(this.directory, 'objects'), this.shared);
    this.packs = new PackCache({
      directory: path.join(this.directory, 'packs'),
      objects: this.objects,
      secret,
      manifests: async () => manifests,
    });
  }
}

async function manifestOf(member: TestMember, contents: readonly Buffer[]) {
  const files = [];
  for (const [place, content] of contents.entries()) {
    const stored = await member.objects.put(content);
    files.push({ path: `tree/${place}`, ...stored, executable: false });
  }
  const manifest: Manifest = { format: 1, centre: 'c', version: 1, createdAt: 1, files };
  const bytes = encodeManifest(manifest);
  return { manifest, bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

test('each member reads the contents that one member has shared', async (t) => {
  const rows = new SharedRows();
  const [a, b] = [new TestMember(t, rows.of('a')), new TestMember(t, rows.of('b'))];
  const contents = [Buffer.alloc(0), Buffer.from('small'), randomBytes(700_000)];
  const stored = await Promise.all(contents.map((it) => a.objects.put(it)));
  const digests = stored.map(({ sha256 }) => sha256);
  await t.throwsAsync(b.objects.fileOf(digests[2] ?? ''), { code: 'ERR_RELEASE' });
  await a.shared.addAll(digests, (sha256) => a.objects.fileOf(sha256));
  for (const [place, sha256] of digests.entries()) {
    t.deepEqual(readFileSync(await b.objects.fileOf(sha256)), contents[place]);
  }
});

test('a member refuses a shared content that does not match its digest', async (t) => {
  const rows = new SharedRows();
  const [a, b] = [new TestMember(t, rows.of('a')), new TestMember(t, rows.of('b'))];
  const { sha256 } = await a.objects.put(Buffer.from('the content'));
  const other = path.join(a.directory, 'other');
  writeFileSync(other, 'another content');
  await a.shared.addAll([sha256], async () => other);
  const error = await t.throwsAsync(b.objects.fileOf(sha256), { code: 'ERR_RELEASE' });
  t.regex(error?.message ?? '', /does not match its digest/);
});

test('a member deletes no contents of a release that another member adds meanwhile', async (t) => {
  const rows = new SharedRows();
  const [a, b] = [new TestMember(t, rows.of('a')), new TestMember(t, rows.of('b'))];
  const revision = await a.shared.revision();
  const { sha256 } = await b.objects.put(Buffer.from('the content'));
  await rows.of('b').write([markObjects]);
  await b.shared.addAll([sha256], (it) => b.objects.fileOf(it));
  await t.throwsAsync(a.shared.keepOnly(new Set(), revision), { code: 'ERR_REVISION' });
  t.not(await a.shared.read(sha256), undefined);
  await a.shared.keepOnly(new Set(), await a.shared.revision());
  t.is(await a.shared.read(sha256), undefined);
});

test('a member creates a pack that a site has begun to read from another member', async (t) => {
  const rows = new SharedRows();
  const a = new TestMember(t, rows.of('a'));
  const manifest = await manifestOf(a, [randomBytes(200_000), randomBytes(300_000)]);
  const digests = manifest.manifest.files.map(({ sha256 }) => sha256);
  await a.shared.addAll(digests, (sha256) => a.objects.fileOf(sha256));
  const { files } = await a.packs.packsFor(undefined, manifest);
  const id = files?.id ?? '';
  const b = new TestMember(t, rows.of('b'), [manifest]);
  for (const index of [7, 0]) {
    t.deepEqual(await b.packs.part(id, index), await a.packs.part(id, index));
  }
  t.is((await b.packs.part(id, 0))?.length, 65_536);
  t.is(await b.packs.part(randomBytes(32).toString('hex'), 0), undefined);
  const other = `${id.slice(0, 32)}${'0'.repeat(32)}`;
  t.is(await b.packs.part(other, 0), undefined, 'the content of the pack is another one');
});

test('a member knows to which member a site is connected, until this member is gone', async (t) => {
  const rows = new SharedRows();
  const [a, b] = [
    await MemberConnections.open(rows.of('a')),
    await MemberConnections.open(rows.of('b')),
  ];
  const moved: string[] = [];
  a.onMoved((site) => moved.push(site));
  await a.noteOpened('north');
  t.is(b.memberOf('north'), 'a');
  await b.noteOpened('north');
  t.deepEqual(moved, ['north']);
  // `a` notes the end of its connection, which the site has replaced.
  await a.noteEnded('north');
  t.is(a.memberOf('north'), 'b');
  rows.gone.add('b');
  t.is(a.memberOf('north'), undefined);
  const again = await MemberConnections.open(rows.of('b'));
  t.is(again.memberOf('north'), undefined);
  rows.gone.delete('b');
  t.is(a.memberOf('north'), undefined, 'the connections of an earlier process have ended');
});

test('all members have the online key that the centre had before it became a cluster', async (t) => {
  const rows = new SharedRows();
  const [single, other] = [temporaryDirectory(t), temporaryDirectory(t)];
  const outside = { ...rows.of('a'), cluster: undefined };
  const before = await openCentreKey({ config: { stateDir: single }, shared: outside });
  const key = async (member: string, stateDir: string): Promise<string> => {
    const found = await openCentreKey({ config: { stateDir }, shared: rows.of(member) });
    return publicBytesOf(found).toString('hex');
  };
  const expected = publicBytesOf(before).toString('hex');
  t.deepEqual(await Promise.all([key('a', single), key('a', single)]), [expected, expected]);
  t.is(await key('b', other), expected);
  const left = await openCentreKey({ config: { stateDir: other }, shared: outside });
  t.is(publicBytesOf(left).toString('hex'), expected, 'a member that has left the cluster');
});

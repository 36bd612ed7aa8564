import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { zstdCompressSync } from 'node:zlib';
import test, { type ExecutionContext } from 'ava';
import { ConfigError } from '#config';
import {
  BundleDirectory,
  type InstalledBundle,
  readContent,
} from '#edge/bundles/bundle-directory.ts';
import type { Pack, PackReply } from '#edge/bundles/bundle-messages.ts';
import { PackFetcher } from '#edge/bundles/fetch-pack.ts';
import {
  type BundleFile,
  decodeManifest,
  encodeManifest,
  type Manifest,
} from '#edge/bundles/manifest.ts';
import { ObjectStore } from '#edge/bundles/object-store.ts';
import { PackCache, type StoredManifest } from '#edge/bundles/pack-cache.ts';
import { compressionOptions, dictionaryFiles } from '#edge/bundles/pack-content.ts';
import { packSource } from '#edge/bundles/pack-source.ts';
import { EdgeError } from '#edge/errors.ts';
import { edgeLimits } from '#edge/limits.ts';
import { compareTexts } from '#runtime';
import { until, within } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { writeFiles } from './release-stage.ts';

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Centre without metadata: objects and packs. */
class TestCentre {
  readonly objects: ObjectStore;
  readonly packs: PackCache;

  constructor(t: ExecutionContext) {
    const directory = temporaryDirectory(t);
    this.objects = new ObjectStore(path.join(directory, 'objects'));
    this.packs = new PackCache({
      directory: path.join(directory, 'packs'),
      objects: this.objects,
      secret: randomBytes(32),
    });
  }

  async manifest(
    version: number,
    contents: Readonly<Record<string, string | Uint8Array>>,
  ): Promise<StoredManifest> {
    const files: BundleFile[] = [];
    for (const [name, content] of Object.entries(contents)) {
      const stored = await this.objects.put(Buffer.from(content));
      files.push({ path: name, ...stored, executable: name.endsWith('.sh') });
    }
    files.sort((a, b) => compareTexts(a.path, b.path));
    return storedManifest({ format: 1, centre: 'c', version, createdAt: 1, files });
  }
}

function storedManifest(manifest: Manifest): StoredManifest {
  const bytes = encodeManifest(manifest);
  return { manifest, bytes, sha256: digestOf(bytes) };
}

/** Site whose link reads parts from the cache of a centre. */
class TestSite {
  readonly directory: string;
  readonly bundles: BundleDirectory;
  readonly fetcher: PackFetcher;
  /** Paths that were read. */
  readonly gets: string[] = [];
  /** Number of bytes of parts that arrived. */
  received = 0;
  /** Changes a part on its way. */
  alter: (part: Buffer, name: string) => Buffer | undefined = (it) => it;
  /** Number of bytes after which a connection is lost. */
  cutAfter: () => number = () => Number.POSITIVE_INFINITY;

  constructor(t: ExecutionContext, centre: TestCentre) {
    this.directory = temporaryDirectory(t);
    this.bundles = new BundleDirectory(this.directory);
    this.fetcher = new PackFetcher(path.join(this.directory, 'parts'), {
      get: async (name, { from }) => {
        this.gets.push(name);
        const [, , id = '', index = ''] = name.split('/');
        const part = await centre.packs.part(id, Number(index));
        const altered = part && this.alter(part, name);
        if (altered === undefined) throw new EdgeError('ERR_SITE_LINK', 'connection lost');
        return Readable.from(this.#chunks(altered.subarray(from), this.cutAfter()));
      },
    });
  }

  async *#chunks(bytes: Buffer, cutAfter: number): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += 8192) {
      if (at >= cutAfter) throw new EdgeError('ERR_SITE_LINK', 'connection lost');
      const chunk = bytes.subarray(at, at + 8192);
      this.received += chunk.length;
      yield chunk;
    }
  }

  async install(reply: PackReply, to: StoredManifest): Promise<void> {
    const from = await this.bundles.find(await this.bundles.currentVersion());
    await this.fetcher.fetch(reply.manifest);
    const manifestBytes = await readContent(
      this.fetcher.content(reply.manifest, from?.manifestBytes ?? Buffer.alloc(0)),
      { length: to.bytes.length, sha256: to.sha256 },
    );
    const manifest = decodeManifest(manifestBytes);
    const { files } = reply;
    if (files !== undefined) await this.fetcher.fetch(files);
    const dictionary = Buffer.concat(
      dictionaryFiles(from?.manifest, manifest).map((it) =>
        readFileSync(path.join(this.bundles.pathOf(from?.version ?? 0), it.path)),
      ),
    );
    await this.bundles.install({
      manifestBytes,
      manifest,
      from,
      contents: () =>
        files === undefined ? Readable.from([]) : this.fetcher.content(files, dictionary),
    });
    await this.bundles.switchTo(manifest.version, []);
    await this.bundles.commit();
  }
}

async function refuses(
  t: ExecutionContext,
  work: Promise<unknown>,
  code: EdgeError['code'],
): Promise<void> {
  const error = await t.throwsAsync(work, { instanceOf: EdgeError });
  t.is(error.code, code, error.message);
}

/** Returns a policy of about 200 KB. One name in ten differs between versions. */
function policy(version: number): string {
  const lines = ['rules:'];
  for (let index = 0; index < 5000; index++) {
    const name = digestOf(Buffer.from(`${index} ${index % 10 === 0 ? version : 0}`)).slice(0, 16);
    lines.push(`  - allow: user-${name} run`);
  }
  return lines.join('\n');
}

test('transfers a delta of a changed policy', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const first = await centre.manifest(1, { 'etc/master': policy(1), 'tree/a.sh': '#!/bin/sh\n' });
  const second = await centre.manifest(2, { 'etc/master': policy(2), 'tree/a.sh': '#!/bin/sh\n' });
  const whole = await centre.packs.packsFor(undefined, first);
  await site.install(whole, first);
  const delta = await centre.packs.packsFor(first, second);
  await site.install(delta, second);
  t.is(readFileSync(`${site.directory}/current/etc/master`, 'utf8'), policy(2));
  t.is(statSync(`${site.directory}/current/tree/a.sh`).mode & 0o777, 0o700);
  t.is(statSync(`${site.directory}/current/etc/master`).mode & 0o777, 0o600);
  const [bytes, deltaBytes] = [whole.files?.length ?? 0, delta.files?.length ?? 0];
  const isSmall = deltaBytes < bytes / 5 && delta.manifest.length < 400;
  t.true(isSmall, `${bytes} → ${deltaBytes}, manifest ${delta.manifest.length}`);
  t.log(`policy of ${policy(1).length} bytes: ${bytes} whole, ${deltaBytes} as a delta`);
});

test('needs no pack of files if all contents are known', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const first = await centre.manifest(1, { 'etc/master': 'a: 1\n', 'tree/x': 'same' });
  const second = await centre.manifest(2, { 'etc/master': 'a: 1\n', 'tree/y': 'same' });
  await site.install(await centre.packs.packsFor(undefined, first), first);
  const reply = await centre.packs.packsFor(first, second);
  t.is(reply.files, undefined);
  await site.install(reply, second);
  t.is(readFileSync(`${site.directory}/current/tree/y`, 'utf8'), 'same');
  t.false(existsSync(`${site.directory}/current/tree/x`));
});

test('sends small packs in the reply, and larger ones in parts', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const first = await centre.manifest(1, { 'etc/master': policy(1) });
  const second = await centre.manifest(2, { 'etc/master': policy(2) });
  const whole = await centre.packs.inlined(await centre.packs.packsFor(undefined, first));
  t.true('bytes' in whole.manifest && whole.files !== undefined && 'sha256' in whole.files);
  await site.install(whole, first);
  t.true(site.gets.length > 0);
  const delta = await centre.packs.inlined(await centre.packs.packsFor(first, second));
  site.gets.length = 0;
  await site.install(delta, second);
  t.deepEqual(site.gets, []);
  t.is(readFileSync(`${site.directory}/current/etc/master`, 'utf8'), policy(2));
  const third = await centre.manifest(3, { 'etc/master': policy(3) });
  const next = await centre.packs.inlined(await centre.packs.packsFor(second, third));
  const damaged = { ...next, files: { bytes: randomBytes(500) } };
  await refuses(t, site.install(damaged, third), 'ERR_BUNDLE_CONTENT');
  t.is(await site.bundles.currentVersion(), 2);
});

test('a change of a few of many files costs little more than their digests', (t) => {
  const manifestOfVersion = (version: number): Buffer =>
    storedManifest(
      manifestOf(
        Array.from({ length: 1000 }, (_, index) => ({
          path: `tree/srv/salt/files/directory-${index % 16}/file-${index}.conf`,
          sha256: digestOf(Buffer.from(`${index} ${index % 50 === 0 ? version : 0}`)),
        })),
      ),
    ).bytes;
  const [first, second] = [manifestOfVersion(1), manifestOfVersion(2)];
  const delta = zstdCompressSync(second, compressionOptions(second.length, first));
  t.true(delta.length < 20 * 32 * 1.6, `${delta.length} bytes`);
});

test('transfers no byte twice when the connection is cut', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const content = randomBytes(2_000_000);
  const bundle = await centre.manifest(1, { 'etc/master': 'a: 1\n', 'tree/image': content });
  const reply = await centre.packs.packsFor(undefined, bundle);
  let opened = 0;
  site.cutAfter = () => {
    opened += 1;
    return opened % 4 === 0 ? 8192 * (opened % 7) : Number.POSITIVE_INFINITY;
  };
  let cuts = 0;
  for (let isDone = false; !isDone; ) {
    try {
      await site.install(reply, bundle);
      isDone = true;
    } catch (error) {
      t.true(error instanceof EdgeError && error.code === 'ERR_SITE_LINK', String(error));
      cuts += 1;
    }
  }
  t.true(cuts >= 4, `${cuts} cuts`);
  t.is(site.received, (reply.files?.length ?? 0) + reply.manifest.length);
  t.deepEqual(readFileSync(`${site.directory}/current/tree/image`), content);
});

test('reads a part again from its beginning if the bytes before a cut were altered', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const content = randomBytes(100_000);
  const bundle = await centre.manifest(1, { 'etc/master': 'a: 1\n', 'tree/image': content });
  const reply = await centre.packs.packsFor(undefined, bundle);
  site.alter = (part) =>
    part.length > 16_384 ? Buffer.concat([Buffer.alloc(8192), part.subarray(8192)]) : part;
  site.cutAfter = () => 16_384;
  await refuses(t, site.install(reply, bundle), 'ERR_SITE_LINK');
  site.alter = (part) => part;
  site.cutAfter = () => Number.POSITIVE_INFINITY;
  await site.install(reply, bundle);
  t.deepEqual(readFileSync(`${site.directory}/current/tree/image`), content);
});

test('makes a pack once for concurrent sites, and its id cannot be guessed', async (t) => {
  const centre = new TestCentre(t);
  const bundle = await centre.manifest(1, { 'etc/master': policy(1) });
  const replies = await Promise.all([1, 2, 3].map(() => centre.packs.packsFor(undefined, bundle)));
  t.is(new Set(replies.map(({ files }) => files?.id)).size, 1);
  const other = new TestCentre(t);
  const same = await other.manifest(1, { 'etc/master': policy(1) });
  t.not((await other.packs.packsFor(undefined, same)).files?.id, replies[0]?.files?.id);
  for (const id of ['..', '../objects', 'new', 'a'.repeat(64)]) {
    t.is(await centre.packs.part(id, 0), undefined);
  }
  t.is(await centre.packs.part(replies[0]?.files?.id ?? '', 1000), undefined);
});

test('requests with unknown ids compute the places of packs once', async (t) => {
  const centre = new TestCentre(t);
  let reads = 0;
  const manifests: StoredManifest[] = [];
  for (let version = 1; version <= 10; version += 1) {
    const { sha256, ...rest } = await centre.manifest(version, {});
    manifests.push({
      ...rest,
      get sha256() {
        reads += 1;
        return sha256;
      },
    });
  }
  const packs = new PackCache({
    directory: temporaryDirectory(t),
    objects: centre.objects,
    secret: randomBytes(32),
    manifests: async () => manifests,
  });
  const ask = () => packs.part(randomBytes(32).toString('hex'), 0);
  t.is(await ask(), undefined);
  reads = 0;
  for (let count = 0; count < 50; count += 1) t.is(await ask(), undefined);
  // The digests of the 10 manifests are compared, and the manifest is searched.
  t.true(reads <= 50 * 20, `${reads} reads`);
});

test('compares two releases once, however often sites ask for their packs', async (t) => {
  const centre = new TestCentre(t);
  const contents = Object.fromEntries(
    Array.from({ length: 50 }, (_, count) => [`tree/${count}`, `${count}`]),
  );
  const former = await centre.manifest(1, contents);
  const { manifest, ...rest } = await centre.manifest(2, { ...contents, 'tree/new': 'new' });
  let reads = 0;
  const next: StoredManifest = {
    ...rest,
    get manifest() {
      reads += 1;
      return manifest;
    },
  };
  const first = await centre.packs.packsFor(former, next);
  reads = 0;
  for (let count = 0; count < 20; count += 1) {
    t.deepEqual(await centre.packs.packsFor(former, next), first);
  }
  t.is(reads, 0);
  t.truthy(first.files);
  t.is((await centre.packs.packsFor(next, next)).files, undefined);
});

test('compresses few packs at a time', async (t) => {
  const centre = new TestCentre(t);
  const { total = 0 } = edgeLimits.compressedPacks;
  let reading = 0;
  let most = 0;
  const slow = new (class extends ObjectStore {
    override async fileOf(sha256: string): Promise<string> {
      reading += 1;
      most = Math.max(most, reading);
      const file = await super.fileOf(sha256);
      for (let turn = 0; turn < 20; turn += 1) await setImmediate();
      reading -= 1;
      return file;
    }
  })(path.dirname(path.dirname(centre.objects.pathOf('a'.repeat(64)))));
  const packs = new PackCache({
    directory: temporaryDirectory(t),
    objects: slow,
    secret: randomBytes(32),
  });
  const manifests: StoredManifest[] = [];
  for (let version = 1; version <= 10; version += 1) {
    manifests.push(await centre.manifest(version, { 'tree/file': `${version}` }));
  }
  const made = await Promise.all(
    manifests.map((it, index) => packs.packsFor(undefined, it, `site${index}`)),
  );
  t.is(new Set(made.map(({ files }) => files?.id)).size, 10);
  t.is(most, total);
});

/** Packs of a centre whose packs of files are created only when the test permits it. */
function heldPacks(t: ExecutionContext) {
  const centre = new TestCentre(t);
  const begun: string[] = [];
  const { promise: permitted, resolve: permit } = Promise.withResolvers<void>();
  const held = new (class extends ObjectStore {
    override async fileOf(sha256: string): Promise<string> {
      begun.push(sha256);
      await permitted;
      return super.fileOf(sha256);
    }
  })(path.dirname(path.dirname(centre.objects.pathOf('a'.repeat(64)))));
  const packs = new PackCache({
    directory: temporaryDirectory(t),
    objects: held,
    secret: randomBytes(32),
  });
  const reached = (count: number): Promise<void> =>
    until(`${count} packs`, () => begun.length >= count);
  return { centre, packs, begun, reached, permit };
}

test('a site that requests many packs delays neither those of other sites nor manifests', async (t) => {
  const { centre, packs, begun, reached, permit } = heldPacks(t);
  const manifests: StoredManifest[] = [];
  for (let version = 1; version <= 10; version += 1) {
    manifests.push(await centre.manifest(version, { 'tree/file': `${version}` }));
  }
  const last = await centre.manifest(11, { 'tree/file': 'last' });
  manifests.push(last);
  const greedy = manifests.map((it) => packs.packsFor(undefined, it, 'greedy'));
  await reached(1);
  const other = packs.packsFor(undefined, last, 'other');
  await reached(2);
  t.is(begun.at(-1), last.manifest.files[0]?.sha256);
  const empty = await centre.manifest(100, {});
  const manifestOnly = packs.packsFor(undefined, empty, 'third');
  t.is((await within('a manifest', manifestOnly)).files, undefined);
  const first = manifests[1] ?? last;
  const refused = packs.packsFor(undefined, first, 'third', false);
  await t.throwsAsync(within('the refusal', refused), { code: 'ERR_LIMIT' });
  permit();
  t.deepEqual(await other, await greedy.at(-1));
  await Promise.all(greedy);
  t.is(begun.length, manifests.length);
});

test('refuses parts and packs that do not match, and keeps the former bundle', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const first = await centre.manifest(1, { 'etc/master': 'a: 1\n' });
  await site.install(await centre.packs.packsFor(undefined, first), first);
  const second = await centre.manifest(2, {
    'etc/master': 'b: 2\n',
    'tree/x': randomBytes(200_000),
  });
  const reply = await centre.packs.packsFor(first, second);
  const flipped = (part: Buffer): Buffer => {
    const changed = Buffer.from(part);
    changed[changed.length >> 1] = (changed[changed.length >> 1] ?? 0) ^ 1;
    return changed;
  };
  site.alter = flipped;
  await refuses(t, site.install(reply, second), 'ERR_BUNDLE_CONTENT');
  site.alter = (part) => part.subarray(0, part.length - 1);
  await refuses(t, site.install(reply, second), 'ERR_BUNDLE_CONTENT');
  site.alter = (part, name) => (name.endsWith('/2') ? flipped(part) : part);
  await refuses(t, site.install(reply, second), 'ERR_BUNDLE_CONTENT');
  // Without digests of parts, the digest of the pack is decisive.
  const { parts: _parts, ...withoutParts }: Pack = reply.files ?? reply.manifest;
  await refuses(t, site.install({ ...reply, files: withoutParts }, second), 'ERR_BUNDLE_CONTENT');
  t.is(await site.bundles.currentVersion(), 1);
  site.alter = (part) => part;
  await site.install(reply, second);
  t.is(await site.bundles.currentVersion(), 2);
});

/** Installs a manifest with the given decompressed content. */
async function installContent(
  t: ExecutionContext,
  manifest: Manifest,
  content: Uint8Array,
): Promise<void> {
  const bundles = new BundleDirectory(temporaryDirectory(t));
  const { bytes } = storedManifest(manifest);
  await bundles.install({
    manifestBytes: bytes,
    manifest: decodeManifest(bytes),
    from: undefined,
    contents: () => Readable.from([content]),
  });
}

function manifestOf(files: readonly Partial<BundleFile>[]): Manifest {
  const base = {
    path: 'etc/master',
    sha256: digestOf(Buffer.from('x')),
    length: 1,
    executable: false,
  };
  const all = files.map((it) => ({ ...base, ...it }));
  return { format: 1, centre: 'c', version: 1, createdAt: 1, files: all };
}

test('refuses contents that are altered, too short or too long', async (t) => {
  const manifest = manifestOf([{}]);
  await refuses(t, installContent(t, manifest, Buffer.from('y')), 'ERR_BUNDLE_CONTENT');
  await refuses(t, installContent(t, manifest, Buffer.alloc(0)), 'ERR_BUNDLE_CONTENT');
  await refuses(t, installContent(t, manifest, Buffer.from('xx')), 'ERR_BUNDLE_CONTENT');
  await t.notThrowsAsync(installContent(t, manifest, Buffer.from('x')));
});

test('refuses contents that fail before the first of them is read', async (t) => {
  const bundles = new BundleDirectory(temporaryDirectory(t));
  const { bytes } = storedManifest(manifestOf([{ length: 200_000 }]));
  const installation = bundles.install({
    manifestBytes: bytes,
    manifest: decodeManifest(bytes),
    from: undefined,
    contents: () => new PassThrough().destroy(new Error('damaged')),
  });
  await refuses(t, installation, 'ERR_BUNDLE_CONTENT');
});

test('reads no more of a manifest than the metadata permit', async (t) => {
  const bomb = zstdCompressSync(Buffer.alloc(50_000_000));
  t.true(bomb.length < 10_000);
  let produced = 0;
  const stream = Readable.from(
    (function* () {
      for (; produced < 1000; produced++) yield Buffer.alloc(65_536);
    })(),
  );
  const expected = { length: 100, sha256: digestOf(Buffer.alloc(100)) };
  await refuses(t, readContent(stream, expected), 'ERR_BUNDLE_CONTENT');
  t.true(produced < 40, `${produced} chunks`);
  const large = { length: 17 * 2 ** 20, sha256: expected.sha256 };
  await refuses(t, readContent(Readable.from([]), large), 'ERR_BUNDLE_CONTENT');
});

test('refuses paths outside of the bundle', (t) => {
  const outside = [
    '../x',
    'etc/../../x',
    '/etc/x',
    'etc//x',
    'etc/./x',
    'etc/x/..',
    'usr/x',
    'etc',
    'tree/a\\b',
  ];
  for (const name of [
    ...outside,
    'tree/a\0b',
    'manifest.json',
    'orders.yml/x',
    `tree/${'é'.repeat(600)}`,
  ]) {
    const { bytes } = storedManifest(manifestOf([{ path: name }]));
    const error = t.throws(() => decodeManifest(bytes), { instanceOf: EdgeError }, name);
    t.is(error.code, 'ERR_BUNDLE_PATH', name);
  }
  const both = storedManifest(manifestOf([{ path: 'etc/a' }, { path: 'etc/a/b' }]));
  t.throws(() => decodeManifest(both.bytes), { code: 'ERR_BUNDLE_PATH' });
});

test('refuses manifests that are malformed or exceed a bound', (t) => {
  const malformed: readonly (readonly [string, Uint8Array])[] = [
    ['twice', storedManifest(manifestOf([{}, {}])).bytes],
    ['not sorted', storedManifest(manifestOf([{ path: 'etc/b' }, { path: 'etc/a' }])).bytes],
    ['digest', storedManifest(manifestOf([{ sha256: 'x' }])).bytes],
    ['negative', storedManifest(manifestOf([{ length: -1 }])).bytes],
    [
      'huge',
      storedManifest(
        manifestOf([
          { path: 'etc/a', length: 2 ** 32 },
          { path: 'etc/b', length: 2 ** 32 },
        ]),
      ).bytes,
    ],
    ['format', Buffer.from(JSON.stringify({ ...manifestOf([]), format: 2 }))],
    ['field', Buffer.from(JSON.stringify({ ...manifestOf([]), more: 1 }))],
    ['no JSON', Buffer.from('{')],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['too large', Buffer.alloc(17 * 2 ** 20, 32)],
  ];
  for (const [name, bytes] of malformed) {
    t.throws(() => decodeManifest(bytes), { code: 'ERR_BUNDLE_CONTENT' }, name);
  }
});

test('packs a source with everything that its options name', async (t) => {
  const centre = new TestCentre(t);
  const [source, trees] = [temporaryDirectory(t), temporaryDirectory(t)];
  writeFiles(trees, { 'srv/top.sls': '{}', 'srv/app/init.sls': 'a: {}', 'pillar/top.sls': '{}' });
  writeFiles(trees, { 'reactor/up.sls': '{}', 'other/not-named': '' });
  writeFiles(source, {
    master: `file_roots: {base: [${trees}/srv]}\npillar_roots: {base: [${trees}/pillar]}\n`,
    'master.d/reactor.conf': `reactor: [{'a/b': [${trees}/reactor/*.sls, 'salt://x.sls']}]\n`,
    'master.d/bridge.conf': 'saltbridge: {bridge: {catalog: [catalog]}}\n',
    'catalog/one.yml': '{}',
    'keys/accepted/web1': 'key',
    'keys/revoked': 'old1\n',
    'orders.yml': 'plans: {}',
    README: 'not packed',
  });
  const { files } = await packSource(source, centre.objects);
  t.deepEqual(
    files.map((it) => it.path),
    [
      'etc/catalog/one.yml',
      'etc/master',
      'etc/master.d/bridge.conf',
      'etc/master.d/reactor.conf',
      'keys/accepted/web1',
      'keys/revoked',
      'orders.yml',
      `tree${trees}/pillar/top.sls`,
      `tree${trees}/reactor/up.sls`,
      `tree${trees}/srv/app/init.sls`,
      `tree${trees}/srv/top.sls`,
    ].sort(compareTexts),
  );
});

test('refuses options of a source that a site sets itself, and mistakes', async (t) => {
  const centre = new TestCentre(t);
  const refused: Readonly<Record<string, string>> = {
    publish_port: 'publish_port: 4505\n',
    external_auth: 'external_auth: {file: {a: [test.ping]}}\n',
    include: 'include: /etc/other\n',
    'saltbridge:state_dir': 'saltbridge: {state_dir: /x}\n',
    'saltbridge:bridge:handles': 'saltbridge: {bridge: {handles: {}}}\n',
    ext_pillar: 'ext_pillar: [{git: [{x: y}]}]\n',
    nodegroups: 'nodegroups: 7\n',
  };
  for (const [key, text] of Object.entries(refused)) {
    const source = temporaryDirectory(t);
    writeFiles(source, { master: text });
    const error = await t.throwsAsync(packSource(source, centre.objects), {
      instanceOf: ConfigError,
    });
    t.true(
      error.problems.some((it) => it.key === key),
      `${key}: ${error.message}`,
    );
  }
});

test('refuses approved plans with a mistake', async (t) => {
  const centre = new TestCentre(t);
  const source = temporaryDirectory(t);
  writeFiles(source, { master: '', 'orders.yml': 'plans: {failover: {plan: db.failover}}\n' });
  await refuses(t, packSource(source, centre.objects), 'ERR_ORDER_INVALID');
});

test('refuses links and special files in a source', async (t) => {
  const centre = new TestCentre(t);
  const [source, trees] = [temporaryDirectory(t), temporaryDirectory(t)];
  writeFiles(source, { master: `file_roots: {base: [${trees}]}\n` });
  writeFiles(trees, { 'dir/a.sls': '{}' });
  symlinkSync('/etc/passwd', path.join(trees, 'dir', 'link'));
  await refuses(t, packSource(source, centre.objects), 'ERR_BUNDLE_PATH');
});

test('deletes contents that no release names', async (t) => {
  const { objects } = new TestCentre(t);
  const [one, two] = [await objects.put(Buffer.from('1')), await objects.put(Buffer.from('2'))];
  await objects.keepOnly(new Set([two.sha256]));
  t.false(existsSync(objects.pathOf(one.sha256)));
  t.true(existsSync(objects.pathOf(two.sha256)));
});

test('the sites of a process share the manifest of a release, and nothing can change it', async (t) => {
  const centre = new TestCentre(t);
  const manifest = await centre.manifest(1, { 'etc/master': 'a: 1\n', 'tree/x': 'same' });
  const found: (InstalledBundle | undefined)[] = [];
  for (const _ of [1, 2]) {
    const site = new TestSite(t, centre);
    await site.install(await centre.packs.packsFor(undefined, manifest), manifest);
    found.push(await site.bundles.find(1));
  }
  t.truthy(found[0]);
  t.is(found[0]?.manifest, found[1]?.manifest);
  t.is(found[0]?.manifestBytes, found[1]?.manifestBytes);
  const [file] = found[0]?.manifest.files ?? [];
  t.throws(() => Object.assign(file ?? {}, { path: 'etc/passwd' }), { instanceOf: TypeError });
  t.throws(() => Object.assign(found[0]?.manifest ?? {}, { files: [] }), { instanceOf: TypeError });
});

test('refuses a damaged file of the former bundle', async (t) => {
  const centre = new TestCentre(t);
  const site = new TestSite(t, centre);
  const first = await centre.manifest(1, { 'etc/master': 'a: 1\n', 'tree/x': 'same' });
  await site.install(await centre.packs.packsFor(undefined, first), first);
  writeFileSync(`${site.directory}/current/tree/x`, 'SAME');
  const second = await centre.manifest(2, { 'etc/master': 'b: 2\n', 'tree/x': 'same' });
  const reply = await centre.packs.packsFor(first, second);
  await refuses(t, site.install(reply, second), 'ERR_BUNDLE_CONTENT');
  t.is(await site.bundles.currentVersion(), 1);
});

import { zstdCompressSync } from 'node:zlib';
import test, { type ExecutionContext } from 'ava';
import { decodeMetadata, encodeMetadata } from '#edge/bundles/metadata-body.ts';
import { createSigningKey } from '#edge/bundles/tuf-keys.ts';
import { createRoot, createTimestamp, signTargets } from '#edge/bundles/tuf-metadata.ts';
import { EdgeError } from '#edge/errors.ts';
import { packLocal } from '#minion-protocol';
import { copyOf, createRepository, createSite, dayMs, type TestSite } from './tuf-stage.ts';

async function refuses(
  t: ExecutionContext,
  site: TestSite,
  version: number,
  code: EdgeError['code'],
): Promise<void> {
  const error = await t.throwsAsync(site.update(version), { instanceOf: EdgeError });
  t.is(error.code, code, error.message);
}

/** Serves copied files. One of them is replaced. */
function serve(
  site: TestSite,
  files: ReadonlyMap<string, Uint8Array>,
  name?: string,
  change: (bytes: Buffer) => Uint8Array | undefined = (it) => it,
): void {
  site.served = async (asked) => {
    const found = files.get(asked);
    return found !== undefined && asked === name ? change(Buffer.from(found)) : found;
  };
}

function edit(bytes: Buffer, from: RegExp, to: string): Buffer {
  return Buffer.from(bytes.toString('utf8').replace(from, to));
}

test('accepts releases, new roots and metadata that were signed again', async (t) => {
  const centre = await createRepository('one');
  const first = await centre.publish(1);
  const site = await createSite(t, centre);
  t.is((await site.update(1)).sha256, first.sha256);
  const second = await centre.publish(2);
  t.is((await site.update(2)).sha256, second.sha256);
  const [a, b] = centre.root;
  if (a === undefined || b === undefined) throw new Error('too few keys');
  await centre.rotate([a, b, createSigningKey()], [a, b]);
  await centre.publish(3);
  await t.notThrowsAsync(site.update(3), 'the root was replaced with two of its keys');
});

test('refuses altered metadata', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  await site.update(1);
  await centre.publish(2);
  const files = await copyOf(centre);
  serve(site, files, '2.targets.json', (it) => edit(it, /rings\/all\/2/, 'rings/all/3'));
  await refuses(t, site, 2, 'ERR_BUNDLE_SIGNATURE');
  serve(site, files, 'timestamp.json', (it) =>
    edit(it, /"signatures":\[[^\]]*\]/, '"signatures":[]'),
  );
  await refuses(t, site, 2, 'ERR_BUNDLE_SIGNATURE');
  serve(site, files, 'timestamp.json', (it) => edit(it, /"version":\d+/, '"version":99'));
  await refuses(t, site, 2, 'ERR_BUNDLE_SIGNATURE');
  serve(site, files, 'timestamp.json', (it) => it.subarray(0, it.length / 2));
  await refuses(t, site, 2, 'ERR_BUNDLE_SIGNATURE');
  serve(site, files, 'timestamp.json', (it) => Buffer.concat([it, Buffer.alloc(20_000, 32)]));
  await refuses(t, site, 2, 'ERR_BUNDLE_CONTENT');
  serve(site, files, '2.targets.json', () => undefined);
  await refuses(t, site, 2, 'ERR_BUNDLE_CONTENT');
  serve(site, files);
  await t.notThrowsAsync(site.update(2), 'the unaltered metadata are accepted afterwards');
});

test('refuses older metadata and mixtures of versions', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const older = await copyOf(centre);
  const site = await createSite(t, centre);
  await centre.publish(2);
  await site.update(2);
  serve(site, older);
  await refuses(t, site, 1, 'ERR_BUNDLE_OLD');
  await centre.publish(3);
  const files = await copyOf(centre);
  const mixed = new Map(files).set(
    '3.targets.json',
    older.get('1.targets.json') ?? Buffer.alloc(0),
  );
  serve(site, mixed);
  await refuses(t, site, 3, 'ERR_BUNDLE_SIGNATURE');
  serve(site, files);
  await refuses(t, site, 2, 'ERR_BUNDLE_OLD');
  await t.notThrowsAsync(site.update(3));
});

test('refuses the metadata of another centre', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  await site.update(1);
  const other = await createRepository('two');
  for (const version of [1, 2, 3]) await other.publish(version);
  const files = await copyOf(other);
  serve(site, files);
  await refuses(t, site, 2, 'ERR_BUNDLE_CENTRE');
});

test('refuses a root that too few of the former keys have signed', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const [a] = centre.root;
  if (a === undefined) throw new Error('too few keys');
  const fresh = [createSigningKey(), createSigningKey(), createSigningKey()];
  for (const signers of [fresh, [a, ...fresh]]) {
    const error = await t.throwsAsync(centre.rotate(fresh, signers), { instanceOf: EdgeError });
    t.is(error.code, 'ERR_BUNDLE_SIGNATURE');
  }
  const site = await createSite(t, centre);
  const content = {
    version: 2,
    centre: 'one',
    keys: {
      root: fresh.map((it) => it.publicKey),
      targets: [centre.targets.publicKey],
      snapshot: [centre.targets.publicKey],
      timestamp: [centre.targets.publicKey],
    },
  };
  const forged = await createRoot(content, [a, ...fresh], centre.clock.now);
  serve(site, (await copyOf(centre)).set('2.root.json', forged));
  await refuses(t, site, 1, 'ERR_BUNDLE_SIGNATURE');
});

test('refuses to publish targets without the signature of their key', async (t) => {
  const centre = await createRepository('one');
  for (const signers of [[], [createSigningKey()], centre.root]) {
    const error = await t.throwsAsync(centre.publish(1, signers), { instanceOf: EdgeError });
    t.is(error.code, 'ERR_BUNDLE_SIGNATURE');
  }
});

test('refuses expired metadata, and accepts them after the centre has signed again', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  await site.update(1);
  centre.clock.now += 15 * dayMs;
  await refuses(t, site, 1, 'ERR_BUNDLE_EXPIRED');
  t.true(await centre.repository.renew());
  t.false(await centre.repository.renew(), 'once a day');
  await t.notThrowsAsync(site.update(1), 'missed days are made up for');
  centre.clock.now += 80 * dayMs;
  await centre.repository.renew();
  await refuses(t, site, 1, 'ERR_BUNDLE_EXPIRED');
});

for (const [direction, difference] of [
  ['ahead', dayMs],
  ['behind', -dayMs],
] as const) {
  test(`accepts a release while the clock of the site is one day ${direction}`, async (t) => {
    const centre = await createRepository('one');
    await centre.publish(1);
    const clock = { now: centre.clock.now + difference };
    const site = await createSite(t, centre, clock);
    await t.notThrowsAsync(site.update(1));
    centre.clock.now += 3 * dayMs;
    clock.now += 3 * dayMs;
    await centre.repository.renew();
    await centre.publish(2);
    await t.notThrowsAsync(site.update(2));
  });
}

test('refuses a timestamp that an offline key has signed', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  const files = await copyOf(centre);
  const bytes = files.get('1.snapshot.json') ?? Buffer.alloc(0);
  const forged = await createTimestamp(9, { version: 1, bytes }, centre.targets, centre.clock.now);
  serve(site, files, 'timestamp.json', () => forged);
  await refuses(t, site, 1, 'ERR_BUNDLE_SIGNATURE');
});

test('keeps the error of a lost connection', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  site.served = async () => {
    throw new EdgeError('ERR_SITE_LINK', 'connection lost');
  };
  await refuses(t, site, 1, 'ERR_SITE_LINK');
});

test('updates a site with one body, whose dictionary is the metadata that the site has', async (t) => {
  const centre = await createRepository('one');
  const first = await centre.publish(1);
  const site = await createSite(t, centre);
  const whole = await site.updateAtOnce(1);
  t.is(whole.sha256, first.sha256);
  t.deepEqual(whole.asked, []);
  t.is(whole.known, 1, 'the root of the ticket');
  await centre.publish(2);
  const next = await site.updateAtOnce(2);
  t.is(next.known, 3);
  t.deepEqual(next.asked, []);
  t.true(next.bytes < 600, `${next.bytes} bytes`);
  const [a, b] = centre.root;
  if (a === undefined || b === undefined) throw new Error('too few keys');
  await centre.rotate([a, b, createSigningKey()], [a, b]);
  for (const version of [3, 4, 5, 6, 7]) await centre.publish(version);
  const late = await site.updateAtOnce(7);
  t.is(late.known, 1, 'the centre has deleted the targets and the snapshot of the site');
  t.deepEqual(late.asked, []);
});

test('reads roots one by one if they do not fit into a body', async (t) => {
  const centre = await createRepository('one');
  const site = await createSite(t, centre);
  const [a, b] = centre.root;
  if (a === undefined || b === undefined) throw new Error('too few keys');
  for (let count = 0; count < 120; count += 1) {
    await centre.rotate([a, b, createSigningKey()], [a, b]);
  }
  await centre.publish(1);
  const { asked } = await site.updateAtOnce(1);
  t.true(asked.length > 0 && asked.length < 60, `${asked.length} files`);
  t.true(asked.every((name) => name.endsWith('.root.json')));
});

test('refuses a body that is altered, too large, or does not match the metadata of the site', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  await site.updateAtOnce(1);
  await centre.publish(2);
  const flip = (body: Buffer): Buffer => {
    const last = body.length - 8;
    body[last] = (body[last] ?? 0) ^ 1;
    return body;
  };
  const bodies: readonly ((body: Buffer) => Uint8Array)[] = [
    flip,
    (body) => body.subarray(0, body.length / 2),
    () => zstdCompressSync(Buffer.alloc(50_000_000)),
    () => zstdCompressSync(packLocal('text')),
    () => zstdCompressSync(packLocal([1, ['../root.json', Buffer.from('{}')]])),
    () => zstdCompressSync(packLocal([1, ['1.root.json', 'text']])),
  ];
  for (const alter of bodies) {
    const error = await t.throwsAsync(site.updateAtOnce(2, alter), { instanceOf: EdgeError });
    t.is(error.code, 'ERR_BUNDLE_CONTENT');
  }
  const { body } = await centre.repository.update([1, 1, 1]);
  t.throws(() => decodeMetadata(body, Buffer.from('other metadata')), {
    code: 'ERR_BUNDLE_CONTENT',
  });
  await t.notThrowsAsync(site.updateAtOnce(2));
});

test('verifies the metadata of a body', async (t) => {
  const centre = await createRepository('one');
  await centre.publish(1);
  const site = await createSite(t, centre);
  const other = await createRepository('two');
  await other.publish(1);
  const { body } = await other.repository.update([]);
  const forged = decodeMetadata(body, Buffer.alloc(0));
  const files = new Map(forged.files);
  files.delete('1.root.json');
  const changed = await encodeMetadata({ root: 1, files }, Buffer.alloc(0));
  const altered = (): Uint8Array => changed;
  const error = await t.throwsAsync(site.updateAtOnce(1, altered), { instanceOf: EdgeError });
  t.is(error.code, 'ERR_BUNDLE_CENTRE');
});

test('equal updates are compressed once, until the next publication', async (t) => {
  const { repository, publish } = await createRepository('one');
  await publish(1);
  const first = await repository.update([1, 7, 7]);
  t.is(first.known, 1, 'a version that the centre lacks is no dictionary');
  const root = (await repository.file('1.root.json')) ?? Buffer.alloc(0);
  t.deepEqual(
    [...decodeMetadata(first.body, root).files.keys()],
    ['timestamp.json', '1.snapshot.json', '1.targets.json'],
  );
  t.is((await repository.update([1, 9, 9])).body, first.body);
  await publish(2);
  t.not((await repository.update([1, 7, 7])).body, first.body);
});

test('metadata are compressed in another thread, and once for sites that ask at the same time', async (t) => {
  const files = new Map([['timestamp.json', Buffer.alloc(10_000, 1)]]);
  const encoded = encodeMetadata({ root: 1, files }, Buffer.alloc(180_000, 2));
  // Reactions of promises run before results of other threads.
  const isEncoded = await Promise.race([encoded.then(() => true), endOfReactions()]);
  t.false(isEncoded);
  t.is(decodeMetadata(await encoded, Buffer.alloc(180_000, 2)).files.size, 1);
  const { repository, publish } = await createRepository('one');
  await publish(1);
  const [one, other] = await Promise.all([repository.update([]), repository.update([])]);
  t.is(one.body, other.body);
});

/** Resolves after all reactions of promises that can run without waiting. */
async function endOfReactions(): Promise<false> {
  for (let count = 0; count < 100; count += 1) await Promise.resolve();
  return false;
}

test('metadata that are written at the same time never replace each other', async (t) => {
  const { repository, publish, rows, targets, clock } = await createRepository('one');
  await publish(1);
  clock.now += 2 * dayMs;
  const renewed = await Promise.all([repository.renew(), repository.renew()]);
  t.deepEqual(renewed.toSorted(), [false, true]);
  const target = { ring: 'all', version: 2, length: 10, sha256: '0'.repeat(64) };
  const signed = await signTargets(await repository.proposeTargets([target]), [targets]);
  const operations = await repository.publish(signed);
  clock.now += 2 * dayMs;
  t.true(await repository.renew());
  await t.throwsAsync(rows.write([...operations]), { code: 'ERR_REVISION' });
  await repository.requireTargets(signed);
  await rows.write([...(await repository.publish(signed))]);
  await t.throwsAsync(rows.write([...operations]), { code: 'ERR_REVISION' });
  await t.throwsAsync(repository.requireTargets(signed), { code: 'ERR_BUNDLE_OLD' });
});

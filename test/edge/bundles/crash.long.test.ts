import { createHash } from 'node:crypto';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { BundleDirectory } from '#edge/bundles/bundle-directory.ts';
import { encodeManifest, type Manifest } from '#edge/bundles/manifest.ts';
import { packedFiles } from '#edge/bundles/pack-content.ts';
import { compareTexts } from '#runtime';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { runUntilKilled } from '../run-until-killed.ts';

const child = fileURLToPath(new URL('crash-child.ts', import.meta.url));

type Contents = Readonly<Record<string, string>>;

/** Returns the contents of a version: shared, changed, added and removed files. */
function contentsOf(version: number): Contents {
  const files: [string, string][] = [['etc/master', `# version ${version}\n`]];
  for (let index = 0; index < 12; index++) {
    const isShared = index % 3 === 0;
    files.push([
      `tree/srv/d${index % 4}/f${index}`,
      isShared ? `same ${index}` : `${version} ${index}`,
    ]);
  }
  if (version === 1) files.push(['tree/old/only', 'removed later']);
  else files.push(['tree/new/a/only', 'added'], ['tree/new/b/copy', 'added']);
  return Object.fromEntries(files);
}

function manifestOf(version: number): Manifest {
  const files = Object.entries(contentsOf(version))
    .map(([name, content]) => ({
      path: name,
      sha256: createHash('sha256').update(content).digest('hex'),
      length: Buffer.byteLength(content),
      executable: false,
    }))
    .sort((a, b) => compareTexts(a.path, b.path));
  return { format: 1, centre: 'c', version, createdAt: 1, files };
}

async function prepare(directory: string): Promise<void> {
  const bundles = new BundleDirectory(directory);
  const manifest = manifestOf(1);
  const contents = contentsOf(1);
  await bundles.install({
    manifestBytes: encodeManifest(manifest),
    manifest,
    from: undefined,
    contents: () =>
      Readable.from(
        packedFiles(undefined, manifest).map((it) => Buffer.from(contents[it.path] ?? '')),
      ),
  });
  await bundles.switchTo(1, []);
  await bundles.commit();
  writeFileSync(path.join(directory, 'manifest-2.json'), encodeManifest(manifestOf(2)));
  writeFileSync(path.join(directory, 'contents.json'), JSON.stringify(contentsOf(2)));
}

function run(directory: string, killAt: number, mode: string): Promise<string> {
  return runUntilKilled(child, [directory, String(killAt), mode]);
}

/** Returns the version in use, after it has compared all files with those of the version. */
async function versionInUse(directory: string, bundles: BundleDirectory): Promise<number> {
  const version = await bundles.currentVersion();
  for (const [name, content] of Object.entries(contentsOf(version))) {
    const found = readFileSync(path.join(directory, 'current', name), 'utf8');
    if (found !== content) throw new Error(`${name}: mixture of versions`);
  }
  const removed = version === 1 ? 'tree/new' : 'tree/old';
  if (existsSync(path.join(directory, 'current', removed))) throw new Error('mixture of versions');
  return version;
}

for (const mode of ['commit', 'revert']) {
  // EDGE-C7 of docs/consistency.md
  test(`a site uses the old or the new bundle after a crash at each step (${mode})`, async (t) => {
    t.timeout(300_000);
    const source = temporaryDirectory(t);
    await prepare(source);
    const copy = temporaryDirectory(t);
    cpSync(source, copy, { recursive: true, verbatimSymlinks: true });
    const steps = Number(await run(copy, 0, mode));
    t.true(steps >= 25, `${steps} steps`);
    const seen = new Set<number>();
    const points = Array.from({ length: steps }, (_, index) => index + 1);
    const attempt = async (killAt: number): Promise<void> => {
      const directory = temporaryDirectory(t);
      cpSync(source, directory, { recursive: true, verbatimSymlinks: true });
      await run(directory, killAt, mode);
      const bundles = new BundleDirectory(directory);
      await versionInUse(directory, bundles);
      // The first start gets one chance with a new bundle; the second one returns to the former.
      const first = await bundles.recover();
      seen.add(await versionInUse(directory, bundles));
      const second = await bundles.recover();
      const version = await versionInUse(directory, bundles);
      if (first.kind === 'pending') {
        t.is(second.kind, 'reverted');
        t.is(version, 1);
      }
      t.is((await bundles.recover()).kind, 'none');
      if (version === 2) return;
      // The site installs the release again, over what the crash has left.
      await run(directory, 0, 'commit');
      t.is(await versionInUse(directory, bundles), 2);
    };
    for (let index = 0; index < points.length; index += 2) {
      await Promise.all(points.slice(index, index + 2).map(attempt));
    }
    t.true(seen.has(1));
    if (mode === 'commit') t.true(seen.has(2));
    t.log(`${steps} points`);
  });
}

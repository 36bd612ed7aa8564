/** Follows docs/release.md in a copy of this checkout. */

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { blocksRunBy, documents, relativeLinks, root } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';
import { withoutNpm } from './helpers/packed-project.ts';
import { Shell } from './helpers/shell.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const blocks = blocksRunBy('test/release.test.ts');
const isAsked = process.env.SALTBRIDGE_PACKAGES !== undefined;
const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;
const tools = ['dpkg-deb', 'mmdebstrap', 'podman', 'python3'];
const withTools = testWhere(
  isAsked && tools.every(has),
  isAsked ? tools.join(', ') : 'npm run campaign -- packages',
);

withTools('a release is made as docs/release.md says, and no link in it is dead', async (t) => {
  t.timeout(1_200_000);
  const checkout = path.join(temporaryDirectory(t), 'saltbridge');
  mkdirSync(checkout);
  const files = execFileSync('git', ['ls-files', '-z'], { cwd: root });
  const copy = ['--null', '--files-from=-', '--create', '--file=-'];
  const tar = execFileSync('tar', copy, { cwd: root, input: files, maxBuffer: 2 ** 30 });
  execFileSync('tar', ['--extract', '--file=-'], { cwd: checkout, input: tar });
  execFileSync('cp', ['-a', realpathSync(`${root}node_modules`), `${checkout}/node_modules`]);

  const origin = 'https://me:secret@git.example.org/saltbridge.git';
  execFileSync('git', ['init', '--quiet'], { cwd: checkout });
  execFileSync('git', ['remote', 'add', 'origin', origin], { cwd: checkout });

  // Compression would take time and is not needed for the test.
  const shell = new Shell(t, checkout, { ...withoutNpm(), DPKG_DEB_OPTIONS: '-Znone' });
  t.true(blocks.length >= 5);
  for (const { text, line } of blocks) {
    const { failures, output } = await shell.type(text, 600_000);
    t.deepEqual(failures, [], `docs/release.md:${line}\n${output}`);
  }

  const made = readdirSync(checkout);
  const one = (form: RegExp): string => {
    const found = made.filter((name) => form.test(name));
    t.is(found.length, 1, String(form));
    return path.join(checkout, found[0] ?? '');
  };
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  one(/^saltbridge-.*\.tgz$/);
  one(/^saltbridge_.*_amd64\.deb$/);
  one(/^saltbridge_.*_amd64\.image\.tar$/);
  one(/^saltbridge.*\.whl$/);
  const { bomFormat, metadata, components } = JSON.parse(
    readFileSync(one(/^saltbridge\.cdx\.json$/), 'utf8'),
  );
  t.deepEqual([bomFormat, metadata.component.version], ['CycloneDX', version]);
  const listed = new Set<string>(
    components.map((it: { readonly group?: string; readonly name: string }) =>
      it.group === undefined ? it.name : `${it.group}/${it.name}`,
    ),
  );
  const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'));
  const installed = Object.entries<{ readonly dev?: boolean }>(packages)
    .filter(([place, { dev = false }]) => place !== '' && !dev)
    .map(([place]) => place.replace(/^.*node_modules\//, ''));
  t.deepEqual([...listed].sort(), [...new Set(installed)].sort());

  const packed = path.join(checkout, 'package');
  const { repository, homepage } = JSON.parse(
    readFileSync(path.join(packed, 'package.json'), 'utf8'),
  );
  t.deepEqual(repository, { type: 'git', url: 'git+https://git.example.org/saltbridge.git' });
  t.regex(homepage, /^https:/);
  t.true(existsSync(path.join(packed, 'npm-shrinkwrap.json')));
  for (const { document, link, target } of documents().flatMap(relativeLinks)) {
    t.true(existsSync(path.join(packed, document)), document);
    t.true(existsSync(path.join(packed, target)), `${document}: ${link}`);
  }
});

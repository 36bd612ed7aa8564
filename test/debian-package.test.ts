/** The Debian package: built without a network, and run from what it unpacks to. */

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';
import { installPacked } from './helpers/packed-project.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const isAsked = process.env.SALTBRIDGE_PACKAGES !== undefined;
const hasDpkg = spawnSync('dpkg-deb', ['--version']).error === undefined;
const withDpkg = testWhere(
  isAsked && hasDpkg,
  isAsked ? 'the package dpkg' : 'npm run campaign -- packages',
);

withDpkg('the Debian package has its own Node.js, the unit, man pages and the program', (t) => {
  t.timeout(180_000);
  const directory = temporaryDirectory(t);
  const [app, output, unpacked] = ['app', 'out', 'unpacked'].map((it) => path.join(directory, it));
  if (app === undefined || output === undefined || unpacked === undefined) return;
  for (const it of [app, output]) mkdirSync(it);
  installPacked(app, { withTypeScript: false });
  const built = execFileSync(`${root}packaging/build-deb`, [app, process.execPath, output], {
    encoding: 'utf8',
    // Compressing costs more than it shows.
    env: { ...process.env, DPKG_DEB_OPTIONS: '-Znone' },
  }).trim();
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  const field = (name: string): string =>
    execFileSync('dpkg-deb', ['--field', built, name], { encoding: 'utf8' }).trim();
  t.deepEqual([field('Package'), field('Version')], ['saltbridge', version]);
  execFileSync('dpkg-deb', ['--raw-extract', built, unpacked]);
  for (const file of [
    'usr/lib/systemd/system/saltbridge.service',
    'usr/lib/sysusers.d/saltbridge.conf',
    'usr/lib/tmpfiles.d/saltbridge.conf',
    'etc/logrotate.d/saltbridge',
    'usr/share/man/man1/saltbridge-master.1.gz',
    'usr/share/doc/saltbridge/copyright',
    'DEBIAN/postinst',
    'DEBIAN/postrm',
  ]) {
    t.true(existsSync(path.join(unpacked, file)), file);
  }
  // With no other Node.js in reach.
  const run = (...argv: string[]): string =>
    execFileSync(path.join(unpacked, 'usr/bin/saltbridge'), argv, {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin' },
    });
  t.is(run('--version').trim(), version);
  t.regex(run('config', 'show'), /^publish_port: 4505 # default$/m);
  for (const script of ['postinst', 'prerm', 'postrm']) {
    execFileSync('sh', ['-n', path.join(unpacked, 'DEBIAN', script)]);
  }
});

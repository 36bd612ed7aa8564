/**
 * Makes the tarball for npm: `node scripts/pack.js [DIRECTORY]`, after `npm run build`; prints its path.
 * Beside what `npm pack` takes, it has npm-shrinkwrap.json: who installs it from a registry gets the
 * versions that were tested. The file is made from the lock file, because one in a checkout would take its place.
 * `repository` is the remote `origin` of the checkout; without one there is none. What only a
 * checkout needs (`devDependencies`) is in neither file.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Without user and password. */
function readRepository() {
  const git = ['remote', 'get-url', 'origin'];
  const { status, stdout } = spawnSync('git', git, { cwd: root, encoding: 'utf8' });
  const address = stdout?.trim();
  if (status !== 0 || !/^https:/.test(address) || !URL.canParse(address)) return undefined;
  const { origin, pathname } = new URL(address);
  return { type: 'git', url: `git+${origin}${pathname}` };
}

const output = path.resolve(process.argv[2] ?? '.');
const work = mkdtempSync(path.join(tmpdir(), 'saltbridge-pack-'));
try {
  const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', work];
  // Without what an npm that runs this was told.
  const env = Object.fromEntries(Object.entries(process.env).filter(([it]) => !/^npm_/i.test(it)));
  execFileSync('npm', pack, { cwd: root, env });
  const [name = ''] = readdirSync(work);
  execFileSync('tar', ['xzf', path.join(work, name), '-C', work]);
  const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  const { devDependencies: _, ...self } = lock.packages[''];
  const others = Object.entries(lock.packages).filter(([place, { dev }]) => place !== '' && !dev);
  const shrunk = { ...lock, packages: { '': self, ...Object.fromEntries(others) } };
  writeFileSync(path.join(work, 'package/npm-shrinkwrap.json'), JSON.stringify(shrunk, null, 2));
  const description = path.join(work, 'package/package.json');
  const { devDependencies: _dev, ...fields } = JSON.parse(readFileSync(description, 'utf8'));
  writeFileSync(description, JSON.stringify({ ...fields, repository: readRepository() }, null, 2));
  const tarball = path.join(output, name);
  // As npm does: the same input makes the same bytes.
  const same = [
    '--sort=name',
    '--mtime=1985-10-26 08:15Z',
    '--owner=0',
    '--group=0',
    '--mode=a+rX',
  ];
  execFileSync('tar', [...same, '-I', 'gzip -n', '-cf', tarball, '-C', work, 'package']);
  process.stdout.write(`${tarball}\n`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

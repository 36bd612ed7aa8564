// Creates the tarball for npm: `node scripts/pack.js [--js] [DIRECTORY]`. Prints its path. The
// tarball contains the bundles of scripts/build.js instead of the sources; with --js, it contains
// no declarations. Its package.json refers to the bundles, and omits parts that only a checkout
// needs. npm-shrinkwrap.json is created from the lock file, so that an installation from a registry
// gets the tested versions. `repository` is the remote `origin` of the checkout, and is absent if
// there is none.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buildPackage } from './build.js';
import { modules, root } from './declarations.ts';

/**
 * Returns the remote `origin` for package.json, without user and password, if it is an HTTPS URL.
 */
function readRepository() {
  const git = ['remote', 'get-url', 'origin'];
  const { status, stdout } = spawnSync('git', git, { cwd: root, encoding: 'utf8' });
  const address = stdout?.trim();
  if (status !== 0 || !/^https:/.test(address) || !URL.canParse(address)) return undefined;
  const { origin, pathname } = new URL(address);
  return { type: 'git', url: `git+${origin}${pathname}` };
}

/** Returns the entries of the package in the form of package.json. */
function packedExports(withTypes) {
  const entries = modules.map(({ entry, name }) => [
    entry,
    { ...(withTypes ? { types: `./dist/types/${name}.d.ts` } : {}), default: `./dist/${name}.js` },
  ]);
  return { ...Object.fromEntries(entries), './package.json': './package.json' };
}

const withTypes = !process.argv.includes('--js');
const [directory = '.'] = process.argv.slice(2).filter((it) => it !== '--js');
const output = path.resolve(directory);
const work = mkdtempSync(path.join(tmpdir(), 'saltbridge-pack-'));
try {
  const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', work];
  // The environment variables that an npm around this script has set are removed.
  const env = Object.fromEntries(Object.entries(process.env).filter(([it]) => !/^npm_/i.test(it)));
  execFileSync('npm', pack, { cwd: root, env });
  const [name = ''] = readdirSync(work);
  execFileSync('tar', ['xzf', path.join(work, name), '-C', work]);
  const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  const { devDependencies: _, ...self } = lock.packages[''];
  const others = Object.entries(lock.packages).filter(([place, { dev }]) => place !== '' && !dev);
  const shrunk = { ...lock, packages: { '': self, ...Object.fromEntries(others) } };
  writeFileSync(path.join(work, 'package/npm-shrinkwrap.json'), JSON.stringify(shrunk, null, 2));
  const packed = path.join(work, 'package');
  await buildPackage(path.join(packed, 'dist'), { withTypes });
  const {
    allowScripts: _scripts,
    c8: _coverage,
    devDependencies: _development,
    files: _files,
    imports: _imports,
    scripts: _commands,
    ...fields
  } = JSON.parse(readFileSync(path.join(packed, 'package.json'), 'utf8'));
  const description = {
    ...fields,
    exports: packedExports(withTypes),
    repository: readRepository(),
  };
  writeFileSync(path.join(packed, 'package.json'), JSON.stringify(description, null, 2));
  const tarball = path.join(output, name);
  // As in npm, the same input results in the same bytes.
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

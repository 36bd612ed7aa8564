// Installs what is missing and compiles, so that `npm test` and `npm run demo`
// each work as the first command on a fresh clone. Only Node's own modules here.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const minimumNode = 20;

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function run(command, arguments_) {
  // npm prints to stderr, so that a demo's or a test's own output stays clean.
  const result = spawnSync(command, arguments_, { cwd: root, stdio: ['ignore', 2, 2] });
  if (result.error) fail(`${command} could not be started: ${result.error.message}`);
  if (result.status !== 0) {
    fail(`${command} ${arguments_.join(' ')} failed (exit ${result.status}); see its output above`);
  }
}

/** npm leaves a copy of the lock file in node_modules; where versions differ, install again. */
function isInstalled() {
  const installed = path.join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installed)) return false;
  const wanted = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')).packages;
  const present = JSON.parse(readFileSync(installed, 'utf8')).packages;
  return Object.entries(wanted).every(
    ([name, entry]) => name === '' || entry.optional || present[name]?.version === entry.version,
  );
}

/** Changes whenever a file does that dist/ is made from. */
function digestOfSources() {
  const { include } = JSON.parse(readFileSync(path.join(root, 'tsconfig.json'), 'utf8'));
  const rooms = include.map((pattern) => pattern.replace('/**/*.ts', ''));
  const files = ['package.json', 'package-lock.json', 'tsconfig.json', 'scripts', ...rooms].flatMap(
    (name) => {
      const place = path.join(root, name);
      if (!statSync(place).isDirectory()) return [place];
      return readdirSync(place, { recursive: true }).map((file) => path.join(place, file));
    },
  );
  const digest = createHash('sha256');
  for (const file of files.filter((it) => /\.(ts|js|json)$/.test(it)).sort()) {
    const { mtimeMs, size } = statSync(file);
    digest.update(`${file} ${mtimeMs} ${size}\n`);
  }
  return digest.digest('hex');
}

if (Number(process.versions.node.split('.')[0]) < minimumNode) {
  fail(`saltbridge needs Node.js ${minimumNode} or later; this is ${process.version}`);
}
if (!isInstalled()) {
  process.stderr.write('installing dependencies…\n');
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
}
const stamp = path.join(root, 'dist', '.sources');
const sources = digestOfSources();
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== sources) {
  rmSync(path.join(root, 'dist'), { recursive: true, force: true });
  // Types are checked by `npm run check`; that takes six times as long.
  run(process.execPath, [path.join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '--noCheck']);
  run(process.execPath, [path.join(root, 'scripts', 'bundle-packages.js')]);
  writeFileSync(stamp, sources);
}

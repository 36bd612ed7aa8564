// Runs a development command: `node scripts/run.js COMMAND [ARGUMENT…]`. COMMAND is a file of this
// repository or a program in node_modules/.bin. If dependencies are missing or outdated, it
// installs them first. It uses Node.js 24, so that each npm script works as the first command in a
// fresh clone. This file itself must run on older versions of Node.js, and imports only built-in
// modules.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/**
 * Version of Node.js to use. It runs TypeScript sources directly. Older versions cannot do this, or
 * print a warning.
 */
const wantedNode = 24;
const ownNode = path.join(root, '.node', String(wantedNode));

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/**
 * Runs a program to its end. npm prints to stderr, so that stdout contains only the output of the
 * command.
 */
function run(program, args, cwd = root) {
  const { error, status } = spawnSync(program, args, { cwd, stdio: ['ignore', 2, 2] });
  if (error) fail(`cannot start ${program}: ${error.message}`);
  if (status !== 0) {
    fail(`${program} ${args.join(' ')} failed with exit status ${status}; see its output above`);
  }
}

/** Returns the directory of the Node.js to use. `undefined` means the one that runs this file. */
function nodeDirectory() {
  if (Number(process.versions.node.split('.')[0]) >= wantedNode) return undefined;
  const directory = path.join(ownNode, 'bin');
  const binary = path.join(directory, 'node');
  if (!existsSync(binary)) {
    process.stderr.write(
      `this is Node.js ${process.versions.node}; fetching Node.js ${wantedNode} from npm into .node/\n`,
    );
    const name = `node-${process.platform}-${process.arch}`;
    mkdirSync(directory, { recursive: true });
    const quiet = ['--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
    run('npm', ['install', ...quiet, '--prefix', ownNode, `${name}@${wantedNode}`]);
    symlinkSync(path.join('..', 'node_modules', name, 'bin', 'node'), binary);
  }
  return directory;
}

/**
 * Whether node_modules contains the versions in package-lock.json. npm stores a copy of that file
 * there.
 */
function isInstalled() {
  const installed = path.join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installed)) return false;
  const wanted = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')).packages;
  const present = JSON.parse(readFileSync(installed, 'utf8')).packages;
  return Object.entries(wanted).every(
    ([name, entry]) => name === '' || entry.optional || present[name]?.version === entry.version,
  );
}

const directory = nodeDirectory();
if (directory !== undefined) process.env.PATH = `${directory}:${process.env.PATH}`;
if (!isInstalled()) {
  process.stderr.write('installing dependencies…\n');
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
}
const [command, ...args] = process.argv.slice(2);
if (command === undefined) process.exit(0);
const program = [path.join('node_modules', '.bin', command), command]
  .map((name) => path.join(root, name))
  .find((file) => existsSync(file));
if (program === undefined)
  fail(`${command}: neither a file of this repository nor a program of it`);
process.env.NODE_COMPILE_CACHE ??= path.join(root, 'node_modules', '.cache', 'compiled');
const node = directory === undefined ? process.execPath : path.join(directory, 'node');
const child = spawn(node, [program, ...args], { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? 128 + (signal === 'SIGINT' ? 2 : 15);
});

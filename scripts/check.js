// Runs all checks of the sources concurrently: `node scripts/check.js`. Prints a line for each
// check, and the output of checks that fail. Exits with status 1 if a check failed.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const program = (name) => path.join(root, 'node_modules/.bin', name);

const checks = [
  {
    name: 'lint and format',
    command: [program('biome'), 'ci', '--colors=off', '--error-on-warnings', '.'],
  },
  { name: 'types', command: [program('tsc')] },
  { name: 'unused code', command: [program('knip')] },
  { name: 'imports between rooms', command: ['scripts/imports.js'] },
  { name: 'English of comments and documents', command: ['scripts/prose.js'] },
  { name: 'links and anchors of documents', command: [program('ava'), 'test/links.test.ts'] },
  { name: 'API reports and generated pages', command: ['scripts/docs.js', '--check'] },
];

/** Runs one check. @returns whether it passed */
function run({ name, command }) {
  const started = performance.now();
  const child = spawn(process.execPath, command, {
    cwd: root,
    env: { ...process.env, NO_COLOR: '1' },
  });
  const output = [];
  child.stdout.on('data', (bytes) => output.push(bytes));
  child.stderr.on('data', (bytes) => output.push(bytes));
  return new Promise((resolve) => {
    child.on('close', (code) => {
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      const isFine = code === 0;
      if (!isFine) process.stdout.write(`\n${Buffer.concat(output)}\n`);
      process.stdout.write(`${isFine ? 'passed' : 'FAILED'}  ${name} (${seconds} s)\n`);
      resolve(isFine);
    });
  });
}

const results = await Promise.all(checks.map(run));
process.exitCode = results.every(Boolean) ? 0 : 1;

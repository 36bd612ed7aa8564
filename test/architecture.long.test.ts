/** Follows the examples of docs/architecture/adding.md in a copy of the sources. */

import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';

const root = fileURLToPath(new URL('../', import.meta.url));
const run = promisify(execFile);
const guide = readFileSync(path.join(root, 'docs/architecture/adding.md'), 'utf8');

/** Folders that the type check and the command line need, without tests, benchmarks and examples. */
const folders = Object.values(
  JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).imports,
).map((target) => String(target).split('/')[1] ?? '');

/** Returns the first TypeScript example below a heading. */
function exampleBelow(heading: string): string {
  const from = guide.indexOf(`# ${heading}\n`);
  const example = /```ts\n([^`]*(?:`[^`]+`[^`]*)*?)```/.exec(guide.slice(from))?.[1];
  if (from < 0 || example === undefined) throw new Error(`no example below "${heading}"`);
  return example;
}

const copy = mkdtempSync(path.join(tmpdir(), 'sb-architecture-'));

function insertBefore(file: string, anchor: string, text: string): void {
  const place = path.join(copy, file);
  const before = readFileSync(place, 'utf8');
  if (before.split(anchor).length !== 2) throw new Error(`${file}: not once: ${anchor}`);
  writeFileSync(
    place,
    before.replace(anchor, () => `${text}${anchor}`),
  );
}

/** Runs a program of the copy that prints one JSON value. */
async function evaluate(program: string): Promise<unknown> {
  const argv = ['--input-type=module', '--eval', program];
  const { stdout } = await run(process.execPath, argv, { cwd: copy });
  return JSON.parse(stdout);
}

test.before(() => {
  for (const folder of new Set([...folders, 'bin', 'exports', 'docs'])) {
    cpSync(path.join(root, folder), path.join(copy, folder), { recursive: true });
  }
  for (const file of ['package.json', 'tsconfig.json']) {
    cpSync(path.join(root, file), path.join(copy, file));
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'));
  insertBefore('salt/runners/test-runner.ts', "    'test.sleep':", exampleBelow('Add a runner'));
  insertBefore('config/own-options.ts', '  eventRing: option(', exampleBelow('Add an option'));
  const transports = 'heat-bridge/transports/transports.ts';
  insertBefore(
    transports,
    '  readonly AWS_SIGNAL: PreSigned',
    "  readonly PIGEON: { readonly transport: 'PIGEON'; readonly loft: string; readonly whistle: string };\n",
  );
  insertBefore(
    transports,
    'const resultBytes',
    'const isPigeon = compileSchema(Type.Object({ loft: Type.String(), whistle: Type.String() }));\n',
  );
  insertBefore(transports, '  TEMP_URL_SIGNAL: {', exampleBelow('Add a signal transport'));
  const groups = 'guests/deployments/deployment-groups.ts';
  insertBefore(groups, "  | 'ansible'", "  | 'terraform'\n");
  insertBefore(groups, '  saltbridge: { config:', exampleBelow('Add a deployment group'));
});

test.after.always(() => rmSync(copy, { recursive: true, force: true }));

test.serial('the examples compile in the files that the guide names', async (t) => {
  const cache = path.join(copy, 'cache');
  mkdirSync(cache);
  const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
  const argv = [tsc, '--tsBuildInfoFile', path.join(cache, 'tsc.tsbuildinfo')];
  await t.notThrowsAsync(run(process.execPath, argv, { cwd: copy }));
});

test.serial('the runner is in the table of its service', async (t) => {
  const program = `
    const { testRunner } = await import('#salt/runners/test-runner.ts');
    console.log(JSON.stringify(Object.keys(testRunner())));`;
  t.true(Object(await evaluate(program)).includes('test.ping'));
});

test.serial('the option appears in the schema for editors', async (t) => {
  const bin = path.join(copy, 'bin/saltbridge');
  const { stdout } = await run(process.execPath, [bin, 'config', 'schema'], { cwd: copy });
  const own = JSON.parse(stdout).properties.saltbridge.properties;
  t.like(own.pigeon_wait, { description: 'How long the master waits for a pigeon.', default: 60 });
  t.like(own.pigeon_wait.anyOf[0], { type: 'integer', minimum: 0, maximum: 3600 });
});

test.serial('the transport takes its form, and its secret is redacted', async (t) => {
  const program = `
    const { parseDestination, secretsOf, addressOf } = await import('#heat-bridge/transports/transports.ts');
    const destination = parseDestination({ loft: 'https://loft.example/', whistle: 'hidden' });
    console.log(JSON.stringify([destination.transport, addressOf(destination), secretsOf(destination)]));`;
  t.deepEqual(await evaluate(program), ['PIGEON', 'https://loft.example/', ['hidden']]);
});

test.serial('an entry of the catalog can permit the deployment group', async (t) => {
  const program = `
    const { codeGroups } = await import('#guests/deployments/deployment-groups.ts');
    console.log(JSON.stringify(codeGroups));`;
  t.true(Object(await evaluate(program)).includes('terraform'));
});

/** The unit fits what a master uses when nothing is configured. */
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { resolveMasterConfig } from '../master/index.ts';
import { DEFAULT_CONNECTION_LIMITS } from '../minion-protocol/transport/stream-listener.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const unitFile = fileURLToPath(new URL('../../packaging/saltbridge.service', import.meta.url));
const settings = new Map(
  [...readFileSync(unitFile, 'utf8').matchAll(/^(\w+)=(.*)$/gm)].map(
    ([, name = '', value = '']) => [name, value],
  ),
);

function directoriesOf(name: string, root: string): string[] {
  return (settings.get(name) ?? '').split(' ').map((it) => `${root}/${it}`);
}

test('the unit makes the folders that a master uses by default, and lets it write there', (t) => {
  const { stateDir, cachedir, socket, logFile, pkiDir } = resolveMasterConfig({});
  t.true(directoriesOf('StateDirectory', '/var/lib').includes(stateDir));
  t.true(directoriesOf('CacheDirectory', '/var/cache').includes(cachedir));
  t.true(directoriesOf('RuntimeDirectory', '/var/run').some((it) => socket.startsWith(`${it}/`)));
  t.true(directoriesOf('LogsDirectory', '/var/log').some((it) => logFile.startsWith(`${it}/`)));
  t.true(pkiDir.startsWith((settings.get('ReadWritePaths') ?? '').replace(/^-/, '')));
  t.is(settings.get('StateDirectoryMode'), '0700');
});

test('the unit permits as many files as connections are', (t) => {
  t.true(Number(settings.get('LimitNOFILE')) > 2 * DEFAULT_CONNECTION_LIMITS.maxConnections);
});

test('the unit is reloaded by the signal that the master reads its configuration at', (t) => {
  t.is(settings.get('ExecReload'), '/bin/kill -HUP $MAINPID');
});

test('the unit hears the notifications of a process of its own, and keeps no core dumps', (t) => {
  t.is(settings.get('Type'), 'notify');
  t.is(settings.get('NotifyAccess'), 'all');
  t.is(settings.get('LimitCORE'), '0');
});

test('packing builds what is packed first, and fails where that is not possible', async (t) => {
  const directory = temporaryDirectory(t);
  for (const name of ['package.json', '.npmrc']) {
    copyFileSync(
      fileURLToPath(new URL(`../../${name}`, import.meta.url)),
      path.join(directory, name),
    );
  }
  const pack = (): SpawnSyncReturns<string> =>
    spawnSync('npm', ['pack', '--dry-run', '--json'], {
      cwd: directory,
      encoding: 'utf8',
      // Without what the npm that runs the tests was told.
      env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))),
    });
  t.not(pack().status, 0, 'there is nothing to build it with');
  mkdirSync(path.join(directory, 'scripts'));
  const main = 'dist/cli/main.js';
  const build = `import { mkdirSync, writeFileSync } from 'node:fs';
mkdirSync('dist/cli', { recursive: true });
writeFileSync('${main}', '');`;
  writeFileSync(path.join(directory, 'scripts', 'setup.js'), build);
  const { status, stdout, stderr } = pack();
  t.is(status, 0, stderr);
  t.true(stdout.includes(main), stdout);
});

/** The runner `sdb` with the drivers env, yaml and json. */

import { symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { ConfigError, loadMasterConfig } from '#config';
import { createSilentLogger, type Master } from '#master';
import type { WireValue } from '#minion-protocol';
import { DiskFiles, HiddenDirectories } from '#salt/file-trees/disk-files.ts';
import { EnvironmentDriver, FilesDriver } from '#salt/runners/sdb-drivers.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

async function run(master: Master, fun: string, ...arg: readonly WireValue[]): Promise<unknown> {
  const { return: value } = await master.runners.run({ fun, arg });
  return value;
}

test('profiles of the configuration refer to variables and files, as in Salt', async (t) => {
  const directory = temporaryDirectory(t);
  const place = (name: string): string => path.join(directory, name);
  layOut(directory, {
    master: `osenv: {driver: env}
site:
  driver: yaml
  files: [${place('a.yaml')}, ${place('b.yaml')}, ${place('missing.yaml')}]
  merge: {strategy: smart, merge_list: true}
tokens: {driver: json, files: [${place('c.json')}]}
broken: {driver: yaml, files: [${place('broken.yaml')}]}
large: {driver: yaml, files: [${place('large.yaml')}]}
outside: {driver: yaml, files: [${place('link.yaml')}]}
encrypted: {driver: yaml, files: [${place('a.yaml')}], gpg: true}
vaulted: {driver: vault}
`,
    'a.yaml': 'db: {password: one, port: 5432}\nhosts: [a]\n',
    'b.yaml': 'db: {password: two}\nhosts: [b]\n1: number\n',
    'c.json': '{"big": 9007199254740991, "list": [{"name": "x"}]}',
    'broken.yaml': 'fine: 1\nsecret-4711: [\n',
    'large.yaml': `a: ${'x'.repeat(1_048_576)}`,
  });
  const elsewhere = path.join(temporaryDirectory(t), 'secret.yaml');
  writeFileSync(elsewhere, 'a: 1');
  symlinkSync(elsewhere, place('link.yaml'));
  const { config, warnings } = await loadMasterConfig(directory);
  t.deepEqual(
    warnings.map(({ kind, line, message }) => [
      kind,
      line,
      message.split(': ').slice(1).join(': '),
    ]),
    [
      [
        'not-served',
        10,
        'the sdb profile encrypted: gpg is not supported: decrypt its files in the program that writes them',
      ],
      [
        'not-served',
        11,
        'the sdb profile vaulted: the driver vault is not supported; supported drivers: env, yaml, json',
      ],
    ],
  );
  process.env.SALTBRIDGE_SDB_TEST = 'of the process';
  t.teardown(() => delete process.env.SALTBRIDGE_SDB_TEST);
  const { master, eventsDuring } = await startVectorMaster(t, { config: { sdb: config.sdb } });

  const get = (uri: string): Promise<unknown> => run(master, 'sdb.get', uri);
  t.is(await get('sdb://site/db:password'), 'two');
  t.is(await get('sdb://site/db:port'), 5432);
  t.deepEqual(await get('sdb://site/hosts'), ['a', 'b']);
  t.is(await get('sdb://site/hosts:1'), 'b');
  t.is(await get('sdb://site/1'), 'number');
  t.is(await get('sdb://site/none:such'), null);
  t.is(await get('sdb://tokens/big'), 9007199254740991);
  t.is(await get('sdb://tokens/list:name'), 'x');
  // A text that is not an address of a known profile is returned unchanged.
  for (const text of ['plain', 'sdb://site', 'sdb://site/', 'sdb://nobody/x', 'sdb://__proto__/x'])
    t.is(await get(text), text);
  t.is(await run(master, 'sdb.set', 'sdb://nobody/x', 'y'), false);

  t.is(await get('sdb://osenv/SALTBRIDGE_SDB_TEST'), 'of the process');
  t.is(await run(master, 'sdb.set', 'sdb://osenv/SALTBRIDGE_SDB_TEST', 'x'), 'of the process');
  t.is(await get('sdb://osenv/SALTBRIDGE_SDB_OTHER'), null);
  t.is(await run(master, 'sdb.set', 'sdb://osenv/SALTBRIDGE_SDB_OTHER', 'x'), 'x');
  t.is(await get('sdb://osenv/SALTBRIDGE_SDB_OTHER'), 'x');
  t.is(process.env.SALTBRIDGE_SDB_OTHER, undefined);
  t.true(await run(master, 'sdb.delete', 'sdb://osenv/SALTBRIDGE_SDB_OTHER'));
  t.false(await run(master, 'sdb.delete', 'sdb://osenv/SALTBRIDGE_SDB_TEST'));
  const made = await run(master, 'sdb.get_or_set_hash', 'sdb://osenv/made', 12, 'ab');
  t.regex(String(made), /^[ab]{12}$/);
  t.is(await get('sdb://osenv/made'), made as string);
  t.is(await run(master, 'sdb.get_or_set_hash', 'sdb://osenv/made'), made);
  t.is(await run(master, 'sdb.get_or_set_hash', 'plain'), false);

  t.regex(String(await run(master, 'sdb.set', 'sdb://site/a', 'x')), /yaml is read-only/);
  t.regex(String(await get('sdb://vaulted/a')), /driver vault is not supported/);
  t.regex(String(await get('sdb://encrypted/a')), /gpg is not supported/);
  const broken = String(await get('sdb://broken/fine'));
  t.regex(broken, /broken\.yaml: line \d+ of the file is not valid yaml$/);
  t.notRegex(broken, /4711/);
  t.regex(String(await get('sdb://large/a')), /larger than 1048576 bytes/);
  t.is(await get('sdb://outside/a'), null);

  const events = await eventsDuring(() => get('sdb://site/db:password'));
  t.deepEqual(
    events.map(({ data }) => [data.fun_args, data.return ?? null]),
    [
      [[], null],
      [[], null],
    ],
  );
});

test('stored variables are limited', async (t) => {
  const driver = new EnvironmentDriver({});
  const bounded = { code: 'ERR_ARGS', message: /at most 1000 variables of 65536 bytes/ };
  t.throws(() => driver.set('k', 'x'.repeat(65_536)), bounded);
  for (let i = 0; i < 1000; i++) driver.set(`k${i}`, 'x');
  t.throws(() => driver.set('k', 'x'), bounded);
  t.true(driver.delete('k7'));
  t.is(driver.set('k', 'x'), 'x');
  t.throws(() => driver.set('other', 5), { message: /must be text/ });
  t.is(await driver.get('toString'), null);
});

test('the variables of one user leave room for others', (t) => {
  const driver = new EnvironmentDriver({});
  const set = (user: string, count: number): void => {
    for (let i = 0; i < count; i++) driver.set(`${user}${i}`, 'x', user);
  };
  set('a', 250);
  t.throws(() => driver.set('more', 'x', 'a'), { code: 'ERR_ARGS', message: /at most 250/ });
  set('b', 250);
  set('d', 1);
  driver.delete('a1');
  set('a', 250);
  t.is(driver.set('of the operator', 'x'), 'x');
});

test('a file is parsed for the user who asks', async (t) => {
  const directory = temporaryDirectory(t);
  layOut(directory, { 'a.yaml': 'k: v\n' });
  const owners: string[] = [];
  const driver = new FilesDriver(
    'site',
    { driver: 'yaml', files: [path.join(directory, 'a.yaml')] },
    {
      files: new DiskFiles(await HiddenDirectories.open([])),
      reader: {
        read: async (_task, owner) => {
          owners.push(owner);
          return new Map([['k', 'v']]);
        },
      },
      log: createSilentLogger(),
    },
  );
  t.is(await driver.get('k', 'ann'), 'v');
  t.deepEqual(owners, ['ann']);
});

for (const [profile, problem] of [
  ['{driver: yaml}', /site: files must be set/],
  ['{driver: yaml, files: [relative.yaml]}', /site:files\[0\]: .*an absolute path/],
  [
    '{driver: env, files: [/a]}',
    /site: files: the driver `env` does not read files; remove the option `files`/,
  ],
  ['{driver: json, file: [/a]}', /file is not|files/],
] as const) {
  test(`the sdb profile ${profile} is refused`, async (t) => {
    const directory = temporaryDirectory(t);
    layOut(directory, { master: `timeout: 5\nsite: ${profile}\n` });
    const error = await t.throwsAsync(loadMasterConfig(directory), {
      instanceOf: ConfigError,
      message: problem,
    });
    t.is(error?.line, 2);
  });
}

import { existsSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createMaster, loadMasterConfig, type Master } from '../../master/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli } from './run-cli.ts';

interface Place {
  readonly configDir: string;
  readonly root: string;
  readonly startMaster: () => Promise<Master>;
}

function makePlace(t: ExecutionContext): Place {
  const root = temporaryDirectory(t);
  const configDir = path.join(root, 'etc');
  mkdirSync(configDir);
  const saltbridge = { state_dir: '/state', socket: '/run/s.sock' };
  const ports = { interface: '127.0.0.1', ret_port: 0, publish_port: 0 };
  const config = { root_dir: root, pki_dir: '/pki', sock_dir: '/run', cachedir: '/cache' };
  writeFileSync(
    path.join(configDir, 'master'),
    JSON.stringify({ ...config, ...ports, id: 'store-test', saltbridge }),
  );
  const startMaster = async (): Promise<Master> => {
    const { config } = await loadMasterConfig(configDir);
    const master = createMaster({ config });
    t.teardown(() => master.close());
    await master.start();
    return master;
  };
  return { configDir, root, startMaster };
}

test('a backup is made by the running master, and from the files when none runs', async (t) => {
  const { configDir, root, startMaster } = makePlace(t);
  const master = await startMaster();
  for (const name of ['running.mdb', 'stopped.mdb']) {
    const file = path.join(root, name);
    const made = await runCli(['store', 'backup', '-c', configDir, '--json', file]);
    t.is(made.code, 0, made.stderr);
    t.is(JSON.parse(made.stdout).file, file);
    t.is((await runCli(['store', 'check', file])).code, 0);
    await master.close();
  }
});

test('a backup replaces no file', async (t) => {
  const { configDir, root, startMaster } = makePlace(t);
  await startMaster();
  const file = path.join(root, 'b.mdb');
  writeFileSync(file, 'mine');
  const { code, stderr } = await runCli(['store', 'backup', '-c', configDir, file]);
  t.is(code, 69);
  t.regex(stderr, /is there already/);
});

test('a store is not restored over a running master, and is over a stopped one', async (t) => {
  const { configDir, root, startMaster } = makePlace(t);
  const master = await startMaster();
  const file = path.join(root, 'b.mdb');
  await runCli(['store', 'backup', '-c', configDir, file]);
  const refused = await runCli(['store', 'restore', '-c', configDir, file]);
  t.is(refused.code, 69);
  t.regex(refused.stderr, /in use by process \d+ on /);
  await master.close();
  const done = await runCli(['store', 'restore', '-c', configDir, file]);
  t.is(done.code, 0, done.stderr);
  t.regex(done.stdout, /every minion signs in once more/);
  t.true(readdirSync(path.join(root, 'state')).some((it) => it.startsWith('store-before-restore')));
  await t.notThrowsAsync(startMaster());
});

test('a restored store brings no publish key and no session key back', async (t) => {
  const { configDir, root, startMaster } = makePlace(t);
  const master = await startMaster();
  const file = path.join(root, 'b.mdb');
  await runCli(['store', 'backup', '-c', configDir, file]);
  await master.close();
  const before = await runCli(['store', 'info', '-c', configDir, '--json']);
  t.is(JSON.parse(before.stdout).entries.secrets, 1);
  await runCli(['store', 'restore', '-c', configDir, file]);
  const after = await runCli(['store', 'info', '-c', configDir, '--json']);
  t.is(JSON.parse(after.stdout).entries.secrets, undefined);
});

test('a damaged backup is told and not restored', async (t) => {
  const { configDir, root, startMaster } = makePlace(t);
  await (await startMaster()).close();
  const file = path.join(root, 'b.mdb');
  await runCli(['store', 'backup', '-c', configDir, file]);
  truncateSync(file, 5000);
  for (const command of [
    ['check', file],
    ['restore', '-c', configDir, file],
  ]) {
    const { code, stderr } = await runCli(['store', ...command]);
    t.is(code, 69);
    t.regex(stderr, /is no whole backup/);
  }
});

test('the store is checked and shown beside the running master', async (t) => {
  const { configDir, startMaster } = makePlace(t);
  await startMaster();
  const check = await runCli(['store', 'check', '-c', configDir]);
  t.is(check.code, 0, check.stderr);
  t.regex(check.stdout, /all well/);
  const info = await runCli(['store', 'info', '-c', configDir]);
  t.regex(info.stdout, /^layout +1$/m);
});

test('where no master has run there is no store to look at', async (t) => {
  const { configDir, root } = makePlace(t);
  for (const name of ['check', 'info']) {
    const { code, stderr } = await runCli(['store', name, '-c', configDir]);
    t.is(code, 69);
    t.regex(stderr, /there is no store/);
  }
  t.false(existsSync(path.join(root, 'state', 'store')));
});

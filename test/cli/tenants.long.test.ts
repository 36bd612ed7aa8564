/** `saltbridge master` with tenants: one process, several masters. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { startDaemon } from '#cli/commands/start-daemon.ts';
import { createLocalMaster } from '#cli/local-master.ts';
import { connectMaster } from '#client';
import { loadMasterConfig, type MasterConfig } from '#config';
import { end } from '../helpers/background-process.ts';
import { until, within } from '../helpers/deadline.ts';
import { layMasterKey } from '../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

interface LogLine {
  readonly msg: string;
  readonly [field: string]: unknown;
}

interface Home {
  readonly directory: string;
  configOf(tenant: string): Promise<MasterConfig>;
  /** Writes the configuration file of a tenant. */
  configure(tenant: string, more?: string): void;
  log(tenant: string): LogLine[];
  start(): Promise<number>;
}

const tenants = ['red', 'blue'];

async function makeHome(t: ExecutionContext): Promise<Home> {
  const directory = temporaryDirectory(t);
  const configOf = async (tenant: string): Promise<MasterConfig> =>
    (await loadMasterConfig(path.join(directory, tenant))).config;
  const configure = (tenant: string, more = ''): void => {
    mkdirSync(path.join(directory, tenant), { recursive: true });
    writeFileSync(
      path.join(directory, tenant, 'master'),
      `root_dir: ${directory}/${tenant}\ninterface: 127.0.0.1\npublish_port: 0\nret_port: 0\n` +
        `sock_dir: s\nlog_file: log\nlog_level: info\n${more}`,
    );
  };
  writeFileSync(
    path.join(directory, 'master'),
    `root_dir: ${directory}\nlog_file: log\nlog_level: info\n` +
      'saltbridge:\n  tenants: {red: red, blue: blue}\n',
  );
  for (const tenant of tenants) configure(tenant);
  return {
    directory,
    configOf,
    configure,
    log: (tenant) => {
      const lines = readFileSync(path.join(directory, tenant, 'log'), 'utf8').split('\n');
      return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
    },
    start: async () => {
      const argv = [program, 'master', '-c', directory, '--no-console'];
      for (const [index, tenant] of tenants.entries()) {
        layMasterKey((await configOf(tenant)).pkiDir, 6 + index);
      }
      const { socket } = await configOf('blue');
      const pid = await startDaemon(argv, { socket, logFile: path.join(directory, 'log') });
      t.teardown(() => end(pid));
      return pid;
    },
  };
}

test('one process serves every tenant on a separate socket, and its log names the tenants', async (t) => {
  const { directory, log, configOf, start } = await makeHome(t);
  const pid = await start();
  for (const tenant of tenants) {
    const api = await createLocalMaster().openApi(path.join(directory, tenant));
    t.is((await api.status()).pid, pid);
    const started = log(tenant).find(({ msg }) => msg === 'master started');
    t.is(started?.tenant, tenant);
    t.is(started?.socket, (await configOf(tenant)).socket);
  }
  await end(pid);
  for (const tenant of tenants) {
    const { socket } = await configOf(tenant);
    await t.throwsAsync(connectMaster({ socketPath: socket }).status());
  }
});

test('if one tenant cannot start, none starts, and the others release everything', async (t) => {
  const { directory, configure, start } = await makeHome(t);
  configure('blue', 'pki_dir: pki\n');
  mkdirSync(path.join(directory, 'blue/pki'), { recursive: true });
  writeFileSync(path.join(directory, 'blue/pki/master.pem'), 'no key');
  const child = spawn(process.execPath, [program, 'master', '-c', directory], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  const [code] = await within('the end of the process', once(child, 'close'));
  t.is(code, 69);
  t.regex(Buffer.concat(said).toString(), /saltbridge: tenant blue did not start: .*master\.pem/);
  configure('blue');
  await t.notThrowsAsync(start());
});

test('each tenant is reloaded by itself, and a mistake of one stays its own', async (t) => {
  const { configure, log, start } = await makeHome(t);
  const pid = await start();
  configure('red', 'auto_accept: perhaps\n');
  configure('blue', 'max_minions: 7\n');
  process.kill(pid, 'SIGHUP');
  const said = (tenant: string, msg: string): LogLine | undefined =>
    log(tenant).find((line) => line.msg === msg);
  await until(
    'both to have looked',
    () => said('blue', 'reloaded the configuration') !== undefined,
  );
  t.deepEqual(said('blue', 'reloaded the configuration')?.applied, ['max_minions']);
  const refusal = said(
    'red',
    'configuration not reloaded, because it has an error; the previous configuration stays active',
  );
  t.like(refusal, { tenant: 'red', code: 'ERR_OPTION_TYPE', option: 'auto_accept' });
  t.is(said('red', 'reloaded the configuration'), undefined);
});

test('two tenants with one port end the start with both names', async (t) => {
  const { directory, configure } = await makeHome(t);
  const ports = (name: string): string =>
    `root_dir: ${directory}/${name}\npublish_port: 24505\nret_port: 24506\n`;
  for (const tenant of tenants) {
    configure(tenant);
    writeFileSync(path.join(directory, tenant, 'master'), ports(tenant));
  }
  const child = spawn(process.execPath, [program, 'master', '-c', directory], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  const [code] = await within('the end of the process', once(child, 'close'));
  t.is(code, 78);
  t.regex(
    Buffer.concat(said).toString(),
    /publish_port of red .* and publish_port of blue .* overlap/,
  );
});

test('a command that is for one master says which tenants there are', async (t) => {
  const { directory } = await makeHome(t);
  const expected = {
    code: 'ERR_TENANTS',
    message: new RegExp(`-c ${directory}/red, -c ${directory}/blue`),
  };
  await t.throwsAsync(createLocalMaster().openApi(directory), expected);
  await t.throwsAsync(createLocalMaster().openKeys(directory), expected);
  await t.throwsAsync(createLocalMaster().openStore(directory), expected);
  const run = promisify(execFile)(process.execPath, [program, 'doctor', '-c', directory]);
  await t.throwsAsync(run, { code: 64, message: /has tenants; choose one/ });
});

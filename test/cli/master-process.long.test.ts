/** `saltbridge master` as a process: its log, its pidfile, its account and its signals. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { startDaemon } from '#cli/commands/start-daemon.ts';
import { CommandError } from '#cli/errors.ts';
import { loadMasterConfig, type MasterConfig } from '#config';
import { type Account, planUserChange } from '#server/process/account.ts';
import { end } from '../helpers/background-process.ts';
import { until } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { layMasterKey } from '../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;
const asRoot = testWhere(isRoot, 'root');
const nobody = 'nobody';

interface LogLine {
  readonly msg: string;
  readonly [field: string]: unknown;
}

interface Home {
  readonly directory: string;
  readonly config: MasterConfig;
  /** Starts the process and returns its id. */
  start(owner?: Account): Promise<number>;
  /** Returns the messages in the log file with their fields. */
  log(): LogLine[];
  configure(more: string): void;
}

/**
 * Creates a configuration directory. Processes that were started are ended at the end of the test.
 */
async function makeHome(t: ExecutionContext, more = ''): Promise<Home> {
  const directory = temporaryDirectory(t);
  // Another account must be able to enter the directory.
  chmodSync(directory, 0o755);
  const configure = (options: string): void =>
    writeFileSync(
      path.join(directory, 'master'),
      `root_dir: ${directory}\ninterface: 127.0.0.1\npublish_port: 0\nret_port: 0\n` +
        `sock_dir: s\nlog_file: log/master\nlog_level: info\n${options}`,
    );
  configure(more);
  const { config } = await loadMasterConfig(directory);
  return {
    directory,
    config,
    configure,
    log: () => {
      const lines = readFileSync(config.logFile, 'utf8').split('\n');
      return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
    },
    start: async (owner) => {
      // The other account creates its own files.
      if (owner === undefined) layMasterKey(config.pkiDir);
      const argv = [program, 'master', '-c', directory, '--no-console'];
      const pid = await startDaemon(argv, config, owner);
      t.teardown(() => end(pid));
      return pid;
    },
  };
}

test('a master in the background keeps its pidfile and its log, and takes the pidfile away', async (t) => {
  const { config, start, log } = await makeHome(t);
  const pid = await start();
  await until('the pidfile', () => readFileSync(config.pidfile, 'utf8') === String(pid));
  t.true(log().some(({ msg }) => msg === 'master started'));
  await end(pid);
  t.false(existsSync(config.pidfile));
});

test("a master that cannot start leaves the other one's pidfile alone", async (t) => {
  const { config, start } = await makeHome(t);
  const pid = await start();
  await until('the pidfile', () => readFileSync(config.pidfile, 'utf8') !== '');
  await t.throwsAsync(start(), { code: 'ERR_MASTER_NOT_READY' });
  t.is(readFileSync(config.pidfile, 'utf8'), String(pid));
});

test('the HTTP API is served where the configuration says, until the master ends', async (t) => {
  const section = 'rest_cherrypy: {port: 0, host: 127.0.0.1, disable_ssl: true}\n';
  const { start, log } = await makeHome(t, section);
  const pid = await start();
  const started = (): LogLine | undefined =>
    log().find(({ msg }) => msg === 'the HTTP API is listening');
  await until('the HTTP API', () => started() !== undefined);
  const address = `http://127.0.0.1:${started()?.port}/ready`;
  t.deepEqual(await (await fetch(address)).json(), { status: 'ready' });
  await end(pid);
  await t.throwsAsync(fetch(address));
});

test('an HTTP API that cannot be served ends the start', async (t) => {
  const { start } = await makeHome(
    t,
    'rest_cherrypy: {port: 0, ssl_crt: /nonexistent, ssl_key: /nonexistent}\n',
  );
  await t.throwsAsync(start(), { code: 'ERR_MASTER_NOT_READY' });
});

test('after SIGUSR1 the log continues in a new file', async (t) => {
  const { config, start } = await makeHome(t);
  const pid = await start();
  renameSync(config.logFile, `${config.logFile}.1`);
  process.kill(pid, 'SIGUSR1');
  await until('a new log file', () => existsSync(config.logFile));
  await end(pid);
  t.regex(readFileSync(config.logFile, 'utf8'), /"msg":"closing"/);
  t.notRegex(readFileSync(`${config.logFile}.1`, 'utf8'), /"msg":"closing"/);
});

test('SIGHUP applies reloadable options, and lists those that require a restart', async (t) => {
  const { configure, start, log } = await makeHome(t);
  const pid = await start();
  configure('log_level_logfile: debug\nkeysize: 4096\nworker_threads: 9\n');
  process.kill(pid, 'SIGHUP');
  const said = (msg: string): LogLine | undefined => log().find((line) => line.msg === msg);
  await until(
    'the reload',
    () =>
      said(
        'reloaded the configuration, but some changed options take effect after a restart only',
      ) !== undefined,
  );
  t.deepEqual(said('reloaded the configuration')?.applied, ['log_level_logfile']);
  t.deepEqual(
    said('reloaded the configuration, but some changed options take effect after a restart only')
      ?.needRestart,
    ['keysize'],
  );
  t.is(said('configuration')?.option, 'worker_threads');
});

test('SIGHUP applies renewed certificates, and names them', async (t) => {
  const { directory, configure, start, log } = await makeHome(t);
  const fixtures = fileURLToPath(new URL('../../test/fixtures/tls/', import.meta.url));
  const renew = (name: string): void => {
    copyFileSync(`${fixtures}${name}.pem`, `${directory}/c.pem`);
    copyFileSync(`${fixtures}${name}.key`, `${directory}/k.pem`);
  };
  renew('master');
  const files = `${directory}/c.pem, ssl_key: ${directory}/k.pem}`;
  configure(
    `transport: tcp\nssl: {certfile: ${directory}/c.pem, keyfile: ${directory}/k.pem}\n` +
      `rest_cherrypy: {port: 0, host: 127.0.0.1, ssl_crt: ${files}\n`,
  );
  const pid = await start();
  renew('minion');
  process.kill(pid, 'SIGHUP');
  const reloaded = (): LogLine | undefined =>
    log().find(({ msg }) => msg === 'reloaded the configuration');
  await until('the reload', () => reloaded() !== undefined);
  t.deepEqual(reloaded()?.certificates, [`${directory}/c.pem`, `${directory}/c.pem`]);
});

test('a mistake in the configuration is logged with its place, and nothing changes', async (t) => {
  const { config, configure, start, log } = await makeHome(t);
  const pid = await start();
  configure('max_minions: 5\nauto_accept: perhaps\n');
  process.kill(pid, 'SIGHUP');
  const refusal =
    'configuration not reloaded, because it has an error; the previous configuration stays active';
  const refused = (): LogLine | undefined => log().find(({ msg }) => msg === refusal);
  await until('the refusal', () => refused() !== undefined);
  t.like(refused(), {
    code: 'ERR_OPTION_TYPE',
    file: config.confFile,
    line: 9,
    option: 'auto_accept',
  });
  configure('max_minions: 5\n');
  process.kill(pid, 'SIGHUP');
  await until('the reload', () => log().some(({ msg }) => msg === 'reloaded the configuration'));
  t.deepEqual(log().find(({ msg }) => msg === 'reloaded the configuration')?.applied, [
    'max_minions',
  ]);
});

asRoot('root starts a master that is its configured user, and so is what it makes', async (t) => {
  const { config, start } = await makeHome(t, `user: ${nobody}\n`);
  const [uid = 0, gid = 0] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, nobody])));
  const pid = await start({ name: nobody, uid, gid });
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  t.not(uid, 0);
  // The real, effective, saved and file system ids are all changed, so the process cannot become
  // root again.
  t.regex(status, new RegExp(`^Uid:\t${Array(4).fill(uid).join('\t')}$`, 'm'));
  t.regex(status, new RegExp(`^Gid:\t${Array(4).fill(gid).join('\t')}$`, 'm'));
  t.notRegex(status, /^Groups:.*\b0\b/m);
  const made = [config.pkiDir, config.stateDir, config.socket, config.logFile, config.pidfile];
  for (const file of made) t.is(statSync(file).uid, uid, file);
});

asRoot('a folder that the user may not use is named with the remedy', async (t) => {
  const { config, start } = await makeHome(t, `user: ${nobody}\npki_dir: etc\n`);
  mkdirSync(config.pkiDir, { mode: 0o755 });
  // 67 is Salt's exit code for this error.
  const refused = { instanceOf: CommandError, code: 'ERR_MASTER_NOT_READY', message: /with 67/ };
  await t.throwsAsync(start(), refused);
  t.regex(
    readFileSync(config.logFile, 'utf8'),
    /the account nobody has no access to pki_dir; .*chown -R nobody:/,
  );
});

asRoot('a user without an account is refused', async (t) => {
  const { config, start } = await makeHome(t, 'user: no such user\n');
  await t.throwsAsync(start(), { code: 'ERR_MASTER_NOT_READY', message: /with 67/ });
  t.regex(readFileSync(config.logFile, 'utf8'), /user: the account no such user does not exist/);
});

test('without a user, or as that user already, there is nothing to change', (t) => {
  t.is(planUserChange(null).kind, 'none');
  if (isRoot) t.is(planUserChange('root').kind, 'none');
});

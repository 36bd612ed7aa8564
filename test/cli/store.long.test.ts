import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import { loadMasterConfig, resolveMasterConfig } from '#config';
import type { Master } from '#master';
import { auditFiles } from '#master/audit/audit-files.ts';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { createMaster } from '#server';
import { startFleet } from '../helpers/fleet.ts';
import { layMasterKey } from '../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories, startVectorMaster } from '../helpers/vector-master.ts';
import { configDirectory } from '../master/config/files.ts';
import { type CliOptions, type CliOutcome, runCli } from './run-cli.ts';

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
    layMasterKey(config.pkiDir);
    const master = createMaster({ config });
    t.teardown(() => master.close());
    await master.start();
    return master;
  };
  return { configDir, root, startMaster };
}

test('the running master writes a backup, and without a master it is made from the files', async (t) => {
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
  t.regex(stderr, /already exists/);
});

test('a store is restored only if its master is stopped', async (t) => {
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
  t.regex(done.stdout, /every minion must sign in again/);
  t.true(readdirSync(path.join(root, 'state')).some((it) => it.startsWith('store-before-restore')));
  await t.notThrowsAsync(startMaster());
});

test('a restored store contains no publish key and no session key', async (t) => {
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

test('a running master is exported, and its export becomes a new master', async (t) => {
  const { configDir, root, startMaster } = makePlace(t);
  const other = makePlace(t);
  const master = await startMaster();
  const directory = path.join(root, 'export');
  const made = await runCli(['store', 'export', '-c', configDir, directory]);
  t.is(made.code, 0, made.stderr);
  t.is((await runCli(['store', 'check', path.join(directory, 'store.mdb')])).code, 0);
  const imported = await runCli(['store', 'import', '-c', other.configDir, '--json', directory]);
  t.is(imported.code, 0, imported.stderr);
  t.true(made.stdout.includes(JSON.parse(imported.stdout).content.sha256));
  t.deepEqual(await (await other.startMaster()).keys.local(), await master.keys.local());
  const refused = await runCli(['store', 'copy', '-c', other.configDir, configDir]);
  t.is(refused.code, 69);
  t.regex(refused.stderr, /stop its master/);
});

test('cluster refound to a point in time requires a backup', async (t) => {
  const { configDir } = makePlace(t);
  for (const point of [
    ['--until', '1h'],
    ['--position', '7'],
    ['--from', 'b', '--until', 'noon'],
  ]) {
    const { code, stderr } = await runCli(['cluster', 'refound', '-c', configDir, ...point]);
    t.is(code, 64, stderr);
  }
});

test('a damaged backup is reported and not restored', async (t) => {
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
    t.regex(stderr, /is not a complete backup/);
  }
});

test('the store is checked and shown while the master is running', async (t) => {
  const { configDir, startMaster } = makePlace(t);
  await startMaster();
  const check = await runCli(['store', 'check', '-c', configDir]);
  t.is(check.code, 0, check.stderr);
  t.regex(check.stdout, /no errors/);
  const info = await runCli(['store', 'info', '-c', configDir]);
  t.regex(info.stdout, /^layout +2$/m);
});

test('the store commands fail in a directory in which no master has run', async (t) => {
  const { configDir, root } = makePlace(t);
  for (const name of ['check', 'info']) {
    const { code, stderr } = await runCli(['store', name, '-c', configDir]);
    t.is(code, 69);
    t.regex(stderr, /there is no store/);
  }
  t.false(existsSync(path.join(root, 'state', 'store')));
});

interface Site {
  readonly log: string;
  run(...argv: string[]): Promise<CliOutcome>;
  stop(): Promise<void>;
}

/** Starts a master with its own store, and runs a runner. */
async function start(t: ExecutionContext): Promise<Site> {
  const directory = configDirectory(t, { master: '' });
  const own = directories(directory);
  writeFileSync(
    path.join(directory, 'master'),
    `pki_dir: ${own.pkiDir}\nsock_dir: ${own.sockDir}\nsaltbridge:\n  state_dir: ${own.stateDir}\n  socket: ${own.socket}\n`,
  );
  const config = resolveMasterConfig(own);
  layMasterKey(config.pkiDir);
  const master = createMaster({ config, transports: [createMemoryTransport().master] });
  t.teardown(() => master.close());
  await master.start();
  await master.runners.run({ fun: 'jobs.list_jobs', user: 'fred' });
  const openApi = async () => connectMaster({ socketPath: own.socket ?? '' });
  return {
    log: path.join(own.stateDir ?? '', 'audit'),
    run: (...argv) => runCli(['audit', ...argv, '-c', directory], { openApi }),
    stop: () => master.close(),
  };
}

test('show prints and filters records while a master runs, and afterwards', async (t) => {
  const site = await start(t);
  const shown = await site.run('show', '--action', 'runner', '--since', '1h');
  t.regex(shown.stdout, /^2 \S+ local fred: runner.run runner.jobs.list_jobs done by .*\n$/);
  t.is((await site.run('show', '--who', 'nobody')).stdout, '');
  t.is((await site.run('show', '--since', '2999-01-01')).stdout, '');
  await site.stop();
  const lines = (await site.run('show', '--json')).stdout.trimEnd().split('\n');
  t.deepEqual(
    lines.map((line) => JSON.parse(line).action),
    ['master.start', 'runner.run', 'master.stop'],
  );
});

test('verify reports whether the log is unchanged, and where it is not', async (t) => {
  const site = await start(t);
  const whole = await site.run('verify');
  t.is(whole.code, 0, whole.stderr);
  t.is(whole.stdout, '2 records, 1 to 2: unchanged\n');
  await site.stop();
  t.is((await site.run('verify')).code, 0);
  const [file = ''] = await auditFiles(site.log);
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace('fred', 'eve!'));
  const altered = await site.run('verify');
  t.is(altered.code, 1);
  t.true(altered.stdout.includes(`altered: ${file}:2: `));
  writeFileSync(file, text.slice(0, text.indexOf('\n') + 1));
  t.regex((await site.run('verify')).stdout, /^end-missing: /);
  const copy = await site.run('verify', file);
  t.is(copy.code, 0);
  t.regex(copy.stdout, /cannot determine whether records after the last one were deleted/);
});

test('show refuses an invalid time', async (t) => {
  t.is((await (await start(t)).run('show', '--since', 'yesterday')).code, 64);
});

// Users on the command line, through the local socket of a running master.

interface Shell {
  readonly master: Master;
  readonly tokenFile: string;
  run(words: string, options?: CliOptions): Promise<CliOutcome>;
}

/** Starts a master whose user `fred` may run only the runners of `jobs`. */
async function open(t: ExecutionContext): Promise<Shell> {
  const { master, directory } = await startVectorMaster(t, {
    config: {
      externalAuth: { sharedsecret: { fred: ['@jobs'] } },
      eauth: { sharedsecret: 'secret' },
    },
  });
  const tokenFile = path.join(directory, 'token');
  const api = connectMaster({ socketPath: path.join(directory, 'run', 'master.sock') });
  const world: CliOptions = { openApi: async () => api, tokenFile };
  return {
    master,
    tokenFile,
    run: (words, options = {}) => runCli(words.split(' '), { ...world, ...options }),
  };
}

const asFred = '-a sharedsecret --username fred --password secret';

test('salt-run -a runs what the user may, and logs out again', async (t) => {
  const { master, run } = await open(t);
  t.is((await run(`salt-run ${asFred} jobs.list_jobs`)).code, 0);
  const refused = await run(`salt-run ${asFred} manage.up`);
  t.is(refused.code, 77);
  t.is(refused.stderr, 'saltbridge: Authorization error occurred.\n');
  t.is((await run(`salt-run --async ${asFred} manage.up`)).code, 77);
  t.deepEqual(await master.logins.list(), []);
});

test('salt -a refuses what the user may not do, in every form of the call', async (t) => {
  const { run } = await open(t);
  for (const way of ['', '--async ', '--static ', '-b 1 ', '--subset 1 ']) {
    const { code, stderr } = await run(`salt ${way}${asFred} * test.ping`);
    t.is(code, 77, way);
    t.regex(stderr, /Authorization error/);
  }
});

test('salt -a reports on standard error that rights narrowed the target, without names', async (t) => {
  const directory = temporaryDirectory(t);
  const rights = { fred: [{ m1: ['test.ping'] }], ann: [{ 'm*': ['test.ping'] }] };
  const { master } = await startFleet(t, {
    ids: ['m1', 'm2'],
    functions: { 'test.ping': () => true, 'sys.list_functions': () => ['test.ping'] },
    config: {
      externalAuth: { sharedsecret: { ...rights, eve: [{ m1: ['test.ping', 'sys.*', 'cp.*'] }] } },
      eauth: { sharedsecret: 'secret' },
    },
  });
  const options: CliOptions = {
    openApi: async () => master,
    tokenFile: path.join(directory, 'token'),
  };
  const run = (user: string, words: string): Promise<CliOutcome> =>
    runCli(
      `salt -a sharedsecret --username ${user} --password secret ${words}`.split(' '),
      options,
    );
  const notice =
    'saltbridge: your rights do not cover the whole target: the job was sent to the permitted minions only\n';
  for (const way of ['', '--async ', '--static ', '-b 1 ']) {
    const { code, stderr, stdout } = await run('fred', `${way}m* test.ping`);
    t.deepEqual([code, stderr], [0, notice], way);
    t.notRegex(stdout, /m2/, way);
  }
  t.is((await run('eve', '--subset 1 m* test.ping')).stderr, notice);
  t.is((await run('fred', 'm1 test.ping')).stderr, '');
  t.is((await run('ann', 'm* test.ping')).stderr, '');
  const list = await run('fred', '-L m1,m2 test.ping');
  t.true(list.stderr.includes('saltbridge: no accepted key, or not permitted: m2\n'));
  t.is(list.code, 1);
  t.regex(list.stdout, /m2:\n +Minion did not return. \[No response\]/);
});

test('a wrong password is refused, and the name and password are asked for', async (t) => {
  const { run } = await open(t);
  const wrong = await run('salt-run -a sharedsecret --username fred --password x jobs.list_jobs');
  t.is(wrong.code, 77);
  const questions: string[] = [];
  const answering = (answer: string) => async (question: string) => {
    questions.push(question);
    return answer;
  };
  const { code } = await run('salt-run --eauth sharedsecret jobs.list_jobs', {
    ask: answering('fred'),
    askSecret: answering('secret'),
  });
  t.is(code, 0);
  t.deepEqual(questions, ['username: ', 'password: ']);
  t.is((await run('salt-run -a sharedsecret jobs.list_jobs')).code, 64);
});

test('-T stores a token that only its owner can read, and -a alone uses it', async (t) => {
  const { master, tokenFile, run } = await open(t);
  const elsewhere = `${tokenFile}.other`;
  writeFileSync(elsewhere, 'untouched');
  symlinkSync(elsewhere, tokenFile);
  t.is((await run(`salt-run -T ${asFred} jobs.list_jobs`)).code, 0);
  t.is(readFileSync(elsewhere, 'utf8'), 'untouched');
  t.is(statSync(tokenFile).mode & 0o777, 0o600);
  t.is((await master.logins.list()).length, 1);
  t.is((await run('salt-run -a sharedsecret jobs.list_jobs')).code, 0);
  t.is((await run('salt-run -a sharedsecret manage.up')).code, 77);
  t.is((await master.logins.list()).length, 1);
  // The token file is readable by others, so it may have been written by one of them.
  chmodSync(tokenFile, 0o644);
  t.is((await run('salt-run -a sharedsecret jobs.list_jobs')).code, 64);
  chmodSync(tokenFile, 0o600);
  await master.logins.revoke({});
  t.is((await run('salt-run -a sharedsecret jobs.list_jobs')).code, 64);
  t.is((await run('salt-run -T jobs.list_jobs')).code, 64);
});

test('token list and revoke print ids of tokens, but never the tokens', async (t) => {
  const { master, run } = await open(t);
  t.is((await run('token list')).stderr, 'No tokens.\n');
  const credentials = { username: 'fred', password: 'secret', eauth: 'sharedsecret' };
  const { token, id } = await master.logins.login(credentials);
  const { stdout } = await run('token list');
  t.regex(stdout, new RegExp(`^${id} until \\d{4}-.*Z sharedsecret fred\n$`));
  const listed = await run('token list --json');
  t.is(JSON.parse(listed.stdout)[0].user, 'fred');
  t.notRegex(stdout + listed.stdout, new RegExp(token));
  t.is((await run('token revoke')).code, 64);
  t.is((await run('token revoke --all --user fred')).code, 64);
  t.is((await run('token revoke --user ann')).code, 1);
  t.is((await run(`token revoke ${id}`)).code, 0);
  await t.throwsAsync(master.logins.identify(token), { code: 'ERR_EAUTH_TOKEN' });
});

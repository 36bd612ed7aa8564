/** Users on the command line, over the local socket of a running master. */
import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '../../client/index.ts';
import type { Master } from '../../master/index.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { type CliOptions, type CliOutcome, runCli } from './run-cli.ts';

interface Shell {
  readonly master: Master;
  readonly tokenFile: string;
  run(words: string, options?: CliOptions): Promise<CliOutcome>;
}

/** `fred` may run runners of `jobs`, and nothing else. */
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

test('salt -a is refused what the user may not, in every way of asking', async (t) => {
  const { run } = await open(t);
  for (const way of ['', '--async ', '--static ', '-b 1 ', '--subset 1 ']) {
    const { code, stderr } = await run(`salt ${way}${asFred} * test.ping`);
    t.is(code, 77, way);
    t.regex(stderr, /Authorization error/);
  }
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

test('-T keeps a token that only its owner reads, and -a alone uses it', async (t) => {
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
  // Readable by others: it may be theirs.
  chmodSync(tokenFile, 0o644);
  t.is((await run('salt-run -a sharedsecret jobs.list_jobs')).code, 64);
  chmodSync(tokenFile, 0o600);
  await master.logins.revoke({});
  t.is((await run('salt-run -a sharedsecret jobs.list_jobs')).code, 64);
  t.is((await run('salt-run -T jobs.list_jobs')).code, 64);
});

test('token list and revoke show tokens, and never what lets in', async (t) => {
  const { master, run } = await open(t);
  t.is((await run('token list')).stderr, 'Nobody has a token.\n');
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

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '../../client/index.ts';
import { auditFiles } from '../../master/audit/audit-log.ts';
import { createMaster, resolveMasterConfig } from '../../master/index.ts';
import { createMemoryTransport } from '../../minion-protocol/index.ts';
import { directories } from '../helpers/vector-master.ts';
import { configDirectory } from '../master/config/files.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

interface Site {
  readonly log: string;
  run(...argv: string[]): Promise<CliOutcome>;
  stop(): Promise<void>;
}

/** A master with a store of its own that has run a runner. */
async function start(t: ExecutionContext): Promise<Site> {
  const directory = configDirectory(t, { master: '' });
  const own = directories(directory);
  writeFileSync(
    path.join(directory, 'master'),
    `pki_dir: ${own.pkiDir}\nsock_dir: ${own.sockDir}\nsaltbridge:\n  state_dir: ${own.stateDir}\n  socket: ${own.socket}\n`,
  );
  const config = resolveMasterConfig(own);
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

test('verify says that the log is whole, and where it is not', async (t) => {
  const site = await start(t);
  const whole = await site.run('verify');
  t.is(whole.code, 0, whole.stderr);
  t.is(whole.stdout, '2 records, 1 to 2: as they were written\n');
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
  t.regex(copy.stdout, /missing at the end cannot be said/);
});

test('show refuses a time that is none', async (t) => {
  t.is((await (await start(t)).run('show', '--since', 'yesterday')).code, 64);
});

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '../../client/index.ts';
import { loadMasterConfig } from '../../master/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli } from './run-cli.ts';

/** What `saltbridge doctor` does with a configuration of two lines and these. */
async function doctor(t: ExecutionContext, yaml: string, ...flags: readonly string[]) {
  const root = temporaryDirectory(t);
  const directory = path.join(root, 'etc');
  mkdirSync(directory);
  const ports = 'publish_port: 0\nret_port: 0\n';
  writeFileSync(path.join(directory, 'master'), `root_dir: ${root}\n${ports}${yaml}`);
  const openApi = async (configDirectory: string) => {
    const { config } = await loadMasterConfig(configDirectory);
    return connectMaster({ socketPath: config.socket });
  };
  return runCli(['doctor', '-c', directory, ...flags], { openApi });
}

test('doctor says that nothing is wrong, and ends with 0', async (t) => {
  const { code, stdout } = await doctor(t, '');
  t.is(code, 0);
  t.regex(stdout, /^saltbridge .*, node .*; no master runs\.\nNothing is wrong\.\n$/);
});

test('doctor says what is wrong, where, and what to do, and ends with 1', async (t) => {
  const { code, stdout } = await doctor(t, 'auto_accept: true\ntimeout: long\n');
  t.is(code, 1);
  t.regex(
    stdout,
    /^error config-problem: \S+\/master:5\n {2}The master does not start: .*\n {2}-> /m,
  );
  t.regex(stdout, /^warning auto-accept: auto_accept\n/m);
  t.true(stdout.indexOf('config-problem') < stdout.indexOf('auto-accept'));
  t.regex(stdout, /1 errors, 1 warnings\.\n$/);
});

test('doctor --json is the report', async (t) => {
  const { code, stdout } = await doctor(t, 'auto_accept: true\n', '--json');
  t.is(code, 1);
  const report = JSON.parse(stdout);
  t.false(report.isRunning);
  t.deepEqual(
    report.findings.map(({ code: found, severity }: Record<string, string>) => [found, severity]),
    [['auto-accept', 'warning']],
  );
});

import test from 'ava';
import { exitCodeOf } from '../../cli/errors.ts';
import { RemoteError } from '../../client/index.ts';
import { masterErrors } from '../../master/api/errors.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

function failWith(error: Error, ...argv: string[]): Promise<CliOutcome> {
  return runCli(['status', ...argv], {
    openApi: async () => {
      throw error;
    },
  });
}

test('what the command line does not know ends with 64 and a hint', async (t) => {
  for (const argv of [['nope'], ['salt', '--nope'], ['key'], ['status', '-l', 'x']]) {
    const { code, stderr } = await runCli(argv);
    t.is(code, 64, argv.join(' '));
    t.not(stderr, '');
  }
});

test('an error with a known code is one line and its exit code', async (t) => {
  const { code, stdout, stderr } = await failWith(
    new RemoteError('ERR_SOCKET', 'no master\x1b here'),
  );
  t.is(stderr, 'saltbridge: no master? here\n');
  t.is(stdout, '');
  t.is(code, 69);
});

test('an error that nobody foresaw ends with 70 and shows its stack to those who debug', async (t) => {
  const plain = await failWith(new TypeError('surprise'));
  t.is(plain.stderr, 'saltbridge: unexpected error: surprise\n');
  t.is(plain.code, 70);
  const debugging = await failWith(new TypeError('surprise'), '-l', 'debug');
  t.regex(debugging.stderr, /\n +at .*program\.test/);
});

test("every code of the master's errors has an exit code", (t) => {
  for (const code of Object.keys(masterErrors)) {
    t.is(typeof exitCodeOf(code), 'number', code);
  }
});

test('families of codes share an exit code', (t) => {
  t.is(exitCodeOf('ERR_KEY_FINGERPRINT'), 1);
  t.is(exitCodeOf('ERR_OPTION_TYPE'), 64);
  t.is(exitCodeOf('ERR_JOB_TIMEOUT'), 75);
  t.is(exitCodeOf('ERR_STORE_CORRUPT'), 69);
  t.is(exitCodeOf(''), undefined);
});

test('the version is told', async (t) => {
  const { code, stdout } = await runCli(['--version']);
  t.is(stdout, '1.2.3\n');
  t.is(code, 0);
});

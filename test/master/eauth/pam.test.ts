/**
 * Accounts of this machine, through the real pamtester. Skipped if it is not installed. With
 * `SALTBRIDGE_TEST_PAM=user:password`, this account logs in.
 */
import { existsSync } from 'node:fs';
import test from 'ava';
import { findAccount } from '#master/users/accounts.ts';
import { createPamBackend } from '#master/users/pam.ts';
import { runProgram } from '#master/users/run-program.ts';
import { testWhere } from '../../helpers/needs.ts';

const isThere = existsSync('/usr/bin/pamtester');
const withPam = testWhere(isThere, 'the package pamtester');
const [, account = '', password = ''] =
  /^([^:]+):(.*)$/.exec(process.env.SALTBRIDGE_TEST_PAM ?? '') ?? [];
const withAccount = testWhere(isThere && account !== '', 'SALTBRIDGE_TEST_PAM and pamtester');
const signal = (): AbortSignal => AbortSignal.timeout(30_000);

withPam('a missing account is refused, and reported as gone', async (t) => {
  const pam = createPamBackend('login');
  const nobody = { username: 'no.such.account', password: 'x' };
  t.is(await pam.authenticate(nobody, signal()), undefined);
  t.deepEqual(await pam.standingOf?.({ user: nobody.username, groups: [] }, signal()), {
    state: 'gone',
  });
});

withPam('pam is available if the program is installed', async (t) => {
  t.is(await createPamBackend('login').obstacle?.(), undefined);
});

withAccount('an account logs in with its password, and has its groups', async (t) => {
  const pam = createPamBackend('login');
  const found = await pam.authenticate({ username: account, password }, signal());
  t.is(found?.user, account);
  t.true((found?.groups.length ?? 0) > 0);
  const wrong = { username: account, password: `${password}x` };
  t.is(await pam.authenticate(wrong, signal()), undefined);
  const standing = await pam.standingOf?.({ user: account, groups: [] }, signal());
  t.is(standing?.state, 'valid');
});

test('a name of digits is not taken for the number of another account', async (t) => {
  const root = await findAccount('root', signal());
  t.is(root?.name, 'root');
  t.true(root?.groups.includes('root'));
  for (const name of ['0', '+0', '00']) t.is(await findAccount(name, signal()), undefined, name);
  t.is(await findAccount('no.such.account', signal()), undefined);
});

test('values on standard input of a program are not among its arguments', async (t) => {
  const script = 'tr "\\0" " " < /proc/$$/cmdline; cat';
  const { output } = await runProgram('sh', ['-c', script], { input: 'secret', signal: signal() });
  t.is(output.split('secret').length, 2);
  t.true(output.endsWith('secret'));
});

test('a program does not inherit our environment', async (t) => {
  process.env.SALTBRIDGE_TEST_SECRET = 'secret';
  const { output } = await runProgram('env', [], { signal: signal() });
  t.notRegex(output, /SALTBRIDGE/);
});

test('a program that takes too long is killed', async (t) => {
  const end = new AbortController();
  const running = runProgram('sleep', ['60'], { signal: end.signal });
  end.abort();
  t.is((await running).code, null);
});

test('a missing program is reported', async (t) => {
  await t.throwsAsync(runProgram('no-such-program', [], { signal: signal() }), { code: 'ENOENT' });
});

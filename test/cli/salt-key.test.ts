import test, { type ExecutionContext } from 'ava';
import type { MasterApi, UserApi } from '#master';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { pem } from '../helpers/vectors.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

/**
 * Starts a master with an invalid key. Returns functions that run salt-key for the master's own
 * user and for fred.
 */
async function startWithBadKey(t: ExecutionContext): Promise<{
  readonly master: MasterApi;
  readonly saltKey: (...argv: string[]) => Promise<CliOutcome>;
  readonly saltKeyOfFred: (...argv: string[]) => Promise<CliOutcome>;
  /** Wheel functions that fred called. */
  readonly calls: string[];
}> {
  const publicKey = pem('minion').publicPem;
  const { master } = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: 'db1', publicPem: publicKey },
      { directory: 'minions_pre', id: 'badkey', publicPem: 'this is no key' },
      { directory: 'minions_pre', id: 'web1', publicPem: publicKey },
    ],
  });
  const calls: string[] = [];
  const wheel: UserApi['wheel'] = {
    ...master.wheel,
    run: (call) => {
      calls.push(call.fun);
      return master.wheel.run(call);
    },
  };
  const token = 'a'.repeat(64);
  const about = {
    id: 'a',
    user: 'fred',
    eauth: 'file',
    groups: [],
    start: 0,
    expire: 0,
    perms: [],
  };
  const openKeys = async () => ({ keys: master.keys, close: async () => {} });
  return {
    master,
    calls,
    saltKey: (...argv) => runCli(['salt-key', ...argv], { openKeys }),
    saltKeyOfFred: (...argv) =>
      runCli(['salt-key', '--eauth', 'file', '--username=fred', '--password=secret', ...argv], {
        master: {
          logins: { login: async () => ({ ...about, token }), logout: async () => true },
          asUser: (given) => ({ ...master.asUser(given), wheel }),
        },
      }),
  };
}

async function statesOf(master: MasterApi): Promise<unknown> {
  return (await master.keys.list()).map(({ id, state }) => `${id} ${state}`).sort();
}

test('a pending file without a public key is not accepted', async (t) => {
  const { master, saltKey } = await startWithBadKey(t);
  const going = 'The following keys are going to be accepted:\nUnaccepted Keys:\n';
  const problem = 'Unable to accept invalid key for badkey.\n';
  const one = await saltKey('-y', '-a', 'badkey');
  t.deepEqual(one, { code: 0, stdout: `${going}badkey\n`, stderr: problem });
  const all = await saltKey('-y', '-A');
  const accepted = 'Key for minion web1 accepted.\n';
  t.deepEqual(all, { code: 0, stdout: `${going}badkey\nweb1\n${accepted}`, stderr: problem });
  t.deepEqual(await statesOf(master), ['badkey pending', 'db1 accepted', 'web1 accepted']);
});

test('no other way to accept keys accepts such a file', async (t) => {
  const { master } = await startWithBadKey(t);
  const invalid = { code: 'ERR_KEY_INVALID' };
  await t.throwsAsync(master.keys.accept({ match: 'badkey' }), invalid);
  const api = { master: { keys: master.keys } };
  const key = await runCli(['key', 'accept', '-y', '*'], api);
  t.deepEqual(key, {
    code: 1,
    stdout: 'Key for minion web1 accepted.\n',
    stderr: 'saltbridge: Unable to accept invalid key for badkey.\n',
  });
  const list = await runCli(['key', 'list'], api);
  t.regex(list.stdout, /^badkey \(no public key\)$/m);
  const { return: value } = await master.wheel.run({
    fun: 'key.accept',
    kwarg: { match: 'badkey' },
  });
  t.deepEqual({ ...Object(value) }, { minions_pre: ['badkey'] });
  const match = { minions_pre: ['badkey'] };
  await master.wheel.run({ fun: 'key.accept_dict', kwarg: { match } });
  t.deepEqual(await statesOf(master), ['badkey pending', 'db1 accepted', 'web1 accepted']);
});

/** Contents of pending files that are no public keys, by a name for the minion. */
const noKeys: Readonly<Record<string, string>> = {
  empty: '',
  private: pem('minion').privatePem,
  openssh: 'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ web1',
  truncated: pem('minion').publicPem.slice(0, 200),
  certificate: '-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n',
};

test('a private key and other files that are no public keys are not accepted', async (t) => {
  const publicPem = pem('minion').publicPem;
  const { master } = await startVectorMaster(t, {
    keys: [
      ...Object.entries(noKeys).map(([id, text]) => ({
        directory: 'minions_pre' as const,
        id,
        publicPem: text,
      })),
      { directory: 'minions_rejected', id: 'again', publicPem: 'no key' },
      { directory: 'minions_pre', id: 'web1', publicPem },
    ],
  });
  const openKeys = async () => ({ keys: master.keys, close: async () => {} });
  const { code, stderr } = await runCli(
    ['salt-key', '-y', '-A', '--include-all', '--include-rejected'],
    { openKeys },
  );
  t.is(code, 0);
  for (const id of [...Object.keys(noKeys), 'again']) {
    t.true(stderr.includes(`Unable to accept invalid key for ${id}.\n`), `${id}: ${stderr}`);
  }
  t.deepEqual(
    (await master.keys.list()).filter(({ state }) => state === 'accepted').map(({ id }) => id),
    ['web1'],
  );
});

test('salt-key --eauth lists and shows keys through wheel functions', async (t) => {
  const { saltKey, saltKeyOfFred, calls } = await startWithBadKey(t);
  for (const argv of [
    ['-L'],
    ['-l', 'acc'],
    ['-p', 'db1'],
    ['-f', 'db1'],
    ['-L', '--out', 'json'],
  ]) {
    t.deepEqual(await saltKeyOfFred(...argv), await saltKey(...argv), argv.join(' '));
  }
  t.deepEqual([...new Set(calls)].sort(), ['key.finger', 'key.name_match', 'key.print']);
});

test('salt-key --eauth changes keys through wheel functions', async (t) => {
  const { master, saltKeyOfFred, calls } = await startWithBadKey(t);
  const { code, stdout, stderr } = await saltKeyOfFred('-y', '-A');
  t.regex(stdout, /\nKey for minion web1 accepted\.\n$/);
  t.notRegex(stdout, /badkey accepted/);
  t.deepEqual([code, stderr], [0, 'Unable to accept invalid key for badkey.\n']);
  const removed = await saltKeyOfFred('-y', '-d', 'badkey');
  t.regex(removed.stdout, /\nKey for minion badkey deleted\.\n$/);
  const none = await saltKeyOfFred('-y', '-d', 'nosuch');
  t.is(none.stdout, "The key glob 'nosuch' does not match any unaccepted keys.\n");
  t.deepEqual(await statesOf(master), ['db1 accepted', 'web1 accepted']);
  t.true(calls.includes('key.accept') && calls.includes('key.delete'));
});

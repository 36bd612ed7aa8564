import test from 'ava';
import type { BatchRequest, BatchUpdate } from '#master';
import { AuthenticationError, MasterError } from '#master';
import { type CliOutcome, type FakeMaster, runCli, streamOf } from './run-cli.ts';

/** A wrong log-in. The expected values come from Salt 3007.13. */
const eauth = ['--username', 'fred', '--password', 'wrong'];

const noLogin: NonNullable<FakeMaster['logins']> = {
  login: async () => {
    throw new AuthenticationError('ERR_EAUTH', 'Authentication failure occurred');
  },
};

async function logIn(...argv: string[]): Promise<CliOutcome> {
  return runCli([...argv, ...eauth], { master: { logins: noLogin } });
}

test('a failed log-in prints what Salt prints, and ends with 77', async (t) => {
  const ofSalt = await logIn('salt', '-a', 'pam', '*', 'test.ping');
  t.deepEqual(ofSalt, { code: 77, stdout: 'Authentication error occurred.\n', stderr: '' });
  const others = 'Authentication failure of type "eauth" occurred for user fred.\n';
  for (const argv of [
    ['salt-run', '-a', 'pam', 'test.arg'],
    ['salt-key', '--eauth', 'pam', '-L'],
    ['salt-key', '--auth', 'pam', '-L'],
  ]) {
    t.deepEqual(await logIn(...argv), { code: 77, stdout: others, stderr: '' }, argv.join(' '));
  }
  const json = await logIn('salt-run', '-a', 'pam', 'test.arg', '--out', 'json');
  t.is(JSON.parse(json.stdout), others.trimEnd());
});

test('a log-in with an unknown eauth lists the back ends', async (t) => {
  for (const argv of [
    ['salt', '-a', 'wrong', '*', 'test.ping'],
    ['salt-run', '-a', 'wrong', 'test.arg'],
    ['salt-key', '--eauth', 'wrong', '-L'],
  ]) {
    const { code, stdout, stderr } = await logIn(...argv);
    const [first, second] = stdout.split('\n');
    t.is(first, 'The specified external authentication system "wrong" is not available');
    t.regex(second ?? '', /^Available eauth types: auto, file, .*pam/);
    t.is(stderr, 'ERROR: Authentication failed\n');
    t.is(code, 77);
  }
});

test('an unknown nodegroup prints what Salt prints', async (t) => {
  const error = new MasterError('ERR_NODEGROUP_UNKNOWN', 'Node group nosuch unavailable');
  const run = (): never => {
    throw error;
  };
  const plan = async (): Promise<never> => run();
  const master = { jobs: { run, plan } };
  const text = 'Node group nosuch unavailable in /etc/salt/master\n';
  const plain = await runCli(['salt', '-N', 'nosuch', 'test.ping'], { master });
  t.deepEqual(plain, { code: 0, stdout: text, stderr: '' });
  const preview = await runCli(['salt', '-N', 'nosuch', '--preview-target'], { master });
  t.is(preview.code, 2);
  t.is(preview.stdout, '');
  t.regex(preview.stderr, /nosuch unavailable\nERROR: No return received\n$/);
  const copy = await runCli(['salt-cp', '-N', 'nosuch', '/etc/hostname', '/tmp/x'], { master });
  t.deepEqual([copy.code, copy.stdout], [1, text]);
});

test('a nodegroup that contains itself matches no minion, and ends with 2', async (t) => {
  const run = (): never => {
    throw new MasterError('ERR_NODEGROUP_LOOP', 'nodegroup "a" contains itself: a > b > a');
  };
  const { code, stdout, stderr } = await runCli(['salt', '-N', 'a', 'test.ping'], {
    master: { jobs: { run } },
  });
  t.regex(stdout, /^No minions matched the target\. No command was sent, no jid was assigned\.\n/);
  t.regex(stderr, /a > b > a\nERROR: No return received\n$/);
  t.is(code, 2);
});

test('documentation of several functions is refused as in Salt', async (t) => {
  const problem = 'You can only get documentation for one method at one time';
  for (const argv of [
    ['salt', '*', '-d', 'a.b', 'c=d'],
    ['salt', '-d', '*', 'test.ping', 'test.arg'],
  ]) {
    const { code, stdout, stderr } = await runCli(argv);
    t.deepEqual([code, stdout], [64, '']);
    t.true(stderr.endsWith(`\nsalt: error: ${problem}.\n`), stderr);
  }
  const { code, stderr } = await runCli(['salt-run', '-d', 'jobs.active', 'test.arg']);
  t.is(code, 64);
  t.true(stderr.endsWith(`\nsalt-run: error: ${problem}\n`), stderr);
});

test('salt-key refuses arguments that belong to no option', async (t) => {
  const all = await runCli(['salt-key', '-D', 'junk', '-y']);
  const text = 'Error: Delete all takes no arguments. Use -d to delete specified keys\n';
  t.deepEqual(all, { code: 0, stdout: '', stderr: text });
  const accept = await runCli(['salt-key', '-A', 'junk', '-y']);
  t.is(accept.code, 64);
  t.regex(accept.stderr, /salt-key: error: no option accepts the argument junk\n$/);
});

test('a runner with invalid arguments prints its usage, and exits with 0', async (t) => {
  const runners: NonNullable<FakeMaster['runners']> = {
    run: async () => {
      throw new MasterError('ERR_ARGS', 'the argument jid is missing; it must be text');
    },
    docs: async () => ({ 'jobs.lookup_jid': 'Returns of a job.\n\njobs.lookup_jid(jid)' }),
  };
  const { code, stdout, stderr } = await runCli(['salt-run', 'jobs.lookup_jid'], {
    master: { runners },
  });
  t.is(
    stdout,
    '\nPassed invalid arguments: the argument jid is missing; it must be text\n\nUsage:\n\n' +
      '    Returns of a job.\n\n    jobs.lookup_jid(jid)\n',
  );
  t.deepEqual([code, stderr], [0, '']);
});

const finished: BatchUpdate = {
  type: 'finished',
  jid: '1',
  answered: [],
  silent: ['m3'],
  reconnecting: [],
  deliveries: [],
};

function returned(minion: string, value: boolean, retcode = 0): BatchUpdate {
  const rest = { fun: 'test.ping', retcode, success: true, receivedAt: 0 };
  return { type: 'return', jid: '1', minion, return: value, ...rest };
}

/** Returns a master that runs batches and stores their requests. */
function batchMaster(updates: BatchUpdate[]): { master: FakeMaster; requests: BatchRequest[] } {
  const requests: BatchRequest[] = [];
  const batch = (request: BatchRequest): AsyncIterable<BatchUpdate> => {
    requests.push(request);
    return streamOf(...updates);
  };
  return { master: { jobs: { batch } }, requests };
}

test('--batch with --static runs a batch, and prints all returns together', async (t) => {
  const { master, requests } = batchMaster([
    { type: 'gathered', minions: ['m1', 'm2', 'm3'], silent: ['m4'] },
    { type: 'published', jid: '1', minions: ['m1'], missing: [], skipped: 0 },
    returned('m1', true),
    returned('m2', false, 1),
    finished,
    { type: 'ended', left: [] },
  ]);
  const argv = ['salt', '*', 'test.ping', '-b', '1', '--static', '--out', 'json'];
  const { code, stdout, stderr } = await runCli(argv, { master });
  t.is(requests[0]?.size, 1);
  t.deepEqual(JSON.parse(stdout), { m1: true, m2: false, m3: {} });
  t.is(stderr, 'saltbridge: no answer: m4, m3\n');
  t.is(code, 0);
});

test('--batch with --static exits with 2 if the target matches no minion', async (t) => {
  const { master } = batchMaster([
    { type: 'gathered', minions: [], silent: [] },
    { type: 'ended', left: [] },
  ]);
  const { code, stdout, stderr } = await runCli(['salt', 'x', 'test.ping', '-b1', '-s'], {
    master,
  });
  t.is(stdout, 'No minions matched the target. No command was sent, no jid was assigned.\n');
  t.is(stderr, 'ERROR: No return received\n');
  t.is(code, 2);
});

test('the size of a batch is read as Python reads numbers', async (t) => {
  const sizes: readonly (readonly [string, number | string])[] = [
    [' 50%', '50%'],
    ['% 25 ', '25%'],
    [' 1 ', 1],
    ['1_0', 10],
    ['+3', 3],
  ];
  for (const [text, size] of sizes) {
    const { master, requests } = batchMaster([{ type: 'ended', left: [] }]);
    await runCli(['salt', '*', `-b${text}`, 'test.ping'], { master });
    t.is(requests[0]?.size, size, text);
  }
});

test('an option that has no effect with other options causes a warning', async (t) => {
  const publish: NonNullable<FakeMaster['jobs']>['publish'] = async () => ({
    jid: '1',
    minions: ['m1'],
    missing: [],
    skipped: 0,
  });
  const lone = await runCli(['salt', '*', 'test.ping', '--async', '--subset', '1'], {
    master: { jobs: { publish } },
  });
  t.is(
    lone.stderr,
    'saltbridge: --subset has no effect with --async; the job goes to all minions of the target\n',
  );
  const { master } = batchMaster([{ type: 'ended', left: [] }]);
  const { stderr } = await runCli(['salt', '*', 'test.ping', '--async', '-b', '1'], { master });
  t.regex(stderr, /--async has no effect with --batch/);
});

import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { KeyInfo, KeySelection, KeyState } from '#master';
import { type CliOptions, type CliOutcome, runCli, TextStream } from './run-cli.ts';

function key(id: string, state: KeyState, more: Partial<KeyInfo> = {}): KeyInfo {
  const publicKey = `-----BEGIN PUBLIC KEY-----\n${id}\n-----END PUBLIC KEY-----\n`;
  return { id, state, fingerprint: `fp:${id}`, publicKey, protocol: 3, conflicts: 0, ...more };
}

const keys = [
  key('web1', 'accepted'),
  key('web2', 'pending'),
  key('web3', 'pending'),
  key('old', 'rejected'),
  key('web9', 'denied'),
];

interface KeyOutcome extends CliOutcome {
  readonly accepted: readonly KeySelection[];
}

/** Runs `key …` with a master that treats every selection as one exact id. */
async function keyCommand(argv: string[], options: CliOptions = {}): Promise<KeyOutcome> {
  const accepted: KeySelection[] = [];
  const outcome = await runCli(['key', ...argv], {
    ...options,
    master: {
      keys: {
        list: async () => keys,
        local: async () => [{ name: 'master.pub', fingerprint: 'fp:master' }],
        accept: async (selection) => {
          accepted.push(selection);
          const ids = [selection.match].flat().filter((id) => id !== 'none');
          return ids.map((id) => ({ id, from: 'pending', to: 'accepted' }));
        },
      },
    },
  });
  return { ...outcome, accepted };
}

test('list groups by state in the order of Salt', async (t) => {
  const { stdout } = await keyCommand(['list']);
  t.is(
    stdout,
    'Accepted Keys:\nweb1\nDenied Keys:\nweb9\nUnaccepted Keys:\nweb2\nweb3\nRejected Keys:\nold\n',
  );
});

test('list marks ids that resemble others', async (t) => {
  const { stdout } = await runCli(['key', 'list'], {
    master: {
      keys: {
        list: async () => [
          { ...key('WEB1', 'pending'), alike: ['web1'], sharedWith: ['a', 'b', 'c', 'd\u001b'] },
          { ...key('a*', 'pending'), isUnusual: true },
        ],
      },
    },
  });
  t.true(stdout.includes('WEB1 (looks like web1, same key as a, b, c and 1 more)\n'), stdout);
  t.true(stdout.includes('a* (unusual id)\n'), stdout);
});

test('list --json has every state', async (t) => {
  const { stdout } = await keyCommand(['list', '--json']);
  const groups: Record<string, KeyInfo[]> = JSON.parse(stdout);
  t.deepEqual(Object.keys(groups), ['accepted', 'denied', 'pending', 'rejected']);
  t.deepEqual(
    groups.pending?.map(({ id }) => id),
    ['web2', 'web3'],
  );
});

test('list names old protocols and sign-ins with a different key, and escapes ids', async (t) => {
  const list = async (): Promise<KeyInfo[]> => [
    key('a\x1b[2J\nb', 'accepted', { protocol: 2, conflicts: 4 }),
  ];
  const { stdout } = await runCli(['key', 'list'], { master: { keys: { list } } });
  t.is(
    stdout.split('\n')[1],
    'a\\x1b[2J\\nb (protocol 2, 4 sign-ins with a key other than this one)',
  );
});

test('accept -y sends the glob unchanged', async (t) => {
  const { accepted, code, stdout } = await keyCommand(['accept', 'web*', '-y', '--include-denied']);
  t.deepEqual(accepted, [{ match: 'web*', include: ['denied'] }]);
  t.is(stdout, 'Key for minion web* accepted.\n');
  t.is(code, 0);
});

test('accept -y passes on the given fingerprint', async (t) => {
  const { accepted } = await keyCommand(['accept', 'web2', '-y', '--fingerprint', 'fp:x']);
  t.deepEqual(accepted, [{ match: 'web2', include: [], fingerprint: 'fp:x' }]);
});

test('accept asks, and names each key that was shown by id and fingerprint', async (t) => {
  const stderr = new TextStream();
  const questions: string[] = [];
  const ask = async (question: string): Promise<string> => {
    questions.push(question);
    return 'y';
  };
  const argv = ['accept', 'web*', '--include-denied'];
  const { accepted, code, stdout } = await keyCommand(argv, { ask, stderr });
  t.is(
    stderr.text,
    'The following keys are going to be accepted:\n' +
      '  web2  pending  fp:web2\n  web3  pending  fp:web3\n  web9  denied  fp:web9\n',
  );
  t.deepEqual(questions, ['Proceed? [y/N] ']);
  t.deepEqual(accepted, [
    { match: 'web2', state: 'pending', fingerprint: 'fp:web2' },
    { match: 'web3', state: 'pending', fingerprint: 'fp:web3' },
    { match: 'web9', state: 'denied', fingerprint: 'fp:web9' },
  ]);
  t.is(stdout.split('\n')[0], 'Key for minion web2 accepted.');
  t.is(code, 0);
});

test('an id with glob characters is escaped', async (t) => {
  const selections: KeySelection[] = [];
  await runCli(['key', 'reject', '*'], {
    ask: async () => 'yes',
    master: {
      keys: {
        list: async () => [key('a*[b]?', 'pending')],
        reject: async (selection) => {
          selections.push(selection);
          return [{ id: 'a', from: 'pending', to: 'rejected' }];
        },
      },
    },
  });
  t.is(selections[0]?.match, 'a[*][[]b][?]');
});

test('a key that changed during the prompt is skipped and reported', async (t) => {
  const stderr = new TextStream();
  const { code, stdout } = await runCli(['key', 'accept', '*'], {
    ask: async () => 'y',
    stderr,
    master: {
      keys: {
        list: async () => [key('m\x1b1', 'pending', { fingerprint: 'fp:1' }), key('m2', 'pending')],
        accept: async ({ match }) =>
          match === 'm2' ? [{ id: 'm2', from: 'pending', to: 'accepted' }] : [],
      },
    },
  });
  t.is(stdout, 'Key for minion m2 accepted.\n');
  t.deepEqual(stderr.text.split('\n'), [
    'The following keys are going to be accepted:',
    '  m\\x1b1  pending  fp:1',
    '  m2  pending  fp:m2',
    'saltbridge: the key of m\\x1b1 has changed in the meantime and was not modified',
    '',
  ]);
  t.is(code, 1);
});

test('ids and keys cannot control the terminal', async (t) => {
  const evil = key('m\x1b1', 'pending', { publicKey: 'a\x1b[2J\nb\n', fingerprint: 'fp' });
  const changed = { id: evil.id, from: 'pending', to: 'accepted' } as const;
  const master = { keys: { list: async () => [evil], accept: async () => [changed] } };
  const print = await runCli(['key', 'print', 'm*'], { master });
  t.is(print.stdout, 'Unaccepted Keys:\nm\\x1b1:\na?[2J\nb\n');
  const finger = await runCli(['key', 'finger', 'm*'], { master });
  t.is(finger.stdout, 'Unaccepted Keys:\nm\\x1b1:  fp\n');
  const accept = await runCli(['key', 'accept', 'm*', '-y'], { master });
  t.is(accept.stdout, 'Key for minion m\\x1b1 accepted.\n');
});

test('any answer but yes changes nothing', async (t) => {
  for (const answer of ['', 'n', 'yikes']) {
    const outcome = await keyCommand(['accept', 'web*'], { ask: async () => answer });
    t.deepEqual(outcome.accepted, []);
    t.is(outcome.code, 1);
  }
});

test('without a terminal and without -y nothing is changed', async (t) => {
  const { accepted, code, stderr } = await keyCommand(['accept', 'web*']);
  t.deepEqual(accepted, []);
  t.is(stderr, 'saltbridge: cannot ask for confirmation without a terminal; add -y\n');
  t.is(code, 1);
});

test('when nothing matches, the glob and the states are named', async (t) => {
  const expected = 'saltbridge: no key matches none (looked in: pending, rejected)\n';
  const argv = ['accept', 'none', '--include-rejected'];
  const sure = await keyCommand([...argv, '-y']);
  t.is(sure.stderr, expected);
  t.is(sure.code, 1);
  const asked = await keyCommand(argv, { ask: async () => 'y' });
  t.is(asked.stderr, expected);
  t.deepEqual(asked.accepted, []);
});

test('delete looks in every state', async (t) => {
  const stderr = new TextStream();
  await keyCommand(['delete', '*'], { ask: async () => 'n', stderr });
  t.is(stderr.text.split('\n').filter((line) => line.startsWith('  ')).length, keys.length);
});

test('finger shows the master first, then the keys by state', async (t) => {
  const { stdout } = await keyCommand(['finger']);
  t.true(
    stdout.startsWith('Local Keys:\nmaster.pub:  fp:master\nAccepted Keys:\nweb1:  fp:web1\n'),
  );
  const one = await keyCommand(['finger', 'web1']);
  t.is(one.stdout, 'Accepted Keys:\nweb1:  fp:web1\n');
});

test('print shows the key as PEM', async (t) => {
  const { stdout } = await keyCommand(['print', 'web1']);
  t.is(
    stdout,
    'Accepted Keys:\nweb1:\n-----BEGIN PUBLIC KEY-----\nweb1\n-----END PUBLIC KEY-----\n',
  );
  t.is((await keyCommand(['print', 'nope'])).code, 1);
});

test('unpin sends the complete id to the master', async (t) => {
  const unpinned: string[] = [];
  const keysOf = {
    unpin: async (id: string) => {
      unpinned.push(id);
    },
  };
  const { code } = await runCli(['key', 'unpin', 'web1'], { master: { keys: keysOf } });
  t.is(code, 0);
  t.deepEqual(unpinned, ['web1']);
});

async function temporaryFolder(t: ExecutionContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'saltbridge-'));
  t.teardown(() => rm(folder, { recursive: true }));
  return folder;
}

test('gen writes a matching pair, with the modes for its readers', async (t) => {
  const dir = await temporaryFolder(t);
  const { code, stdout } = await runCli(['key', 'gen', '--dir', dir, '--name', 'm1']);
  t.is(code, 0);
  t.regex(stdout, /^fingerprint: /m);
  const [pem, pub] = [path.join(dir, 'm1.pem'), path.join(dir, 'm1.pub')];
  t.is((await stat(pem)).mode & 0o777, 0o400);
  t.is((await stat(pub)).mode & 0o777, 0o644);
  const derived = createPublicKey(createPrivateKey(await readFile(pem)));
  t.true(derived.equals(createPublicKey(await readFile(pub))));
  t.is(derived.asymmetricKeyDetails?.modulusLength, 2048);
});

test('gen replaces nothing and leaves no half of a pair', async (t) => {
  const dir = await temporaryFolder(t);
  await writeFile(path.join(dir, 'm1.pub'), 'kept');
  const { code, stderr } = await runCli(['key', 'gen', '--dir', dir, '--name', 'm1']);
  t.is(code, 73);
  t.true(stderr.endsWith('m1.pub already exists; choose another name or directory\n'));
  t.deepEqual(await readdir(dir), ['m1.pub']);
  t.is(await readFile(path.join(dir, 'm1.pub'), 'utf8'), 'kept');
});

test('gen takes no path as a name and no weak key', async (t) => {
  const dir = await temporaryFolder(t);
  for (const argv of [
    ['--name', '../m1'],
    ['--name', ''],
    ['--name', 'm1', '--bits', '1024'],
  ]) {
    t.is((await runCli(['key', 'gen', '--dir', dir, ...argv])).code, 64);
  }
  t.deepEqual(await readdir(dir), []);
});

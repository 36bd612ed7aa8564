import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { exitCodeOf, exitCodes } from '#cli/errors.ts';
import { RemoteError } from '#client';
import type { JobSummary, KeyInfo } from '#master';
import { masterErrors } from '#master/api/errors.ts';
import { type Declare, testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

function failWith(error: Error, ...argv: string[]): Promise<CliOutcome> {
  return runCli(['status', ...argv], {
    openApi: async () => {
      throw error;
    },
  });
}

test('an unknown argument exits with 64 and a hint', async (t) => {
  for (const argv of [['nope'], ['salt', '--nope'], ['key'], ['status', '-l', 'x']]) {
    const { code, stderr } = await runCli(argv);
    t.is(code, 64, argv.join(' '));
    t.not(stderr, '');
  }
});

test('an error with a known code prints one line, and has its exit code', async (t) => {
  const { code, stdout, stderr } = await failWith(
    new RemoteError('ERR_SOCKET', 'no master\x1b here'),
  );
  t.is(stderr, 'saltbridge: no master? here\n');
  t.is(stdout, '');
  t.is(code, 69);
});

test('an unexpected error exits with 70, and prints its stack at debug levels', async (t) => {
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
  t.is(exitCodeOf('ERR_OPTION_TYPE'), 78);
  t.is(exitCodeOf('ERR_JOB_TIMEOUT'), 75);
  t.is(exitCodeOf('ERR_STORE_CORRUPT'), 69);
  t.is(exitCodeOf(''), undefined);
});

test('--version prints the version', async (t) => {
  const { code, stdout } = await runCli(['--version']);
  t.is(stdout, '1.2.3\n');
  t.is(code, 0);
});

const commands = [
  [],
  ['master'],
  ['key'],
  ['key', 'list'],
  ['key', 'accept'],
  ['key', 'reject'],
  ['key', 'delete'],
  ['key', 'finger'],
  ['key', 'print'],
  ['key', 'gen'],
  ['key', 'unpin'],
  ['salt'],
  ['salt-key'],
  ['jobs', 'list'],
  ['jobs', 'show'],
  ['events'],
  ['status'],
  ['store', 'backup'],
  ['store', 'restore'],
  ['store', 'check'],
  ['store', 'export'],
  ['store', 'import'],
  ['store', 'copy'],
  ['store', 'info'],
  ['cluster', 'init'],
  ['cluster', 'ticket'],
  ['cluster', 'join'],
  ['cluster', 'leave'],
  ['cluster', 'refound'],
  ['cluster', 'status'],
  ['completion'],
  ['acl', 'denials'],
  ['pillar', 'show'],
  ['pillar', 'explain'],
  ['pillar', 'diff'],
  ['acl', 'check'],
  ['acl', 'learn'],
  ['acl', 'replay'],
  ['acl', 'reload'],
  ['audit', 'show'],
  ['audit', 'verify'],
  ['reactions', 'list'],
  ['reactions', 'show'],
  ['reactions', 'runs'],
  ['bridge', 'handle', 'add'],
  ['bridge', 'handle', 'list'],
  ['bridge', 'handle', 'show'],
  ['bridge', 'handle', 'remove'],
  ['bridge', 'outbox', 'list'],
  ['bridge', 'outbox', 'retry'],
  ['bridge', 'outbox', 'drop'],
  ['minion'],
  ['config', 'check'],
  ['config', 'show'],
  ['migrate', 'check'],
  ['doctor'],
];

for (const command of commands) {
  test(`${['saltbridge', ...command].join(' ')} --help prints the usage`, async (t) => {
    const { code, stdout } = await runCli([...command, '--help']);
    t.snapshot(stdout);
    t.is(code, 0);
  });
}

const folder = mkdtempSync(path.join(tmpdir(), 'saltbridge-completion-'));
test.after.always(() => rmSync(folder, { recursive: true }));
test.before(async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    writeFileSync(scriptFor(shell), (await runCli(['completion', shell])).stdout);
  }
});

function scriptFor(shell: string): string {
  return path.join(folder, `script.${shell}`);
}

function whereShellIs(shell: string): Declare {
  const isThere = spawnSync(shell, ['--version']).error === undefined;
  return testWhere(isThere, `the package ${shell}`);
}

/**
 * Shell function in place of the program. It answers like a running master and prints the
 * configuration that it was called with.
 */
const standIn = `saltbridge() {
  [[ "$1 $2" == 'completion list' ]] || return
  echo "web1
web2
from-$5"
}`;

/** Returns the completions that bash offers for the last of these words. */
function offersOfBash(...words: string[]): string[] {
  const line = `${standIn}
source ${scriptFor('bash')}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
complete -p "$1" >/dev/null || exit 1
$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = execFileSync('bash', ['--norc', '-c', line, 'bash', ...words], {
    encoding: 'utf8',
  });
  return output.split('\n').filter((it) => it !== '');
}

whereShellIs('bash')('bash completes commands, and commands below them', (t) => {
  t.deepEqual(offersOfBash('saltbridge', 'ma'), ['master']);
  t.deepEqual(offersOfBash('saltbridge', 'salt'), ['salt', 'salt-cp', 'salt-key', 'salt-run']);
  t.deepEqual(offersOfBash('saltbridge', 'key', 'un'), ['unpin']);
  t.deepEqual(offersOfBash('saltbridge', 'jobs', ''), ['list', 'show']);
});

whereShellIs('bash')('bash completes the options of the command, and what they take', (t) => {
  t.deepEqual(offersOfBash('saltbridge', 'salt', '--batch-s'), [
    '--batch-safe-limit',
    '--batch-safe-size',
  ]);
  t.deepEqual(offersOfBash('saltbridge', 'master', '--da'), ['--daemon']);
  t.deepEqual(offersOfBash('saltbridge', 'status', '-l', 'war'), ['warning']);
  t.deepEqual(offersOfBash('saltbridge', 'salt', '-b', ''), []);
});

whereShellIs('bash')('bash completes ids of minions where one may stand, and nowhere else', (t) => {
  t.deepEqual(offersOfBash('saltbridge', 'salt', 'web'), ['web1', 'web2']);
  t.deepEqual(offersOfBash('saltbridge', 'salt', '-b', '2', 'web'), ['web1', 'web2']);
  t.deepEqual(offersOfBash('saltbridge', 'salt', 'web1', 'web'), []);
  t.deepEqual(offersOfBash('saltbridge', 'key', 'accept', 'web2'), ['web2']);
  t.deepEqual(offersOfBash('saltbridge', 'salt-key', '-d', 'web'), ['web1', 'web2']);
  t.deepEqual(offersOfBash('saltbridge', 'jobs', 'show', 'web1'), ['web1']);
});

whereShellIs('bash')('bash asks the master of the configuration that is named', (t) => {
  t.deepEqual(offersOfBash('saltbridge', 'salt', 'from'), ['from-/etc/salt']);
  t.deepEqual(offersOfBash('saltbridge', 'salt', '-c', '/srv', 'from'), ['from-/srv']);
});

whereShellIs('bash')('bash completes salt, salt-key and salt-run under names of their own', (t) => {
  t.deepEqual(offersOfBash('salt', 'web'), ['web1', 'web2']);
  t.deepEqual(offersOfBash('salt', '--static'), ['--static']);
  t.deepEqual(offersOfBash('salt-key', '--include-d'), ['--include-denied']);
  t.deepEqual(offersOfBash('salt-run', '--asy'), ['--async']);
});

whereShellIs('bash')('bash completes files', (t: ExecutionContext) => {
  const files = temporaryDirectory(t);
  mkdirSync(path.join(files, 'backups'));
  writeFileSync(path.join(files, 'b.mdb'), '');
  t.deepEqual(offersOfBash('saltbridge', 'store', 'restore', `${files}/b`).sort(), [
    `${files}/b.mdb`,
    `${files}/backups`,
  ]);
});

whereShellIs('fish')('fish completes commands, options and ids', (t) => {
  const offers = (line: string): string[] => {
    const standIn = "function saltbridge; printf 'web1\\nweb2\\nfrom-%s\\n' $argv[5]; end";
    const home = temporaryDirectory(t);
    return execFileSync(
      'fish',
      ['-c', `${standIn}; source ${scriptFor('fish')}; complete -C '${line}'`],
      {
        encoding: 'utf8',
        env: { ...process.env, HOME: home },
      },
    )
      .split('\n')
      .flatMap((it) => it.split('\t')[0] || []);
  };
  t.deepEqual(offers('saltbridge sta'), ['status']);
  t.deepEqual(offers('saltbridge key un'), ['unpin']);
  t.deepEqual(offers('saltbridge salt --batch-safe-l'), ['--batch-safe-limit']);
  t.deepEqual(offers('saltbridge salt web'), ['web1', 'web2']);
  t.deepEqual(offers('saltbridge salt -c /srv from'), ['from-/srv']);
  t.deepEqual(offers('saltbridge status -l war'), ['warning']);
});

whereShellIs('zsh')('zsh takes its script, and completes by it', (t) => {
  // Only the function is tested, because its caller needs a terminal.
  const [, functions = ''] = readFileSync(scriptFor('zsh'), 'utf8').split('&& bashcompinit\n');
  const script = path.join(temporaryDirectory(t), 'functions.zsh');
  writeFileSync(script, functions);
  const line = `emulate -L sh; setopt kshglob noshglob braceexpand
complete() { :; }
saltbridge() { printf 'web1\\nweb2\\n'; }
source ${script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_saltbridge_complete
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const offers = (...words: string[]): string =>
    execFileSync('zsh', ['-f', '-c', line, 'zsh', ...words], { encoding: 'utf8' }).trim();
  t.is(offers('saltbridge', 'key', 'un'), 'unpin');
  t.is(offers('saltbridge', 'salt', 'web'), 'web1\nweb2');
});

function keyOf(id: string, state: KeyInfo['state']): KeyInfo {
  return { id, state, fingerprint: '', publicKey: '', protocol: 0, conflicts: 0 };
}

test('completion does not offer ids that a shell could interpret', async (t) => {
  const keys = [
    keyOf('web1', 'accepted'),
    keyOf('new1', 'pending'),
    keyOf('$(reboot)', 'pending'),
    keyOf('a b', 'accepted'),
    keyOf('--all', 'accepted'),
  ];
  const master = { keys: { list: async () => keys } };
  t.is((await runCli(['completion', 'list', 'minions'], { master })).stdout, 'web1\n');
  t.is((await runCli(['completion', 'list', 'keys'], { master })).stdout, 'web1\nnew1\n');
});

test('completion offers the latest jobs', async (t) => {
  const job: Partial<JobSummary> = { jid: '20240102030405678901' };
  const list = async (): Promise<JobSummary[]> => [job as JobSummary];
  const { stdout } = await runCli(['completion', 'list', 'jids'], { master: { jobs: { list } } });
  t.is(stdout, '20240102030405678901\n');
});

test('the page of the command line lists every exit code', (t) => {
  const page = readFileSync(new URL('../../docs/command-line.md', import.meta.url), 'utf8');
  const [, section = ''] = page.split('\n## Exit codes\n');
  const [table = ''] = section.split('\n## ');
  const listed = [...table.matchAll(/^\| (\d+) /gm)].map(([, code]) => Number(code));
  // The sections of salt and salt-run list these two.
  const ofSalt: readonly number[] = [exitCodes.noReturn, exitCodes.incomplete];
  const expected = Object.values(exitCodes).filter((code) => !ofSalt.includes(code));
  t.deepEqual(listed, expected);
  for (const code of ofSalt) t.true(page.includes(`\n| ${code} `), String(code));
});

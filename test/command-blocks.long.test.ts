/** Runs the commands in README.md and docs/, and checks that relative links have a target. */

import { execFile, execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { createLocalMaster } from '#cli/local-master.ts';
import { createMinion, dialZeromq, openMinionKeys } from '#minion-protocol';
import { freePort } from '../bench/free-port.ts';
import { type CliOutcome, runCli } from './cli/run-cli.ts';
import { end } from './helpers/background-process.ts';
import { makeCertificate } from './helpers/certificate.ts';
import { until } from './helpers/deadline.ts';
import {
  codeBlocks,
  documents,
  isCommandBlock,
  linesOf,
  programsOf,
  root,
} from './helpers/markdown.ts';
import { layMasterKey } from './helpers/rsa-keys.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const program = fileURLToPath(new URL('../cli/main.ts', import.meta.url));
const blocks = documents().flatMap(codeBlocks).filter(isCommandBlock);
const quickStart = blocks.filter(({ text }) =>
  /\bnpx |npm install saltbridge|openssl|node service/.test(text),
);
const marked = blocks.filter(({ notRun }) => notRun !== undefined);
const runElsewhere = blocks.filter(({ runBy }) => runBy !== undefined);
const run = blocks.filter((block) => ![...marked, ...runElsewhere, ...quickStart].includes(block));

test('a block that names saltbridge alone is run, and the others say why not', (t) => {
  t.log(
    `${blocks.length} blocks of commands: ${marked.length} are marked as not run, ` +
      `${runElsewhere.length} are run by the tests that they name`,
  );
  for (const block of marked) {
    const others = programsOf(block).filter((name) => name !== 'saltbridge');
    t.true(others.length > 0, `${block.document}:${block.line} names saltbridge alone`);
  }
  for (const { document, line, runBy = '' } of runElsewhere) {
    const place = `${document}:${line}: ${runBy}`;
    t.true(existsSync(`${root}${runBy}`), place);
    const source = readFileSync(`${root}${runBy}`, 'utf8');
    t.true(source.includes(`blocksRunBy('${runBy}'`), place);
  }
  t.true(run.length + quickStart.length > 10);
});

test('shell builtins do not count as other programs in a block', (t) => {
  const programs = (text: string): string[] => programsOf({ text });
  t.deepEqual(programs('umask 077\nsaltbridge key list \\\n  --json > keys.json # all\n'), [
    'saltbridge',
  ]);
  t.deepEqual(programs("# both\nA=b sudo saltbridge salt '*; ls' x | jq . && cd /"), [
    'saltbridge',
    'jq',
  ]);
});

const rule = (name: string, subject: string, resource: string): string =>
  `      ${name}: {subject: {${subject}}, action: command, resource: {${resource}}}\n`;

/** Commands that succeed with an exit code other than 0. */
const otherEnds: readonly (readonly [RegExp, readonly number[]])[] = [
  [/acl explain|acl learn|acl check|acl replay|doctor/, [1]],
  [/config check/, [78]],
  [/migrate check/, [1]],
];

/**
 * A line of a block, parsed like a shell: words, quotes, `$PASSWORD`, `> file`, `&` and comments.
 */
interface TypedCommand {
  readonly argv: readonly string[];
  readonly outputFile: string | undefined;
}

function readCommand(line: string): TypedCommand {
  const [command = '', outputFile] = line
    .replace(/\s+#.*$/, '')
    .replace(/\s+&$/, '')
    .split(/\s+>\s*/);
  const words = command.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g);
  const argv = Array.from(words, ([word]) =>
    word
      .replace('$PASSWORD', password)
      .replace(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double),
  );
  return { argv, outputFile };
}

const password = 'secret-of-this-test';

test('every other block of README.md and docs/ is typed, and ends as it should', async (t) => {
  t.timeout(240_000);
  const directory = temporaryDirectory(t);
  const etc = path.join(directory, 'etc');
  const work = path.join(directory, 'work');
  const [requestPort, publishPort, httpPort] = [
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  mkdirSync(path.join(etc, 'commands'), { recursive: true });
  for (const name of ['srv', 'work']) mkdirSync(path.join(directory, name));
  const blockOf = (document: string, wanted: string, mark = ''): string =>
    codeBlocks(document).find(({ language, text }) => language === wanted && text.includes(mark))
      ?.text ?? '';
  writeFileSync(path.join(etc, 'commands', 'mysql.yaml'), blockOf('docs/bridge.md', 'yaml'));
  writeFileSync(path.join(directory, 'srv', 'deploy.sls'), 'done:\n  test.nop: []\n');
  writeFileSync(path.join(directory, 'users'), `fred:${password}\n`);
  writeFileSync(path.join(directory, 'secret'), password, { mode: 0o600 });
  const { certificate, key } = makeCertificate(directory);
  const nowhere = 'https://127.0.0.1:1';
  writeFileSync(
    path.join(etc, 'master'),
    `root_dir: ${directory}
interface: 127.0.0.1
ret_port: ${requestPort}
publish_port: ${publishPort}
sock_dir: s
file_roots: {base: [${directory}/srv]}
external_auth:
  file:
    ^filename: ${directory}/users
    ^hashtype: plaintext
    fred: ['web*': [test.ping], '@runner']
saltbridge:
  api:
    host: 127.0.0.1
    hosts: [master, bridge.example.org]
    port: ${httpPort}
    ssl_crt: ${certificate}
    ssl_key: ${key}
  bridge:
    catalog: [commands]
    enroll: {masters: [127.0.0.1], url: 'https://127.0.0.1:${httpPort}'}
    guests:
      peers:
        keystone: {url: '${nowhere}/v3', username: a, password: b, project: c}
        compute: {url: '${nowhere}'}
        network: {url: '${nowhere}'}
        notifications: {secret_file: ${directory}/secret}
  acl:
    rules:
${rule('trove', 'service: trove', 'fun: "mysql.*", within: "db-*"')}`,
  );
  layMasterKey(path.join(directory, 'etc/salt/pki/master'));
  const daemon = execFileSync(process.execPath, [program, 'master', '-d', '-c', etc]);
  t.teardown(() => end(Number(daemon.toString())));

  writeFileSync(path.join(work, 'shop.json'), blockOf('docs/data-spaces.md', 'json'));
  writeFileSync(
    path.join(work, 'shop.yaml'),
    blockOf('docs/data-spaces.md', 'yaml', 'heat_template_version'),
  );
  const functions = {
    'saltutil.sync_all': () => ({}),
    'mysql.db_create': () => true,
    'service.restart': () => true,
  };
  const states = new Map<string, string>();
  const inState = (wanted: string): number =>
    [...states.values()].filter((state) => state === wanted).length;
  for (const id of ['web1', 'web7', 'db-7']) {
    const minion = createMinion({
      id,
      keys: await openMinionKeys(path.join(directory, 'minions', id)),
      transport: dialZeromq({ host: '127.0.0.1', requestPort }),
      acceptanceWaitMs: 200,
      grains: { os: 'Debian' },
      functions,
      onState: ({ state }) => void states.set(id, state),
    });
    t.teardown(() => minion.stop());
    void minion.start();
  }
  await until('the keys', () => inState('pending') === 3, 30_000);
  await type(etc, ['key', 'accept', '-y', 'db-7']);

  // A running master cannot be restored, so the command is run after it has ended.
  const isLast = (line: string): boolean => line.includes('store restore');
  const typed = run.flatMap(({ document, line: first, ...block }) =>
    linesOf(block).map((line) => ({ place: `${document}:${first}`, line })),
  );
  const lines = [
    ...typed.filter((it) => !isLast(it.line)),
    ...typed.filter((it) => isLast(it.line)),
  ];
  let backups = '';
  for (const { place, line } of lines) {
    const { argv, outputFile } = readCommand(line);
    const command = argv.join(' ');
    // The master is already running.
    if (/^saltbridge master -d( -c \/etc\/salt)?$/.test(command)) continue;
    if (argv[0] !== 'saltbridge') {
      await typeInShell(t, work, httpPort, place, line);
      continue;
    }
    if (isLast(line)) await end(Number(daemon.toString()));
    // The file shop.json already uses this name.
    if (command.includes('heat prepare')) await type(etc, ['bridge', 'data', 'remove', 'shop']);
    // Two backups within one second would have the same name.
    if (command.includes('store backup')) backups = mkdtempSync(path.join(directory, 'backups-'));
    const [backup = ''] = backups === '' ? [] : readdirSync(backups);
    const here = argv.slice(1).map((word) =>
      word
        .replace('/etc/salt', etc)
        .replace('/var/lib/saltbridge/backups', backups)
        .replace('/var/lib/saltbridge/export', path.join(directory, 'export'))
        .replace(/^FILE$/, path.join(backups, backup))
        .replace(/^[\w.-]+\.(?:json|yaml)$/, (file) => path.join(work, file)),
    );
    const { code, stdout, stderr } = await type(etc, here);
    const allowed = otherEnds.find(([form]) => form.test(line))?.[1] ?? [];
    t.true([0, ...allowed].includes(code), `${place}: ${line}\n${stdout}${stderr}`);
    if (outputFile !== undefined) writeFileSync(path.join(work, outputFile), stdout);
    if (line.includes('key accept')) {
      await until('the minions', () => inState('connected') === 3, 30_000);
      await type(etc, ['salt', '--jid', '20240102030405123456', '*', 'test.ping']);
    }
  }
});

/**
 * Runs a command that is not `saltbridge` in a shell. HTTP requests to any host name reach the
 * master's port.
 */
async function typeInShell(
  t: ExecutionContext,
  directory: string,
  port: number,
  place: string,
  line: string,
): Promise<void> {
  const here = line
    .replaceAll(/password(=|": ")…/g, `password$1${password}`)
    .replace(':SECRET ', `:${password} `)
    .replaceAll(/(eauth(?:=|": "))pam/g, '$1file');
  // The command follows events until its reader ends.
  const isEndless = line.includes('/events?');
  const options = `--insecure --fail --connect-to ::127.0.0.1:${port} --max-time ${isEndless ? 1 : 20}`;
  const script = `curl() { command curl ${options} "$@"; }\n${here}`;
  const { code, stdout, stderr } = await new Promise<CliOutcome>((resolve) => {
    execFile('bash', ['-c', script], { cwd: directory }, (error, out, err) => {
      resolve({ code: Number(error?.code ?? 0), stdout: out, stderr: err });
    });
  });
  const outOfTime = 28;
  t.is(code, isEndless ? outOfTime : 0, `${place}: ${line}\n${stdout}${stderr}`);
  if (isEndless) t.regex(stdout, /^retry: |^tag: /m, place);
}

/** Runs a command line in this process, with the running master. */
async function type(etc: string, argv: readonly string[]): Promise<CliOutcome> {
  const needsNone = /^(?:migrate|config|heat compile)\b/.test(argv.join(' '));
  const named = needsNone ? argv : [...argv, '-c', etc];
  const { openApi, openExtension, openKeys } = createLocalMaster();
  const outcome = runCli([...named], { openApi, openExtension, openKeys });
  if (argv[0] !== 'events') return outcome;
  // The command continues in the background, because of `&`.
  await type(etc, ['salt', '*', 'test.ping']);
  return outcome;
}

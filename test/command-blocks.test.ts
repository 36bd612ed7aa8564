/** What README.md and docs/ tell people to type is typed; relative links lead somewhere. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { freePort } from '../bench/free-port.ts';
import { createLocalMaster } from '../cli/local-master.ts';
import { createMinion, dialZeromq, openMinionKeys } from '../minion-protocol/index.ts';
import { type CliOutcome, runCli } from './cli/run-cli.ts';
import { end } from './helpers/background-process.ts';
import { until } from './helpers/deadline.ts';
import { type CodeBlock, codeBlocks, documents, isCommandBlock, root } from './helpers/markdown.ts';
import { layMasterKey } from './helpers/rsa-keys.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const program = fileURLToPath(new URL('../cli/main.js', import.meta.url));
const blocks = documents().flatMap(codeBlocks).filter(isCommandBlock);
const quickStart = blocks.filter(({ text }) =>
  /\bnpx |npm install |openssl|node service/.test(text),
);
const marked = blocks.filter(({ notRun }) => notRun !== undefined);
const run = blocks.filter((block) => !marked.includes(block) && !quickStart.includes(block));

/** What is typed, without the output that is shown beside a prompt. */
function linesOf({ text }: CodeBlock): string[] {
  const lines = text.split('\n').filter((line) => line !== '');
  const prompted = lines.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2));
  return prompted.length > 0 ? prompted : lines;
}

/** The programs of a block; what only carries text for others is none. */
function programsOf(block: CodeBlock): string[] {
  const commands = linesOf(block).flatMap((line) => line.split(/\s*(?:&&|\||;)\s*/));
  return commands.map((command) => command.trim().split(/\s+/)[0] ?? '');
}

test('a block that names saltbridge alone is run, and the others say why not', (t) => {
  t.log(`${blocks.length} blocks of commands, ${marked.length} of them marked as not run`);
  for (const block of marked) {
    const others = programsOf(block).filter((name) => name !== 'saltbridge');
    t.true(others.length > 0, `${block.document}:${block.line}`);
  }
  t.true(run.length + quickStart.length > 10);
});

const rule = (name: string, subject: string, resource: string): string =>
  `      ${name}: {subject: {${subject}}, action: command, resource: {${resource}}}\n`;

/** Commands that end with another exit code than 0 although all is well. */
const otherEnds: readonly (readonly [RegExp, readonly number[]])[] = [
  [/acl explain|acl learn|acl check|acl replay|doctor/, [1]],
  [/config check/, [78]],
  [/migrate check/, [1]],
];

/** A line of a block as a shell reads it: words, quotes, `$PASSWORD`, `> file`, `&`, a comment. */
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

const password = 'secret';

test('every other block of README.md and docs/ is typed, and ends as it should', async (t) => {
  t.timeout(240_000);
  const directory = temporaryDirectory(t);
  const etc = path.join(directory, 'etc');
  const [requestPort, publishPort] = [await freePort(), await freePort()];
  mkdirSync(path.join(etc, 'commands'), { recursive: true });
  for (const name of ['backups', 'srv', 'work']) mkdirSync(path.join(directory, name));
  const [catalog] = codeBlocks('docs/bridge.md').filter(({ language }) => language === 'yaml');
  writeFileSync(path.join(etc, 'commands', 'mysql.yaml'), catalog?.text ?? '');
  writeFileSync(path.join(directory, 'srv', 'deploy.sls'), 'done:\n  test.nop: []\n');
  writeFileSync(path.join(directory, 'users'), `fred:${password}\n`);
  writeFileSync(
    path.join(etc, 'master'),
    `root_dir: ${directory}
interface: 127.0.0.1
ret_port: ${requestPort}
publish_port: ${publishPort}
sock_dir: s
file_roots: {base: [${directory}/srv]}
external_auth:
  file: {^filename: ${directory}/users, ^hashtype: plaintext, fred: ['web*': [test.ping]]}
saltbridge:
  bridge: {catalog: [commands]}
  acl:
    rules:
${rule('trove', 'service: trove', 'fun: "mysql.*", within: "db-*"')}`,
  );
  layMasterKey(path.join(directory, 'etc/salt/pki/master'));
  const daemon = execFileSync(process.execPath, [program, 'master', '-d', '-c', etc]);
  t.teardown(() => end(Number(daemon.toString())));

  const [roles] = codeBlocks('docs/guests.md').filter(({ language }) => language === 'json');
  writeFileSync(path.join(directory, 'work', 'shop.json'), roles?.text ?? '');
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

  for (const block of run) {
    for (const line of linesOf(block)) {
      const { argv, outputFile } = readCommand(line);
      // It runs already.
      if (argv.join(' ') === 'saltbridge master -d') continue;
      t.is(argv[0], 'saltbridge', `${block.document}:${block.line}: ${line}`);
      const here = argv.slice(1).map((word) =>
        word
          .replace('/etc/salt', etc)
          .replace('/var/lib/saltbridge/backups', path.join(directory, 'backups'))
          .replace(/^[\w.-]+\.(?:json|yaml)$/, (file) => path.join(directory, 'work', file)),
      );
      const { code, stdout, stderr } = await type(etc, here);
      const allowed = otherEnds.find(([form]) => form.test(line))?.[1] ?? [];
      const problem = `${block.document}:${block.line}: ${line}\n${stdout}${stderr}`;
      t.true([0, ...allowed].includes(code), problem);
      if (outputFile !== undefined) writeFileSync(path.join(directory, 'work', outputFile), stdout);
      if (line.includes('key accept')) {
        await until('the minions', () => inState('connected') === 3, 30_000);
        await type(etc, ['salt', '--jid', '20240102030405123456', '*', 'test.ping']);
      }
    }
  }
});

/** Types a command line in this process, at the master that runs. */
async function type(etc: string, argv: readonly string[]): Promise<CliOutcome> {
  const named = ['migrate', 'config'].includes(argv[0] ?? '') ? argv : [...argv, '-c', etc];
  const { openApi, openExtension, openKeys } = createLocalMaster();
  const outcome = runCli([...named], { openApi, openExtension, openKeys });
  if (argv[0] !== 'events') return outcome;
  // It goes on in the background, as `&` has it.
  await type(etc, ['salt', '*', 'test.ping']);
  return outcome;
}

// Links.

const inGit = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n');
const { files: packed }: { files: string[] } = JSON.parse(
  readFileSync(`${root}package.json`, 'utf8'),
);

test('every relative link of the documents leads somewhere, in git and in the tarball', (t) => {
  for (const document of documents()) {
    const text = readFileSync(`${root}${document}`, 'utf8').replace(/^```.*?^```$/gms, '');
    const links = text.matchAll(/\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)/g);
    for (const [, link = ''] of links) {
      const target = path.normalize(path.join(path.dirname(document), link)).replace(/\/$/, '');
      t.true(isIn(inGit, target), `${document}: ${link} in git`);
      t.true(isPacked(target), `${document}: ${link} in the tarball`);
    }
  }
});

function isIn(files: readonly string[], target: string): boolean {
  return files.some((file) => file === target || file.startsWith(`${target}/`));
}

/** As `files` of package.json says; npm packs README and LICENSE by itself. */
function isPacked(target: string): boolean {
  if (target === 'README.md' || target === 'LICENSE') return true;
  const isExcluded = packed.some((it) => it.startsWith('!') && isIn([target], it.slice(1)));
  return !isExcluded && packed.some((it) => target === it || target.startsWith(`${it}/`));
}

/** Follows docs/quick-start.md with the packed tarball, in an empty folder. */

import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { freePort } from '../bench/free-port.ts';
import { until } from './helpers/deadline.ts';
import { codeBlocks, root } from './helpers/markdown.ts';
import { installPacked, withoutNpm } from './helpers/packed-project.ts';
import { Shell } from './helpers/shell.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';
import { RealMinion } from './interop/real-minion.ts';

const page = 'docs/quick-start.md';
const all = codeBlocks(page);
const begin = all.findIndex(({ text }) => text.includes('npm install saltbridge'));
const end = all.findIndex(({ text }) => text.includes('/bridge/v1/commands/demo.echo/run'));
const blocks = all.slice(begin, end + 1);
const [minionProgram] = (process.env.SALT_MINION ?? '').split(',').filter((it) => it !== '');
const minionName =
  minionProgram === undefined ? 'the embedded minion' : 'the real salt-minion of SALT_MINION';

/**
 * Shell function in place of npm, so that no network is needed: packages of `npm install` are
 * already there.
 */
const npm = `npm() { [ "$1" = install ] || command npm "$@"; }
npx() { "./node_modules/.bin/$1" "\${@:2}"; }`;

test(`the commands of ${page} work to the end, with ${minionName}`, async (t) => {
  t.timeout(600_000);
  t.true(blocks.length >= 9, `${blocks.length} blocks`);
  const folder = temporaryDirectory(t);
  installPacked(folder);
  linkPrograms(folder);
  const ports = { requestPort: await freePort(), publishPort: await freePort() };
  const httpPort = String(await freePort());
  const shell = new Shell(t, folder, { ...withoutNpm(), NO_COLOR: '1' });
  await shell.type(npm);

  for (const { language, text, file, line } of blocks) {
    const here = text.replaceAll('8080', httpPort);
    if (language === 'yaml' || language === 'ts') {
      t.not(file, undefined, `the file of line ${line}`);
      writeFileSync(path.join(folder, file ?? ''), inOtherPorts(here, file, ports));
      continue;
    }
    if (text.includes('saltbridge minion')) {
      await startMinion(shell, here, ports);
      continue;
    }
    const typed = here
      .replace('npx tsc ', 'npx tsc --skipLibCheck false ')
      .replace('npx saltbridge key accept', `${keyIsThere}\nnpx saltbridge key accept`);
    const { failures, output } = await shell.type(typed, 120_000);
    // The process was ended by a signal.
    const unforeseen = failures.filter((it) => it !== '143 wait %1');
    t.deepEqual(unforeseen, [], `${page}:${line}\n${output}`);
    if (text.includes('key accept')) {
      await until('the service', () => /web1\S* succeeded hello/.test(shell.output), 60_000);
    }
    if (text.includes('test.ping')) t.regex(output, /web1[^\n]*:\n +True/);
    if (text.includes('curl')) {
      t.regex(output, /\{"commands":\[\{"name":"demo\.echo"/);
      t.regex(output, /"status":"succeeded"/);
      t.regex(readFileSync(path.join(folder, 'user-data'), 'utf8'), /^#cloud-config$/m);
    }
  }

  async function startMinion(at: Shell, text: string, to: typeof ports): Promise<void> {
    if (minionProgram === undefined) {
      const here = text.replace('--id', `--master-port ${to.requestPort} --id`);
      t.deepEqual((await at.type(here)).failures, []);
      return;
    }
    const minion = await RealMinion.create({ program: minionProgram, name: 'web1', ...to });
    t.teardown(() => minion.dispose());
    minion.start();
  }
});

/** Waits for the key of a minion, which arrives some time after its start. */
const keyIsThere =
  'for i in $(seq 300); do npx saltbridge key list -c etc | grep -q web1 && break; sleep 0.2; done';

/** Replaces Salt's ports in a text, because they may be in use on this machine. */
function inOtherPorts(
  text: string,
  file: string | undefined,
  { requestPort, publishPort }: { readonly requestPort: number; readonly publishPort: number },
): string {
  if (file !== 'etc/master') return text;
  return `${text}interface: 127.0.0.1\nret_port: ${requestPort}\npublish_port: ${publishPort}\n`;
}

/** Creates the links that npm creates in `node_modules/.bin`. */
function linkPrograms(folder: string): void {
  const bin = path.join(folder, 'node_modules', '.bin');
  mkdirSync(bin);
  symlinkSync('../saltbridge/bin/saltbridge', path.join(bin, 'saltbridge'));
  symlinkSync(`${root}node_modules/typescript/bin/tsc`, path.join(bin, 'tsc'));
}

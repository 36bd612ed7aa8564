/** Commands that read standard input, run as processes with a pipe. */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { createBridge } from '#guests';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { pem } from '../helpers/vectors.ts';

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Creates the configuration directory of a master with a bridge. */
async function openBridge(t: ExecutionContext) {
  const bridge = createBridge();
  const { master, directory } = await startVectorMaster(t, {
    startAt: Date.now(),
    keys: [{ directory: 'minions_pre', id: 'db1', publicPem: pem('minion').publicPem }],
    extensions: [bridge],
  });
  const configDirectory = temporaryDirectory(t);
  const options = `root_dir: ${directory}\npki_dir: pki\nsaltbridge: {socket: run/master.sock}\n`;
  writeFileSync(path.join(configDirectory, 'master'), options);
  const saltbridge = (argv: readonly string[], chunks: readonly (string | Buffer)[]) =>
    runProcess([...argv, '-c', configDirectory], chunks);
  return { bridge, master, saltbridge };
}

/**
 * Runs a process. Each chunk is written separately to its standard input, which is closed after the
 * last one.
 */
async function runProcess(
  argv: readonly string[],
  chunks: readonly (string | Buffer)[],
): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...argv], { stdio: 'pipe' });
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      texts[name] += text;
    });
  }
  // A process that ends early does not read the rest.
  child.stdin.on('error', () => {});
  for (const chunk of chunks) await new Promise((written) => child.stdin.write(chunk, written));
  child.stdin.end();
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, ...texts };
}

const url = 'https://heat.example.org/v1/waitcondition/arn?Signature=abc';
const add = (alias: string) => ['bridge', 'handle', 'add', alias, '-', '--minion', 'db1'];
/** Output of `openstack stack output show -f json`. */
const output = `${JSON.stringify({ output_key: 'signal', output_value: JSON.stringify({ alarm_url: url }) }, null, 2)}\n`;

const forms: readonly (readonly [string, readonly (string | Buffer)[]])[] = [
  ['one line', [`${JSON.stringify({ alarm_url: url })}\n`]],
  ['several lines in several writes', output.split(/(?<=\n)/)],
  ['two hundred kilobytes of blanks before it', [' '.repeat(200_000), output]],
];

test('bridge handle add reads all of standard input, however it is divided', async (t) => {
  const { bridge, saltbridge } = await openBridge(t);
  const added = forms.map(async ([what, chunks], index) => {
    const { code, stderr } = await saltbridge(add(`a${index}`), chunks);
    t.is(code, 0, `${what}: ${stderr}`);
    t.is((await bridge.handles.show(`a${index}`)).transport, 'CFN_SIGNAL', what);
  });
  await Promise.all(added);
});

test('empty standard input is refused with a message', async (t) => {
  const { saltbridge } = await openBridge(t);
  const { code, stderr } = await saltbridge(add('a'), []);
  t.is(code, 64);
  t.is(stderr, 'saltbridge: signal: the handle must not be empty\n');
});

test('enroll import reads all of standard input, and characters are not cut between writes', async (t) => {
  const { saltbridge, bridge } = await openBridge(t);
  const project = 'größe';
  const minion = (id: string) => ({ id, project, fingerprint: Array(32).fill('ab').join(':') });
  const list = Buffer.from(JSON.stringify([minion('db1'), minion('db2')], null, 1));
  // The input is split between the two bytes of ö.
  const middle = list.indexOf('ö') + 1;
  const chunks = [list.subarray(0, middle), list.subarray(middle)];
  const { code, stderr } = await saltbridge(['enroll', 'import', '-'], chunks);
  t.is(code, 0, stderr);
  const projects = (await bridge.enroll.list()).map((enrolment) => enrolment.project);
  t.deepEqual(projects, [project, project]);
});

test('salt-key reads one line as the answer, and reports a missing answer', async (t) => {
  const { saltbridge, master } = await openBridge(t);
  const accepted = async () => (await master.keys.list({ state: 'accepted' })).map(({ id }) => id);
  const accept = ['salt-key', '-a', 'db1'];
  const nobody = await saltbridge(accept, []);
  t.is(nobody.stderr, 'saltbridge: no confirmation was given; add -y\n');
  t.regex((await saltbridge(accept, ['n\n'])).stdout, /Proceed\?/);
  t.deepEqual(await accepted(), []);
  t.is((await saltbridge(accept, ['y\n', 'more\n'])).code, 0);
  t.deepEqual(await accepted(), ['db1']);
});

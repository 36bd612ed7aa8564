import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { runCli } from './run-cli.ts';

async function temporaryFolder(t: ExecutionContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'saltbridge-'));
  t.teardown(() => rm(folder, { recursive: true }));
  return folder;
}

test('gen writes a pair that fits, readable by whom it should be', async (t) => {
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
  t.true(stderr.endsWith('m1.pub exists; it is not replaced\n'));
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

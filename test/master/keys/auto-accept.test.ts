import { chmodSync, existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  type AutoAccept,
  type AutoAcceptOptions,
  openAutoAccept,
} from '../../../master/auth/auto-accept.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

async function openWith(
  t: ExecutionContext,
  pkiDir: string,
  options: Partial<AutoAcceptOptions> = {},
): Promise<AutoAccept> {
  const autoAccept = await openAutoAccept({
    pkiDir,
    autoAccept: false,
    autosignFile: null,
    autorejectFile: null,
    autosignGrainsDir: null,
    autosignTimeout: 120,
    permissivePkiAccess: false,
    ...options,
  });
  t.teardown(() => autoAccept.close());
  return autoAccept;
}

function write(file: string, text: string, mode = 0o644): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

test('without rules every key waits, with auto_accept none does', async (t) => {
  const directory = temporaryDirectory(t);
  t.is(await (await openWith(t, directory)).decide('web'), 'pend');
  t.is(await (await openWith(t, directory, { autoAccept: true })).decide('web'), 'accept');
});

test('lines are globs or whole regular expressions, and rejection wins', async (t) => {
  const directory = temporaryDirectory(t);
  const autosignFile = write(
    path.join(directory, 'sign'),
    '# web.*\n  *.example  \n\nnode[0-9]+\nalpha|beta\n',
  );
  const autorejectFile = write(path.join(directory, 'reject'), 'bad*\n');
  const rules = await openWith(t, directory, { autosignFile, autorejectFile });
  for (const id of ['a.example', 'node12', 'alpha', 'beta']) t.is(await rules.decide(id), 'accept');
  for (const id of ['web1', 'node', 'xnode1', 'node1x', 'alphax', 'xbeta', '']) {
    t.is(await rules.decide(id), 'pend', id);
  }
  t.is(await rules.decide('bad.example'), 'reject');
  t.deepEqual(rules.problems(), []);
});

test('an expression that would explode is answered, one that cannot be read is told', async (t) => {
  const directory = temporaryDirectory(t);
  const file = write(path.join(directory, 'sign'), '(a+)+b\n(?=x)y\n');
  const rules = await openWith(t, directory, { autosignFile: file });
  t.is(await rules.decide('a'.repeat(2000)), 'pend');
  t.deepEqual(rules.problems(), [
    { file, reason: 'line 2 is a regular expression that is not supported' },
  ]);
});

test('a file that others may write to is ignored, with its reason', async (t) => {
  const directory = temporaryDirectory(t);
  const file = write(path.join(directory, 'sign'), '*\n', 0o646);
  const rules = await openWith(t, directory, { autosignFile: file });
  t.is(await rules.decide('web'), 'pend');
  t.deepEqual(rules.problems(), [{ file, reason: 'others may write to it' }]);
  chmodSync(file, 0o664);
  await rules.refresh();
  t.is(await rules.decide('web'), 'pend');
  const permissive = { autosignFile: file, permissivePkiAccess: true };
  t.is(await (await openWith(t, directory, permissive)).decide('web'), 'accept');
});

test('files are read again when they change', async (t) => {
  const directory = temporaryDirectory(t);
  const file = path.join(directory, 'sign');
  const rules = await openWith(t, directory, { autosignFile: file });
  t.deepEqual(rules.problems(), [{ file, reason: 'it does not exist' }]);
  write(file, 'web\n');
  await rules.refresh();
  t.is(await rules.decide('web'), 'accept');
  rmSync(file);
  await rules.refresh();
  t.is(await rules.decide('web'), 'pend');
});

test('a stub accepts its id once', async (t) => {
  const directory = temporaryDirectory(t);
  const stub = write(path.join(directory, 'minions_autosign', 'web'), '');
  const rules = await openWith(t, directory);
  t.is(await rules.decide('db'), 'pend');
  t.deepEqual(await Promise.all([rules.decide('web'), rules.decide('web')]), ['accept', 'pend']);
  t.false(existsSync(stub));
});

test('an expired stub is removed and accepts nobody', async (t) => {
  const directory = temporaryDirectory(t);
  const stub = write(path.join(directory, 'minions_autosign', 'web'), '');
  utimesSync(stub, 1000, 1000);
  const clock = { now: 1_000_000 + 120 * 60_000 };
  const rules = await openWith(t, directory, { now: () => clock.now });
  t.true(existsSync(stub));
  clock.now += 1;
  t.is(await rules.decide('web'), 'pend');
  await rules.refresh();
  t.false(existsSync(stub));
});

test('a grain accepts when its Python text is a line of the file of its name', async (t) => {
  const directory = temporaryDirectory(t);
  const autosignGrainsDir = path.join(directory, 'grains');
  write(path.join(autosignGrainsDir, 'uuid'), "# nobody\nabc\n12\nTrue\n['a', \"it's\"]\nNone\n");
  write(path.join(autosignGrainsDir, 'loose'), 'abc\n', 0o666);
  const rules = await openWith(t, directory, { autosignGrainsDir });
  for (const value of ['abc', 12, true, ['a', "it's"]]) {
    t.is(await rules.decide('web', new Map([['uuid', value]])), 'accept');
  }
  for (const value of [null, undefined, '# nobody', '', 'abcd', false, {}, Buffer.from('abc')]) {
    t.is(await rules.decide('web', new Map([['uuid', value]])), 'pend');
  }
  t.is(await rules.decide('web', new Map([['loose', 'abc']])), 'pend');
  t.is(await rules.decide('web', new Map([['other', 'abc']])), 'pend');
});

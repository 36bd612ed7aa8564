import { readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { ifPresent } from '#runtime';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

test('a missing file gives undefined, and an unreadable one an error', async (t) => {
  const directory = temporaryDirectory(t);
  t.is(await ifPresent(readFile(path.join(directory, 'none'))), undefined);
  await writeFile(path.join(directory, 'file'), 'text');
  t.is(await ifPresent(readdir(path.join(directory, 'file', 'none'))), undefined);
  t.is(await ifPresent(readFile(path.join(directory, 'file'), 'utf8')), 'text');
  await symlink('loop', path.join(directory, 'loop'));
  await t.throwsAsync(ifPresent(readdir(path.join(directory, 'loop'))), { code: 'ELOOP' });
});

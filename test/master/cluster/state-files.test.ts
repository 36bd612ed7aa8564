/** The list of the files below a directory. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { listFiles } from '#cluster/state-files.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

test('a directory and a link that are deleted meanwhile do not end the list', async (t) => {
  const root = temporaryDirectory(t);
  for (const name of ['a', 'b', 'c']) {
    mkdirSync(path.join(root, name));
    writeFileSync(path.join(root, name, 'file'), '');
    symlinkSync('file', path.join(root, name, 'link'));
  }
  const deleted: string[] = [];
  const deleteFirst = (kind: string, name: string): void => {
    if (deleted.includes(kind)) return;
    deleted.push(kind, name);
    rmSync(path.join(root, name), { recursive: true });
  };
  const names = await listFiles(root, (name) => {
    if (path.dirname(name) === '.') deleteFirst('directory', name);
    else if (path.basename(name) === 'link') deleteFirst('link', name);
    return false;
  });
  const all = ['a', 'b', 'c'].flatMap((it) => [`${it}/file`, `${it}/link`]);
  t.is(deleted.length, 4);
  t.deepEqual(
    names,
    all.filter((it) => !deleted.includes(it) && !deleted.includes(path.dirname(it))),
  );
  t.is(names.length, 3);
  t.deepEqual(await listFiles(path.join(root, 'missing')), []);
});

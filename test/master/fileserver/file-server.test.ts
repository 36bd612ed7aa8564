/** Several backends as one, and files from memory. */
import { type FileLists, noFiles } from '../../../master/files/backend.ts';
import { FileServer } from '../../../master/files/file-server.ts';
import { createMemoryFiles } from '../../../master/files/memory-files.ts';
import { PackedLists } from '../../../master/files/roots.ts';
import { unpackWire } from '../../../minion-protocol/index.ts';
import test from 'ava';

const modules = { '_modules/guest.py': 'def version():\n    return 1\n' };

test('files in memory are served with hash, size and parts', async (t) => {
  const files = createMemoryFiles({ base: modules });
  const found = await files.find('_modules/guest.py', 'base');
  t.is(await found?.hash('md5'), 'fa4f27c5df7573483538fb12ba939e7d');
  t.is(found?.stat.size, 28);
  t.is(Buffer.from((await found?.read(4, 7)) ?? []).toString(), 'version');
  t.deepEqual((await files.lists('base')).dirs, ['_modules']);
});

test('what changes in memory shows at once', async (t) => {
  const files = createMemoryFiles();
  t.is(await files.lists('base'), noFiles);
  files.put('base', 'a', 'one');
  const before = await files.lists('base');
  t.is(await files.lists('base'), before);
  files.put('base', 'b/c/d', 'two');
  t.deepEqual((await files.lists('base')).dirs, ['b', 'b/c']);
  files.remove('base', 'a');
  t.deepEqual((await files.lists('base')).files, ['b/c/d']);
  files.remove('base', 'b/c/d');
  t.deepEqual(files.envs(), []);
});

test('a path that no minion could ask for cannot be put', (t) => {
  const files = createMemoryFiles();
  for (const path of ['/a', '../a', 'a//b', '', 'a\0']) {
    t.throws(() => files.put('base', path, ''), { instanceOf: TypeError });
  }
});

test('the first backend that has a file serves it, and says so', async (t) => {
  const server = new FileServer([
    createMemoryFiles({ base: { a: 'first' } }),
    createMemoryFiles({ base: { a: 'second', b: 'second' }, dev: { c: 'dev' } }),
  ]);
  const read = async (path: string, saltenv = 'base'): Promise<string | undefined> => {
    const found = await server.find(path, saltenv);
    return found && Buffer.from(await found.file.read(0, 100)).toString();
  };
  t.is(await read('a'), 'first');
  t.is(await read('b'), 'second');
  t.is(await read('c?saltenv=dev'), 'dev');
  t.is(await read('../a'), undefined);
  t.deepEqual(server.envs(), ['base', 'dev']);
  t.is((await server.find('a', 'base'))?.back, 'memory');
});

test('lists of several backends are joined once for each state of theirs', async (t) => {
  const changing = createMemoryFiles({ base: { 'x/b': '' } });
  const server = new FileServer([createMemoryFiles({ base: { a: '', 'x/b': '' } }), changing]);
  const lists = await server.lists('base');
  t.deepEqual(lists.files, ['a', 'x/b']);
  t.is(await server.lists('base'), lists);
  changing.put('base', 'c', '');
  t.deepEqual((await server.lists('base')).files, ['a', 'c', 'x/b']);
  t.is(await server.lists('nowhere'), noFiles);
  t.is(await server.lists(null), noFiles);
});

test('a list is packed once for all who ask with the same prefix', (t) => {
  const lists: FileLists = {
    files: ['_modules/a', '_modules/b', 'top.sls'],
    dirs: ['_modules'],
    emptyDirs: [],
    links: new Map([['l', 'top.sls']]),
  };
  const packed = new PackedLists();
  const modulesOnly = packed.pack(lists, 'files', '/_modules/');
  t.deepEqual(unpackWire(modulesOnly), ['_modules/a', '_modules/b']);
  t.is(packed.pack(lists, 'files', '_modules'), modulesOnly);
  t.not(packed.pack({ ...lists }, 'files', '_modules'), modulesOnly);
  t.deepEqual({ ...Object(unpackWire(packed.pack(lists, 'links', ''))) }, { l: 'top.sls' });
  t.deepEqual(unpackWire(packed.pack(lists, 'files', 'zzz')), []);
});

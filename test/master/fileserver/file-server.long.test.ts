/** The file server: several backends combined, and files in memory. */

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  createMemoryFiles,
  type FileLists,
  type FileServerBackend,
  type ListRequester,
  noFiles,
  relativePath,
} from '#master';
import { unpackWire, type WireMap, type WireValue } from '#minion-protocol';
import { maxSliceSteps } from '#runtime';
import { FileServer } from '#salt/file-trees/file-server.ts';
import { TreeFiles } from '#salt/file-trees/gitfs.ts';
import { type ListKind, PackedLists } from '#salt/file-trees/packed-lists.ts';
import { requestedFile } from '#salt/file-trees/requested-file.ts';
import { openRoots, type RootsOptions } from '#salt/file-trees/roots.ts';
import { PushedFiles } from '#salt/files/pushed-files.ts';
import { within } from '../../helpers/deadline.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const modules = { '_modules/guest.py': 'def version():\n    return 1\n' };

test('files in memory are served with hash, size and parts', async (t) => {
  const files = createMemoryFiles({ base: modules });
  const found = await files.find('_modules/guest.py', 'base');
  t.is(await found?.hash('md5'), 'fa4f27c5df7573483538fb12ba939e7d');
  t.is(found?.stat.size, 28);
  t.is(Buffer.from((await found?.read(4, 7)) ?? []).toString(), 'version');
  t.deepEqual((await files.lists('base')).dirs, ['_modules']);
});

test('changes of files in memory are visible at once', async (t) => {
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

test('a path that no minion can request is refused', (t) => {
  const files = createMemoryFiles();
  for (const path of ['/a', '../a', 'a//b', '', 'a\0']) {
    t.throws(() => files.put('base', path, ''), { instanceOf: TypeError });
  }
});

test('the first backend with a file serves it, and is named in the result', async (t) => {
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

test('lists of several backends are merged once for each of their states', async (t) => {
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

/**
 * Returns a backend that serves the same lists in every environment, like a fallback branch of
 * gitfs.
 */
function fallback(...files: readonly string[]): FileServerBackend {
  const lists: FileLists = { files, dirs: [], emptyDirs: [], links: new Map() };
  return {
    name: 'fallback',
    envs: () => [],
    find: async () => undefined,
    lists: async () => lists,
    close: async () => {},
  };
}

test('unknown environments are merged once for all of them', async (t) => {
  const backends = [fallback('a', 'b'), createMemoryFiles(), fallback('b', 'c'), fallback('d')];
  const lists = await new FileServer(backends).lists('base');
  t.deepEqual(lists.files, ['a', 'b', 'c', 'd']);
  const again = new FileServer(backends);
  for (const env of ['base', 'invented', 'another']) t.is(await again.lists(env), lists);
});

const inRoot = { root: '', mountpoint: '' };

/** Returns the files of branches that have different trees, with `size` files each. */
function branches(ids: readonly string[], size = 1): TreeFiles {
  const file = { kind: 'file', id: 'blob', isExecutable: false } as const;
  const tree = () => new Map(Array.from({ length: size }, (_, at) => [`file${at}`, file] as const));
  const snapshot = {
    refs: new Map(ids.map((id) => [`branch ${id}`, id])),
    trees: new Map(ids.map((id) => [id, tree()])),
  };
  return new TreeFiles({ snapshot, find: async () => undefined });
}

/** Returns a requester that notes the numbers of paths that it pays for. */
function payer(): ListRequester & { readonly paid: number[] } {
  const paid: number[] = [];
  return { owner: 'minion web1', pay: async (paths) => void paid.push(paths), paid };
}

const overLimit: ListRequester = {
  owner: 'minion web2',
  pay: async () => {
    throw new Error('too many waiting');
  },
};

test('the file lists of 64 branches of a repository are cached', async (t) => {
  const ids = Array.from({ length: 65 }, (_, i) => `tree${i}`);
  const files = branches(ids);
  const listsOf = (id: string): Promise<FileLists> => files.lists(id, inRoot);
  const all = await Promise.all(ids.map(listsOf));
  t.is(all[64], await listsOf('tree64'));
  const again = await listsOf('tree0');
  t.not(again, all[0], 'the oldest went for the 65th');
  t.deepEqual(all[0], again);
});

test('lists of branches that are not in the cache count for their minion before they are built', async (t) => {
  const ids = Array.from({ length: 65 }, (_, i) => `tree${i}`);
  const files = branches(ids, 10);
  const minion = payer();
  for (const id of ids) await files.lists(id, inRoot, minion);
  t.is(minion.paid.length, 65);
  t.true(minion.paid.every((paths) => paths === 10));
  await files.lists('tree64', inRoot, minion);
  t.is(minion.paid.length, 65, 'a list in the cache costs nothing');
  await t.throwsAsync(files.lists('tree0', inRoot, overLimit), { message: 'too many waiting' });
  await files.lists('tree0', inRoot, minion);
  t.is(minion.paid.length, 66, 'the rejected request built no list');
});

test('packing and merging lists count for their minion before they are done', async (t) => {
  const listsOf = (...files: string[]): FileLists => {
    return { files, dirs: [], emptyDirs: [], links: new Map() };
  };
  const packed = new PackedLists();
  const lists = listsOf('a', 'b', 'c');
  const minion = payer();
  await t.throwsAsync(packed.pack(lists, 'files', 'x', overLimit), { message: 'too many waiting' });
  await packed.pack(lists, 'files', 'x', minion);
  await packed.pack(lists, 'files', '', minion);
  t.deepEqual(minion.paid, [3]);
  const server = new FileServer([fallback('a', 'b'), fallback('c')]);
  await t.throwsAsync(server.lists('base', overLimit), { message: 'too many waiting' });
  await server.lists('base', minion);
  await server.lists('base', minion);
  t.deepEqual(minion.paid, [3, 3]);
});

// Counts the slices of the process, so that no other test may run at the same time.
test.serial('the lists of a large branch are built and merged in slices', async (t) => {
  const files = branches(['large', 'other'], 20_000);
  const lists = async (): Promise<FileLists[]> => [
    await files.lists('large', inRoot, payer()),
    await files.lists('other', inRoot),
  ];
  const slices = await slicesOf(lists);
  t.true(slices.length >= 40, `${slices}`);
  t.true(slices.every((steps) => steps <= 1.5 * maxSliceSteps));
  const backends = (await lists()).map((of) => ({ ...fallback(), lists: async () => of }));
  const merging = await slicesOf(() => new FileServer(backends).lists('base'));
  t.true(merging.length >= 20, `${merging}`);
  t.true(merging.every((steps) => steps <= 1.5 * maxSliceSteps));
});

test('a list is packed once for all requests with the same prefix', async (t) => {
  const lists: FileLists = {
    files: ['_modules/a', '_modules/b', 'top.sls'],
    dirs: ['_modules'],
    emptyDirs: [],
    links: new Map([['l', 'top.sls']]),
  };
  const packed = new PackedLists();
  const reply = async (of: FileLists, kind: ListKind, prefix: string): Promise<WireValue> =>
    unpackWire(Buffer.concat(await packed.pack(of, kind, prefix)));
  t.deepEqual(await reply(lists, 'files', '/_modules/'), ['_modules/a', '_modules/b']);
  t.deepEqual(await reply({ ...lists }, 'files', '_modules'), ['_modules/a', '_modules/b']);
  t.deepEqual({ ...Object(await reply(lists, 'links', '')) }, { l: 'top.sls' });
  t.deepEqual(await reply(lists, 'files', 'zzz'), []);
});

test('a reply for a prefix is a part of the packed list, for any size', async (t) => {
  const packed = new PackedLists();
  for (const [size, ...prefixes] of [
    [0, '', 'a'],
    [15, '', 'é'],
    [16, '', 'a1', 'b'],
    [70_000, '', 'a', 'a1', 'a12', 'é', 'b', 'zz'],
  ] as const) {
    const long = 'x'.repeat(40);
    const names = Array.from({ length: size }, (_, at) => `${'aéb'.charAt(at % 3)}${at}/${long}`);
    const links = new Map(names.map((name) => [name, `to ${name}`]));
    const lists: FileLists = { files: names, dirs: [], emptyDirs: [], links };
    const whole = (await packed.pack(lists, 'files', ''))[1]?.buffer;
    for (const prefix of prefixes) {
      const pieces = await packed.pack(lists, 'files', prefix);
      t.is(pieces[1]?.buffer, whole);
      const wanted = names.filter((name) => name.startsWith(prefix)).sort();
      t.deepEqual(unpackWire(Buffer.concat(pieces)), wanted);
      const found = unpackWire(Buffer.concat(await packed.pack(lists, 'links', prefix)));
      t.deepEqual(Object.keys(Object(found)).sort(), wanted);
    }
  }
});

// Counts the slices of the process, so that no other test may run at the same time.
test.serial(
  'a long list is sorted and packed in slices, once for all requests that wait',
  async (t) => {
    const packed = new PackedLists();
    const files = Array.from({ length: 20_000 }, (_, at) => `dir/${at}`);
    const lists: FileLists = { files, dirs: [], emptyDirs: [], links: new Map() };
    const slices = await slicesOf(async () => {
      const replies = await Promise.all([1, 2].map(() => packed.pack(lists, 'files', '')));
      t.is(replies[0]?.[1]?.buffer, replies[1]?.[1]?.buffer);
    });
    t.true(slices.length >= 25 && slices.length <= 40, `${slices}`);
    t.true(slices.every((steps) => steps <= 1.5 * maxSliceSteps));
  },
);

// Files that minions push, and paths that are rejected.

interface Pushed {
  readonly cachedir: string;
  push(path: WireValue, data: WireValue, loc?: WireValue, id?: string): Promise<boolean>;
  read(file: string): string;
}

function open(
  t: ExecutionContext,
  maxFileBytes = 1000,
  maxMinionBytes = 0,
  maxMinionFiles = 0,
): Pushed {
  const cachedir = path.join(temporaryDirectory(t), 'cache');
  const files = new PushedFiles({ cachedir, maxFileBytes, maxMinionBytes, maxMinionFiles });
  return {
    cachedir,
    push: (names, data, loc = 0, id = 'web1') => {
      const load: WireMap = { path: names, data, loc };
      return files.take(id, load);
    },
    read: (file) => readFileSync(path.join(cachedir, 'minions/web1/files', file), 'utf8'),
  };
}

test('parts in order make up the file, even if others push at the same time', async (t) => {
  const { push, read, cachedir } = open(t);
  t.true(await push(['var', 'log', 'x'], 'one'));
  t.true(await push(['var', 'log', 'x'], Buffer.from('two'), 3));
  t.true(await push(['var', 'log', 'x'], 'other', 0, 'web2'));
  t.is(read('var/log/x'), 'onetwo');
  const file = path.join(cachedir, 'minions/web1/files/var/log/x');
  t.is(statSync(file).mode & 0o777, 0o600);
  t.is(statSync(path.dirname(file)).mode & 0o777, 0o700);
});

test('a part that is sent again after a lost reply is in the file once', async (t) => {
  const { push, read } = open(t);
  await push(['x'], 'one');
  await push(['x'], 'two', 3);
  t.true(await push(['x'], 'two', 3));
  t.is(read('x'), 'onetwo');
});

test('parts sent at the same time are written in the order of arrival', async (t) => {
  const { push, read } = open(t);
  const parts = Array.from({ length: 20 }, (_, index) => push(['x'], 'ab', 2 * index));
  t.true((await Promise.all(parts)).every(Boolean));
  t.is(read('x'), 'ab'.repeat(20));
});

test('the first part replaces the file', async (t) => {
  const { push, read } = open(t);
  await push(['x'], 'a longer one');
  t.true(await push(['x'], 'new'));
  t.is(read('x'), 'new');
  t.true(await push(['empty'], ''));
  t.is(read('empty'), '');
});

for (const [what, names] of Object.entries({
  'an absolute path': ['', 'etc', 'passwd'],
  'a path that goes up': ['..', 'x'],
  'a path that goes up inside of a name': ['a', '../../../x'],
  'a path with NUL': ['a\0'],
  'no names': [],
  'bytes that are not UTF-8': [Buffer.from([0xff])],
  'a text in place of names': 'x',
  'a name of 300 bytes': ['x'.repeat(300)],
})) {
  test(`${what} is refused`, async (t) => {
    const { push, cachedir } = open(t);
    t.false(await push(names, 'x'));
    t.false(existsSync(path.join(cachedir, 'minions', 'x')));
  });
}

for (const loc of [-1, 0.5, '0', null, Number.NaN, 2 ** 60]) {
  test(`the offset ${String(loc)} of type ${typeof loc} is refused`, async (t) => {
    t.false(await open(t).push(['x'], 'x', loc));
  });
}

test('a part that would leave a hole is refused', async (t) => {
  const { push } = open(t);
  t.false(await push(['x'], 'x', 1));
  await push(['x'], 'x');
  t.false(await push(['x'], 'x', 2));
});

test('a file may not be larger than file_recv_max_size', async (t) => {
  const { push, read } = open(t, 10);
  t.false(await push(['x'], 'x'.repeat(11)));
  t.true(await push(['x'], 'x'.repeat(10)));
  t.false(await push(['x'], 'x', 10));
  t.is(read('x').length, 10);
});

test('the total size of files of a minion is limited, and small ones count with the blocks they use', async (t) => {
  const { push, cachedir } = open(t, 1000, 3 * 4096);
  for (const name of ['a', 'b', 'c']) t.true(await push([name], 'x'));
  t.false(await push(['d'], 'x'));
  t.true(await push(['c'], 'other'), 'one that is there may be written again');
  t.true(await push(['d'], 'x', 0, 'web2'), 'each has a quota of its own');
  const restarted = new PushedFiles({
    cachedir,
    maxFileBytes: 1000,
    maxMinionFiles: 0,
    maxMinionBytes: 3 * 4096,
  });
  t.false(await restarted.take('web1', { path: ['d'], data: 'x', loc: 0 }), 'after a restart too');
});

test('the number of files and folders of a minion is limited', async (t) => {
  const { push, cachedir } = open(t, 1000, 0, 4);
  t.true(await push(['a', 'b', 'c'], 'x'), 'two folders and a file');
  t.false(await push(['d', 'e'], 'x'), 'a folder and a file are too many');
  t.true(await push(['a', 'b', 'd'], 'x'));
  t.false(await push(['e'], 'x'));
  t.true(await push(['a', 'b', 'd'], 'other'), 'one that is there may be written again');
  t.true(await push(['e'], 'x', 0, 'web2'), 'each has a quota of its own');
  const options = { cachedir, maxFileBytes: 1000, maxMinionFiles: 4, maxMinionBytes: 0 };
  const restarted = new PushedFiles(options);
  t.false(await restarted.take('web1', { path: ['e'], data: 'x', loc: 0 }), 'after a restart too');
});

test('folders of a file that cannot be created count', async (t) => {
  const { push, cachedir } = open(t, 1000, 0, 3);
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    await push([name, 'x'.repeat(300)], 'x').catch(() => {});
  }
  t.true(readdirSync(path.join(cachedir, 'minions/web1/files')).length <= 3);
});

test('links out of the folder are not followed', async (t) => {
  const { push, cachedir } = open(t);
  const outside = path.join(cachedir, 'outside');
  const base = path.join(cachedir, 'minions/web1/files');
  mkdirSync(outside, { recursive: true });
  mkdirSync(base, { recursive: true });
  writeFileSync(path.join(outside, 'canary'), 'alive');
  symlinkSync(outside, path.join(base, 'dir'));
  symlinkSync(path.join(outside, 'canary'), path.join(base, 'file'));
  t.false(await push(['dir', 'new'], 'x'));
  t.false(await push(['dir', 'sub', 'new'], 'x'));
  t.false(await push(['file'], 'dead'));
  t.false(existsSync(path.join(outside, 'new')));
  t.false(existsSync(path.join(outside, 'sub')));
  t.is(readFileSync(path.join(outside, 'canary'), 'utf8'), 'alive');
});

test('a file in place of a folder, and a folder in place of a file, are not replaced', async (t) => {
  const { push, read } = open(t);
  await push(['a'], 'file');
  t.false(await push(['a', 'b'], 'x'));
  await push(['d', 'e'], 'x');
  t.false(await push(['d'], 'x'));
  t.is(read('a'), 'file');
});

test('an invalid id is refused', async (t) => {
  const { push } = open(t);
  for (const id of ['..', 'a/b', '', 'a\0']) t.false(await push(['x'], 'x', 0, id));
});

test('a path is read with the environment of its load', (t) => {
  t.deepEqual(requestedFile('a/b.sls', 'dev'), { path: 'a/b.sls', saltenv: 'dev' });
});

test('an environment in the path takes precedence over that of the load', (t) => {
  t.deepEqual(requestedFile('a?x=1&saltenv=dev', 'base'), { path: 'a', saltenv: 'dev' });
});

test('an escaped path has no query', (t) => {
  t.deepEqual(requestedFile('|a?saltenv=dev', 'base'), { path: 'a?saltenv=dev', saltenv: 'base' });
});

test('an environment that is a number is its digits', (t) => {
  t.deepEqual(requestedFile('a', 3), { path: 'a', saltenv: '3' });
});

for (const [what, path] of Object.entries({
  'an absolute path': '/etc/passwd',
  'an escaped absolute path': '|/etc/passwd',
  'a path that goes up': '../a',
  'a path that goes up in between': 'a/../../b',
  'a path that goes up at the end': 'a/..',
  'a path with NUL': 'a\0.sls',
  'the root itself': '.',
  'an empty path': '',
  'only slashes behind a dot': './/',
  'a path of 5,000 bytes': 'a'.repeat(5000),
  'a path that goes up behind a query': '..?saltenv=base',
  'bytes that are not UTF-8': Buffer.from([0xff, 0x2f]),
  'a number': 7,
  nothing: null,
})) {
  test(`${what} does not name a file`, (t) => {
    t.is(requestedFile(path, 'base'), undefined);
  });
}

for (const saltenv of [undefined, null, '', true, ['base']]) {
  test(`the environment ${JSON.stringify(saltenv)} is invalid`, (t) => {
    t.is(requestedFile('a', saltenv), undefined);
  });
}

test('a name of an environment and a query have at most 4096 characters', (t) => {
  const [longest, tooLong] = ['x'.repeat(4096), 'x'.repeat(4097)];
  t.is(requestedFile('a', longest)?.saltenv, longest);
  t.is(requestedFile('a', tooLong), undefined);
  t.is(requestedFile(`a?saltenv=${longest.slice(8)}`, 'base')?.saltenv.length, 4088);
  t.is(requestedFile(`a?saltenv=${longest}`, 'base'), undefined);
  t.is(requestedFile(`a?${'&'.repeat(5000)}`, 'base'), undefined);
});

test('names with dots, backslashes and percent signs are valid', (t) => {
  for (const name of ['...', '..a', 'a..', '..\\a', '%2e%2e', 'ä/✓'])
    t.is(relativePath(name), name);
});

test('repeated slashes and dots are removed', (t) => {
  t.is(relativePath('./a//b/./c/'), 'a/b/c');
});

// Files that are served from directories, and files that are not.

const defaults: Omit<RootsOptions, 'fileRoots'> = {
  fileIgnoreGlob: [],
  fileIgnoreRegex: [],
  fileserverFollowsymlinks: true,
  fileserverIgnoresymlinks: false,
  fileserverListCacheTime: 1,
};

interface Served {
  readonly directory: string;
  readonly backend: FileServerBackend;
}

/** Serves the directory `srv` of a tree as the environment `base`. */
async function serve(
  t: ExecutionContext,
  tree: FileTree,
  options: Partial<RootsOptions> = {},
  hidden: readonly string[] = [],
): Promise<Served> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const below = (place: string): string => path.join(directory, place);
  const fileRoots = Object.fromEntries(
    Object.entries(options.fileRoots ?? { base: ['srv'] }).map(([env, places]) => [
      env,
      places.map(below),
    ]),
  );
  const backend = await openRoots(
    { ...defaults, ...options, fileRoots },
    { hidden: hidden.map(below) },
  );
  t.teardown(() => backend.close());
  return { directory, backend };
}

test('with a list cache of 0 seconds, each list is built anew', async (t) => {
  const tree = { 'srv/a.sls': 'a' };
  const { directory, backend } = await serve(t, tree, { fileserverListCacheTime: 0 });
  t.deepEqual((await backend.lists('base')).files, ['a.sls']);
  writeFileSync(path.join(directory, 'srv', 'b.sls'), 'b');
  t.deepEqual((await backend.lists('base')).files, ['a.sls', 'b.sls']);
});

async function content(backend: FileServerBackend, file: string, env = 'base') {
  const found = await backend.find(file, env);
  return found && Buffer.from(await found.read(0, 1000)).toString();
}

/** Waits until the environment `base` has exactly these files. */
async function listed(backend: FileServerBackend, files: readonly string[]): Promise<void> {
  const look = async (): Promise<void> => {
    while (String((await backend.lists('base')).files) !== String(files)) {
      await new Promise((resolve) => {
        setTimeout(resolve, 5);
      });
    }
  };
  await within(`the files ${files}`, look());
}

test('lists contain files, directories, empty directories and links', async (t) => {
  const { backend } = await serve(t, {
    'srv/a': '1',
    'srv/sub/b': '2',
    'srv/empty': null,
    'srv/link': { link: 'a' },
    'srv/dir': { link: 'sub' },
  });
  t.deepEqual(await backend.lists('base'), {
    files: ['a', 'dir/b', 'link', 'sub/b'],
    dirs: ['dir', 'empty', 'sub'],
    emptyDirs: ['empty'],
    links: new Map([
      ['dir', 'sub'],
      ['link', 'a'],
    ]),
  });
});

test('the first root with a file serves it, and lists contain the files of all roots', async (t) => {
  const { backend } = await serve(
    t,
    { 'one/a': 'one', 'two/a': 'two', 'two/b': 'two' },
    { fileRoots: { base: ['one', 'two', 'missing'] } },
  );
  t.is(await content(backend, 'a'), 'one');
  t.is(await content(backend, 'b'), 'two');
  t.deepEqual((await backend.lists('base')).files, ['a', 'b']);
});

test('a glob may give several roots', async (t) => {
  const { backend } = await serve(
    t,
    { 'formulas/x/x.sls': 'x', 'formulas/y/y.sls': 'y' },
    { fileRoots: { base: ['formulas/*'] } },
  );
  t.deepEqual((await backend.lists('base')).files, ['x.sls', 'y.sls']);
});

test('links that leave the root are neither listed nor served', async (t) => {
  const { backend } = await serve(t, {
    secret: 'canary',
    'srv-private/secret': 'canary',
    'srv/out': { link: '../secret' },
    'srv/beside': { link: '../srv-private' },
    'srv/absolute': { link: '/etc' },
    'srv/twice': { link: 'out' },
    'srv/in': 'fine',
  });
  for (const file of ['out', 'beside/secret', 'absolute/passwd', 'twice']) {
    t.is(await content(backend, file), undefined, file);
  }
  const lists = await backend.lists('base');
  t.deepEqual(lists.files, ['in']);
  t.deepEqual(lists.dirs, []);
  t.is(lists.links.size, 0);
});

test('links that are not followed are listed with their own type', async (t) => {
  const tree = { 'srv/sub/b': '2', 'srv/dir': { link: 'sub' }, 'srv/out': { link: '/etc' } };
  const { backend } = await serve(t, tree, { fileserverFollowsymlinks: false });
  const lists = await backend.lists('base');
  t.deepEqual(lists.files, ['sub/b']);
  t.deepEqual(Object.fromEntries(lists.links), { dir: 'sub', out: '/etc' });
  t.is(await content(backend, 'out/passwd'), undefined);
});

test('ignored links are not listed', async (t) => {
  const tree = { 'srv/sub/b': '2', 'srv/dir': { link: 'sub' }, 'srv/b': { link: 'sub/b' } };
  const { backend } = await serve(t, tree, { fileserverIgnoresymlinks: true });
  const lists = await backend.lists('base');
  t.deepEqual(lists.files, ['sub/b']);
  t.is(lists.links.size, 0);
});

test('circular links do not cause an endless loop', async (t) => {
  const { backend } = await serve(t, {
    'srv/a/up': { link: '..' },
    'srv/a/self': { link: 'self' },
    'srv/a/file': '1',
  });
  t.deepEqual((await backend.lists('base')).files.slice(0, 2), ['a/file', 'a/self']);
});

test('a root that is a link is replaced by its target', async (t) => {
  const { backend } = await serve(t, { 'releases/1/a': 'one', srv: { link: 'releases/1' } });
  t.is(await content(backend, 'a'), 'one');
  t.deepEqual((await backend.lists('base')).files, ['a']);
});

test('ignored paths do not exist', async (t) => {
  const { backend } = await serve(
    t,
    { 'srv/a.sls': '1', 'srv/a.swp': '2', 'srv/x/.git/config': '3', 'srv/b_test.py': '4' },
    { fileIgnoreGlob: ['*.swp'], fileIgnoreRegex: ['/\\.git($|/)', '(?<=_)test'] },
  );
  t.deepEqual((await backend.lists('base')).files, ['a.sls']);
  t.is(await content(backend, 'a.sls'), '1');
  for (const file of ['a.swp', 'x/.git/config', 'b_test.py']) {
    t.is(await content(backend, file), undefined, file);
  }
});

test('hidden directories are not served, even below a root', async (t) => {
  const { backend } = await serve(
    t,
    { 'srv/pki/master.pem': 'canary', 'srv/a': '1', 'srv/way': { link: 'pki' } },
    {},
    ['srv/pki', 'srv/not-there-yet'],
  );
  t.is(await content(backend, 'pki/master.pem'), undefined);
  t.is(await content(backend, 'way/master.pem'), undefined);
  t.deepEqual((await backend.lists('base')).files, ['a']);
});

test('directories, and paths through a file, are not served', async (t) => {
  const { backend } = await serve(t, { 'srv/sub/a': '1' });
  for (const file of ['sub', 'sub/a/b', 'x'.repeat(300)]) {
    t.is(await content(backend, file), undefined);
  }
});

test('an unknown environment is empty', async (t) => {
  const { backend } = await serve(t, { 'srv/a': '1' });
  t.is(await content(backend, 'a', 'dev'), undefined);
  t.is(await backend.lists('dev'), noFiles);
  t.is(await backend.lists('constructor'), noFiles);
});

test('__env__ stands for every other environment, within one segment of a path', async (t) => {
  const { backend } = await serve(
    t,
    { 'srv/a': 'base', 'envs/dev/a': 'dev', secret: 'canary', 'envs/$&/a': 'dollar' },
    { fileRoots: { base: ['srv'], __env__: ['envs/__env__'] } },
  );
  t.is(await content(backend, 'a', 'base'), 'base');
  t.is(await content(backend, 'a', 'dev'), 'dev');
  t.is(await content(backend, 'a', '$&'), 'dollar');
  t.deepEqual((await backend.lists('dev')).files, ['a']);
  t.is(await backend.lists('invented'), noFiles);
  t.deepEqual(backend.envs(), ['base', '__env__']);
  for (const env of ['..', '.', '../srv', 'dev/../..', 'dev\0', '']) {
    t.is(await content(backend, 'secret', env), undefined, env);
    t.is(await content(backend, 'a', env), undefined, env);
    t.is(await backend.lists(env), noFiles, env);
  }
});

test('invented environments share the lists of __env__', async (t) => {
  const { backend, directory } = await serve(
    t,
    { 'all/a': 'all', 'envs/dev/b': 'dev' },
    { fileRoots: { base: ['srv'], __env__: ['all', 'envs/__env__'] } },
  );
  const first = await backend.lists('invented');
  t.deepEqual(first.files, ['a']);
  for (let number = 0; number < 5; number += 1) t.is(await backend.lists(`x${number}`), first);
  t.deepEqual((await backend.lists('dev')).files, ['a', 'b']);
  layOut(directory, { 'envs/x1/c': 'new' });
  t.deepEqual((await backend.lists('x1')).files, ['a', 'c']);
  t.is(await backend.lists('x2'), first);
  t.deepEqual(await backend.refresh?.(['x2', 'dev', '..']), ['x2', 'dev']);
  const { backend: whole } = await serve(
    t,
    { 'all/a': 'all' },
    { fileRoots: { base: ['srv'], __env__: ['all'] } },
  );
  t.is(await whole.lists('invented'), await whole.lists('__env__'));
});

test('a change is visible in the lists, and without a change they are the same object', async (t) => {
  const { backend, directory } = await serve(t, { 'srv/a': '1' });
  const before = await backend.lists('base');
  t.is(await backend.lists('base'), before);
  const sees = (files: readonly string[]): Promise<void> => listed(backend, files);
  mkdirSync(path.join(directory, 'srv/sub'));
  writeFileSync(path.join(directory, 'srv/sub/b'), '2');
  await sees(['a', 'sub/b']);
  writeFileSync(path.join(directory, 'srv/sub/c'), '3');
  await sees(['a', 'sub/b', 'sub/c']);
  rmSync(path.join(directory, 'srv/sub'), { recursive: true });
  await sees(['a']);
  t.pass();
});

test('without a watch, a root that is created or points elsewhere is noticed', async (t) => {
  const { backend, directory } = await serve(t, { 'one/a': '1', 'two/b': '2' });
  t.deepEqual((await backend.lists('base')).files, []);
  symlinkSync('one', path.join(directory, 'srv'));
  await listed(backend, ['a']);
  rmSync(path.join(directory, 'srv'));
  symlinkSync('two', path.join(directory, 'srv'));
  await listed(backend, ['b']);
  t.pass();
});

test('a changed file has a new hash at once', async (t) => {
  const { backend, directory } = await serve(t, { 'srv/a': 'one' });
  const hash = async (): Promise<string | undefined> =>
    (await backend.find('a', 'base'))?.hash('md5');
  t.is(await hash(), 'f97c5d29941bfb1b2fdab0874906ab82');
  writeFileSync(path.join(directory, 'srv/a'), 'two');
  t.is(await hash(), 'b8a9f715dbb64fd5c56e7783c6820a61');
});

test('parts of a file are read from their offset, and end with the file', async (t) => {
  const { backend } = await serve(t, { 'srv/a': '0123456789' });
  const found = await backend.find('a', 'base');
  const read = async (offset: number, length: number): Promise<string> =>
    Buffer.from((await found?.read(offset, length)) ?? []).toString();
  t.is(await read(0, 4), '0123');
  t.is(await read(8, 4), '89');
  t.is(await read(10, 4), '');
  t.is(await read(Number.MAX_SAFE_INTEGER, 4), '');
});

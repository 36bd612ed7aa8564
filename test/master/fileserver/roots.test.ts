/** What is served from directories, and what is not. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { ExecutionContext } from 'ava';
import { type FileServerBackend, noFiles } from '../../../master/files/backend.ts';
import { type RootsOptions, openRoots } from '../../../master/files/roots.ts';
import { within } from '../../helpers/deadline.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import path from 'node:path';
import test, {} from 'ava';

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

/** Serves `srv` of a tree as `base`. */
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

async function content(backend: FileServerBackend, file: string, env = 'base') {
  const found = await backend.find(file, env);
  return found && Buffer.from(await found.read(0, 1000)).toString();
}

/** Waits until these are the files of `base`. */
async function listed(backend: FileServerBackend, files: readonly string[]): Promise<void> {
  const look = async (): Promise<void> => {
    while (String((await backend.lists('base')).files) !== String(files)) {
      await new Promise((resolve) => {
        setTimeout(resolve, 5);
      });
    }
  };
  await within(`the files ${files}`, look(), 30_000);
}

test('lists tell files, directories, empty ones and links', async (t) => {
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

test('the first root that has a file serves it, and lists are those of all roots', async (t) => {
  const { backend } = await serve(
    t,
    { 'one/a': 'one', 'two/a': 'two', 'two/b': 'two' },
    { fileRoots: { base: ['one', 'two', 'missing'] } },
  );
  t.is(await content(backend, 'a'), 'one');
  t.is(await content(backend, 'b'), 'two');
  t.deepEqual((await backend.lists('base')).files, ['a', 'b']);
});

test('a root may be several by globs', async (t) => {
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

test('links that are not followed are listed as what they are', async (t) => {
  const tree = { 'srv/sub/b': '2', 'srv/dir': { link: 'sub' }, 'srv/out': { link: '/etc' } };
  const { backend } = await serve(t, tree, { fileserverFollowsymlinks: false });
  const lists = await backend.lists('base');
  t.deepEqual(lists.files, ['sub/b']);
  t.deepEqual(Object.fromEntries(lists.links), { dir: 'sub', out: '/etc' });
  t.is(await content(backend, 'out/passwd'), undefined);
});

test('ignored links are in no list', async (t) => {
  const tree = { 'srv/sub/b': '2', 'srv/dir': { link: 'sub' }, 'srv/b': { link: 'sub/b' } };
  const { backend } = await serve(t, tree, { fileserverIgnoresymlinks: true });
  const lists = await backend.lists('base');
  t.deepEqual(lists.files, ['sub/b']);
  t.is(lists.links.size, 0);
});

test('links in a circle end', async (t) => {
  const { backend } = await serve(t, {
    'srv/a/up': { link: '..' },
    'srv/a/self': { link: 'self' },
    'srv/a/file': '1',
  });
  t.deepEqual((await backend.lists('base')).files.slice(0, 2), ['a/file', 'a/self']);
});

test('a root that is a link itself is where it leads', async (t) => {
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

test('hidden directories are not served though they lie below a root', async (t) => {
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

test('what is no file is not served: directories, and paths through a file', async (t) => {
  const { backend } = await serve(t, { 'srv/sub/a': '1' });
  for (const file of ['sub', 'sub/a/b', 'x'.repeat(300)]) {
    t.is(await content(backend, file), undefined);
  }
});

test('an environment that nobody knows has nothing', async (t) => {
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
  t.deepEqual(backend.envs(), ['base', '__env__']);
  for (const env of ['..', '.', '../srv', 'dev/../..', 'dev\0', '']) {
    t.is(await content(backend, 'secret', env), undefined, env);
    t.is(await content(backend, 'a', env), undefined, env);
    t.is(await backend.lists(env), noFiles, env);
  }
});

test('a change shows in the lists, and without one they stay the same object', async (t) => {
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

test('a root that comes to exist, or leads elsewhere, is noticed without a watch', async (t) => {
  const { backend, directory } = await serve(t, { 'one/a': '1', 'two/b': '2' });
  t.deepEqual((await backend.lists('base')).files, []);
  symlinkSync('one', path.join(directory, 'srv'));
  await listed(backend, ['a']);
  rmSync(path.join(directory, 'srv'));
  symlinkSync('two', path.join(directory, 'srv'));
  await listed(backend, ['b']);
  t.pass();
});

test('a changed file has another hash at once', async (t) => {
  const { backend, directory } = await serve(t, { 'srv/a': 'one' });
  const hash = async (): Promise<string | undefined> =>
    (await backend.find('a', 'base'))?.hash('md5');
  t.is(await hash(), 'f97c5d29941bfb1b2fdab0874906ab82');
  writeFileSync(path.join(directory, 'srv/a'), 'two');
  t.is(await hash(), 'b8a9f715dbb64fd5c56e7783c6820a61');
});

test('parts of a file are read from where they begin, and none behind its end', async (t) => {
  const { backend } = await serve(t, { 'srv/a': '0123456789' });
  const found = await backend.find('a', 'base');
  const read = async (offset: number, length: number): Promise<string> =>
    Buffer.from((await found?.read(offset, length)) ?? []).toString();
  t.is(await read(0, 4), '0123');
  t.is(await read(8, 4), '89');
  t.is(await read(10, 4), '');
  t.is(await read(Number.MAX_SAFE_INTEGER, 4), '');
});

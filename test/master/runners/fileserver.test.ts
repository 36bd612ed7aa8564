/** The `fileserver` and `saltutil` runners: what is served, as the master itself is told. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import {
  createLogger,
  createMemoryFiles,
  type FileServerBackend,
  type Master,
  openFileRoots,
  resolveMasterConfig,
} from '../../../master/index.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

async function run(master: Master, fun: string, kwarg: WireMap = {}): Promise<WireValue> {
  const { return: value, success } = await master.runners.run({ fun, kwarg });
  return success ? JSON.parse(JSON.stringify(value)) : { failed: value };
}

interface Served {
  readonly master: Master;
  readonly root: string;
  readonly log: string[];
}

/** `roots` with `base` and `dev`, and `memory` with one file in `base`. */
async function serve(t: ExecutionContext): Promise<Served> {
  const root = temporaryDirectory(t);
  layOut(root, {
    'base/a': '1',
    'base/sub/b': '2',
    'base/empty': null,
    'base/link': { link: 'a' },
    'base/_runners/mine.py': '',
    'base/_runners/mine.txt': '',
    'dev/d': '3',
  });
  const fileRoots = { base: [path.join(root, 'base')], dev: [path.join(root, 'dev')] };
  const roots = await openFileRoots(resolveMasterConfig({ fileRoots }));
  const memory = createMemoryFiles({ base: { 'from/memory': 'm' } });
  const log: string[] = [];
  const stream = new Writable({
    write: (line, _encoding, done) => {
      log.push(String(line));
      done();
    },
  });
  const { master } = await startVectorMaster(t, {
    fileserver: { backends: [roots, memory] },
    logger: createLogger('warning', stream),
  });
  return { master, root, log };
}

test('what is served is told by environment and by backend', async (t) => {
  const { master } = await serve(t);
  t.deepEqual(await run(master, 'fileserver.envs'), ['base', 'dev']);
  t.deepEqual(await run(master, 'fileserver.envs', { backend: 'memory' }), ['base']);
  t.deepEqual(await run(master, 'fileserver.envs', { sources: true }), ['memory', 'roots']);
  t.deepEqual(await run(master, 'fileserver.file_list', { backend: ['roots'] }), [
    '_runners/mine.py',
    '_runners/mine.txt',
    'a',
    'link',
    'sub/b',
  ]);
  t.deepEqual(await run(master, 'fileserver.file_list', { backend: '-roots' }), ['from/memory']);
  t.deepEqual(await run(master, 'fileserver.file_list', { backend: 'git' }), []);
  t.deepEqual(await run(master, 'fileserver.file_list', { saltenv: 'dev' }), ['d']);
  t.deepEqual(await run(master, 'fileserver.dir_list'), ['_runners', 'empty', 'from', 'sub']);
  t.deepEqual(await run(master, 'fileserver.empty_dir_list'), ['empty']);
  t.deepEqual(await run(master, 'fileserver.symlink_list'), { link: 'a' });
  t.deepEqual(await run(master, 'fileserver.file_list', { saltenv: 'none' }), []);
});

test('lists are made anew when that is asked for', async (t) => {
  const { master, root } = await serve(t);
  t.deepEqual(await run(master, 'fileserver.clear_file_list_cache'), { roots: ['base', 'dev'] });
  const dev = { saltenv: 'dev' };
  t.deepEqual(await run(master, 'fileserver.clear_file_list_cache', dev), { roots: ['dev'] });
  t.deepEqual(await run(master, 'fileserver.clear_file_list_cache', { backend: 'memory' }), {});
  writeFileSync(path.join(root, 'dev', 'new'), '');
  t.is(await run(master, 'fileserver.update'), true);
  t.deepEqual(await run(master, 'fileserver.file_list', dev), ['d', 'new']);
});

test('an update reaches every backend that keeps lists, and no other', async (t) => {
  const refreshed: unknown[] = [];
  const backend = (name: string): FileServerBackend => ({
    ...createMemoryFiles(),
    name,
    envs: () => ['base'],
    close: async () => {},
    refresh: async (saltenvs) => {
      refreshed.push([name, saltenvs]);
      return saltenvs ?? ['base'];
    },
  });
  const { master } = await startVectorMaster(t, {
    fileserver: { backends: [backend('first'), backend('second'), createMemoryFiles()] },
  });
  t.is(await run(master, 'fileserver.update', { backend: 'second', remotes: 'x' }), true);
  t.deepEqual(refreshed, [['second', undefined]]);
  await run(master, 'fileserver.clear_file_list_cache', { saltenv: 'base,dev' });
  t.deepEqual(refreshed.slice(1), [
    ['first', ['base', 'dev']],
    ['second', ['base', 'dev']],
  ]);
});

test('there are no caches and locks of version control', async (t) => {
  const { master } = await serve(t);
  t.is(await run(master, 'fileserver.clear_cache'), 'No cache was cleared');
  t.is(await run(master, 'fileserver.clear_lock', { remote: 'x' }), 'No locks were removed');
  t.is(await run(master, 'fileserver.lock'), 'No locks were set');
});

test('modules for a master are not copied, and the log names them', async (t) => {
  const { master, log, root } = await serve(t);
  mkdirSync(path.join(root, 'dev/_runners'));
  writeFileSync(path.join(root, 'dev/_runners/other.py'), '');
  await run(master, 'fileserver.update');
  const named = (): unknown[] =>
    log.map((line) => JSON.parse(line)).filter(({ msg }) => msg.startsWith('modules'));
  t.deepEqual(await run(master, 'saltutil.sync_modules'), []);
  t.deepEqual(named(), []);
  t.deepEqual(await run(master, 'saltutil.sync_runners'), []);
  t.like(named()[0], { files: ['_runners/mine.py'] });
  t.like(await run(master, 'saltutil.sync_all', { saltenv: 'dev' }), { runners: [], states: [] });
  t.like(named()[1], { files: ['_runners/other.py'] });
  t.is(named().length, 2);
});

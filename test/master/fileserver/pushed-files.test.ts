/** What minions push, and where it may not go. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { PushedFiles } from '../../../master/files/pushed-files.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

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

test('parts in order make the file, whoever else pushes', async (t) => {
  const { push, read, cachedir } = open(t);
  t.true(await push(['var', 'log', 'x'], 'one'));
  t.true(await push(['var', 'log', 'x'], Buffer.from('two'), 3));
  t.true(await push(['var', 'log', 'x'], 'other', 0, 'web2'));
  t.is(read('var/log/x'), 'onetwo');
  const file = path.join(cachedir, 'minions/web1/files/var/log/x');
  t.is(statSync(file).mode & 0o777, 0o600);
  t.is(statSync(path.dirname(file)).mode & 0o777, 0o700);
});

test('a part that is sent again because its answer was lost is in the file once', async (t) => {
  const { push, read } = open(t);
  await push(['x'], 'one');
  await push(['x'], 'two', 3);
  t.true(await push(['x'], 'two', 3));
  t.is(read('x'), 'onetwo');
});

test('parts sent at the same time are written in the order in which they came', async (t) => {
  const { push, read } = open(t);
  const parts = Array.from({ length: 20 }, (_, index) => push(['x'], 'ab', 2 * index));
  t.true((await Promise.all(parts)).every(Boolean));
  t.is(read('x'), 'ab'.repeat(20));
});

test('the first part starts the file anew', async (t) => {
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

test('all files of a minion together are bounded, small ones by the room they take', async (t) => {
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

test('files and folders of a minion are bounded in number', async (t) => {
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

test('folders whose file cannot be made count', async (t) => {
  const { push, cachedir } = open(t, 1000, 0, 3);
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    await push([name, 'x'.repeat(300)], 'x').catch(() => {});
  }
  t.true(readdirSync(path.join(cachedir, 'minions/web1/files')).length <= 3);
});

test('links that lead out of the folder are not followed', async (t) => {
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

test('a file in the way of a folder, and a folder in the way of a file, stay', async (t) => {
  const { push, read } = open(t);
  await push(['a'], 'file');
  t.false(await push(['a', 'b'], 'x'));
  await push(['d', 'e'], 'x');
  t.false(await push(['d'], 'x'));
  t.is(read('a'), 'file');
});

test('an id that is no id is refused', async (t) => {
  const { push } = open(t);
  for (const id of ['..', 'a/b', '', 'a\0']) t.false(await push(['x'], 'x', 0, id));
});

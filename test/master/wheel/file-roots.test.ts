/** The wheel reads file roots, and nothing beside them. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { Master } from '../../../master/index.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, startVectorMaster } from '../../helpers/vector-master.ts';

async function wheel(master: Master, fun: string, kwarg: WireMap = {}): Promise<WireValue> {
  const { return: value, success } = await master.wheel.run({ fun: `file_roots.${fun}`, kwarg });
  return success ? JSON.parse(JSON.stringify(value)) : { failed: value };
}

interface Served {
  readonly master: Master;
  readonly below: (place: string) => string;
}

/** Two roots in `base`, and `all`, below which everything lies, the master's own too. */
async function serve(t: ExecutionContext): Promise<Served> {
  const directory = temporaryDirectory(t);
  const below = (place: string): string => path.join(directory, place);
  layOut(directory, {
    'one/a': 'first ä',
    'one/sub/b': new Uint8Array([1, 0, 2]),
    'one/empty': null,
    'one/latin': new Uint8Array([0x61, 0xe4, 0x62]),
    'one/way/out': { link: '../../secret' },
    'one/inside': { link: 'sub' },
    'two/a': 'second',
    secret: 'secret',
    'pki/own': 'key',
  });
  const { master } = await startVectorMaster(t, {
    config: {
      ...directories(temporaryDirectory(t)),
      pkiDir: below('pki'),
      fileRoots: { base: [below('one'), below('two')], all: [directory] },
    },
  });
  return { master, below };
}

test('a file is found in each root that has it', async (t) => {
  const { master, below } = await serve(t);
  t.deepEqual(await wheel(master, 'find', { path: 'a' }), [
    { [below('one/a')]: 'txt' },
    { [below('two/a')]: 'txt' },
  ]);
  t.deepEqual(await wheel(master, 'find', { path: 'sub/b' }), [{ [below('one/sub/b')]: 'bin' }]);
  t.deepEqual(await wheel(master, 'find', { path: 'sub' }), []);
  t.deepEqual(await wheel(master, 'find', { path: 'a', saltenv: 'none' }), []);
  t.deepEqual(await wheel(master, 'find', { path: 'a', saltenv: 'constructor' }), []);
});

test('text is read, and nothing else', async (t) => {
  const { master, below } = await serve(t);
  t.deepEqual(await wheel(master, 'read', { path: 'a' }), [
    { [below('one/a')]: 'first ä' },
    { [below('two/a')]: 'second' },
  ]);
  t.deepEqual(await wheel(master, 'read', { path: 'sub/b' }), []);
  t.deepEqual(await wheel(master, 'read', { path: 'latin' }), []);
});

for (const [what, call] of [
  ['a path that leads out', { path: '../secret' }],
  ['a path that leads out on its way', { path: 'sub/../../secret' }],
  ['an absolute path', { path: '/etc/hostname' }],
  ['a link that leads out', { path: 'way/out' }],
  ["the master's own keys below a root", { path: 'pki/own', saltenv: 'all' }],
] as const) {
  test(`${what} finds and reads nothing`, async (t) => {
    const { master } = await serve(t);
    t.deepEqual(await wheel(master, 'find', call), []);
    t.deepEqual(await wheel(master, 'read', call), []);
  });
}

test('environments are listed as trees, without what is hidden', async (t) => {
  const { master, below } = await serve(t);
  const base = {
    [below('one')]: {
      a: 'f',
      empty: {},
      inside: {},
      latin: 'f',
      sub: { b: 'f' },
      way: { out: 'f' },
    },
    [below('two')]: { a: 'f' },
  };
  t.deepEqual(await wheel(master, 'list_env'), base);
  t.deepEqual(await wheel(master, 'list_env', { saltenv: 'none' }), {});
  const roots = await wheel(master, 'list_roots');
  t.like(roots, { base: [base] });
  t.false(JSON.stringify(roots).includes('own'));
});

/** `ext_pillar`, `ext_pillar_first` and `pillar_opts` in a running master. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { Master, MasterOptions } from '../../../master/index.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

interface Started {
  readonly master: Master;
  readonly directory: string;
}

/** A master with `pillar/` as its files and `ext/` for its minions, both below a root of files. */
async function start(
  t: ExecutionContext,
  tree: FileTree,
  config: Partial<MasterOptions> = {},
): Promise<Started> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const { master } = await startVectorMaster(t, {
    config: {
      extPillar: [{ module: 'minion_files', directory: path.join(directory, 'ext') }],
      pillarRoots: { base: [path.join(directory, 'pillar')] },
      fileRoots: { base: [directory] },
      ...config,
    },
  });
  return { master, directory };
}

async function pillarOf(master: Master): Promise<unknown> {
  return JSON.parse(JSON.stringify(await master.pillar.show({ minion: 'web1' })));
}

const tree = {
  'pillar/top.sls': "base:\n  '*': [a]\n  'tier:core':\n    - match: pillar\n    - core\n",
  'pillar/a.sls': 'x: {from: files, files: 1}\nseen: {{ salt["pillar.get"]("tier", "none") }}\n',
  'pillar/core.sls': 'core: 1\n',
  'ext/web1.json': '{"x": {"from": "ext", "ext": 1}, "tier": "core"}',
  'ext/web2.json': '{"secret": 2}',
  'state.sls': 'a: b\n',
};

test('sources lie over the files, which see nothing of them', async (t) => {
  const { master } = await start(t, tree);
  t.deepEqual(await pillarOf(master), {
    x: { from: 'ext', files: 1, ext: 1 },
    seen: 'none',
    tier: 'core',
  });
});

test('with ext_pillar_first the files lie over them and see them, as do targets', async (t) => {
  const { master, directory } = await start(t, tree, { extPillarFirst: true });
  const first = {
    x: { from: 'files', ext: 1, files: 1 },
    tier: 'core',
    seen: 'core',
    core: 1,
  };
  t.deepEqual(await pillarOf(master), first);
  // What was kept is not taken for what another external pillar leads to.
  layOut(directory, { 'ext/web1.json': '{"tier": "front"}' });
  t.deepEqual(await pillarOf(master), {
    x: { from: 'files', files: 1 },
    tier: 'front',
    seen: 'front',
  });
  layOut(directory, { 'ext/web1.json': tree['ext/web1.json'] });
  t.deepEqual(await pillarOf(master), first);
  const { files } = await master.pillar.explain({ minion: 'web1', key: 'core' });
  t.deepEqual(
    files.map(({ file }) => file),
    ['core.sls'],
  );
});

test('with ext_pillar_first a source that fails is named, and the files are there', async (t) => {
  const broken = { ...tree, 'ext/web1.json': '[1]' };
  const { master } = await start(t, broken, { extPillarFirst: true });
  t.deepEqual(await pillarOf(master), {
    x: { from: 'files', files: 1 },
    seen: 'none',
    _errors: ['Failed to load ext_pillar minion_files. Please see master log for details.'],
  });
});

test('while a large file of one minion is read, others get theirs', async (t) => {
  const lines = Array.from({ length: 6000 }, (_, at) => `k${at}: {a: [1, 2], b: some text}\n`);
  const { master } = await start(t, { ...tree, 'ext/large.yaml': lines.join('') });
  await pillarOf(master);
  let isDone = false;
  const large = master.pillar.show({ minion: 'large' }).finally(() => {
    isDone = true;
  });
  let answered = 0;
  for (; !isDone; answered += 1) {
    t.like(await pillarOf(master), { tier: 'core' });
    // Lets messages of other threads in.
    await new Promise(setImmediate);
  }
  t.true(answered >= 10, `${answered} answered`);
  t.like(await large, { k5999: { a: [1, 2], b: 'some text' } });
});

test('a program lies over both', async (t) => {
  for (const extPillarFirst of [false, true]) {
    const directory = temporaryDirectory(t);
    layOut(directory, tree);
    const { master } = await startVectorMaster(t, {
      config: {
        extPillar: [{ module: 'minion_files', directory: path.join(directory, 'ext') }],
        extPillarFirst,
      },
      pillar: async () => ({ x: { from: 'program' } }),
      extensions: [
        {
          name: 'over',
          open: async () => ({
            pillar: { name: 'over', provide: async () => ({ tier: 'over' }) },
            close: async () => {},
          }),
        },
      ],
    });
    const from = extPillarFirst ? 'program' : 'ext';
    t.deepEqual(await pillarOf(master), { x: { from, ext: 1 }, tier: 'over' });
  }
});

test('the files of minions below a root of files are not there for minions', async (t) => {
  const { master } = await start(t, tree);
  const { return: files } = await master.runners.run({ fun: 'fileserver.file_list' });
  t.deepEqual(files, ['state.sls']);
});

test('pillar_opts puts options into the pillar, and no secret, path or right', async (t) => {
  const { master, directory } = await start(t, tree, {
    pillarOpts: true,
    failhard: true,
    keyPass: 'planted',
    peer: { planted: ['x.y'] },
  });
  const { master: told } = (await pillarOf(master)) as { master: Record<string, unknown> };
  t.like(told, { failhard: true, pillar_opts: true, state_top: 'top.sls', hash_type: 'sha256' });
  const text = JSON.stringify(told);
  t.false(text.includes('planted'));
  t.false(text.includes(directory));
  t.false(text.includes('/'));
  const without = await start(t, tree);
  t.false(Object.hasOwn(Object(await pillarOf(without.master)), 'master'));
});

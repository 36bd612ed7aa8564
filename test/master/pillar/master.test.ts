/** Pillar of files in a running master: what minions get, what is kept, and what rights follow. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '../../../acl/index.ts';
import type { MasterOptions } from '../../../master/index.ts';
import { createMinion, isWireMap, type WireValue } from '../../../minion-protocol/index.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

/** A master with these files, and its minion with these grains. */
async function start(
  t: ExecutionContext,
  tree: FileTree,
  config: Partial<MasterOptions> = {},
): Promise<VectorMaster & { readonly root: string }> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const master = await startVectorMaster(t, {
    keys: [{ directory: 'minions', id: 'web1', publicPem: pem('other_minion').publicPem }],
    startAt: Date.now(),
    config: {
      ...config,
      pillarRoots: { base: [path.join(directory, 'pillar')] },
      fileRoots: { base: [directory] },
    },
  });
  const keys = { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} };
  const grains = { role: 'db', tier: 'core' };
  const minion = createMinion({ id: 'web1', transport: master.dial('web1'), keys, grains });
  t.teardown(() => minion.stop());
  await minion.start();
  return { ...master, root: path.join(directory, 'pillar') };
}

async function returnOf({ master }: VectorMaster, fun: string): Promise<WireValue | undefined> {
  for await (const update of master.jobs.run({ tgt: 'web1', fun })) {
    if (update.type === 'return') return update.return;
  }
  return undefined;
}

const tree = {
  'pillar/top.sls': "base:\n  '*': [a]\n  'role:db':\n    - match: grain\n    - db\n",
  'pillar/a.sls':
    '# who\nname: {{ grains.id }}\ntier: {{ grains.get("tier", "front") }}\nx: {y: 1}\n',
  'pillar/db.sls': 'include: [more]\ndb: secret\nx: {y: 2}\n',
  'pillar/more.sls': 'x:\n  y: 3\n  z: [1]\n',
  'state.sls': 'a: b\n',
};

test('minions get the pillar of the files, and it is kept for targets', async (t) => {
  const master = await start(t, tree);
  const pillar = await returnOf(master, 'pillar.items');
  t.like(pillar, { name: 'web1', tier: 'core', db: 'secret' });
  const plan = await master.master.jobs.plan({ tgt: 'tier:core', tgtType: 'pillar' });
  t.deepEqual(plan.minions, [{ id: 'web1', reason: 'matched', by: ['tier:core'] }]);
  const top = await master.master.runners.run({ fun: 'pillar.show_top', arg: ['web1'] });
  t.like(top, { success: true, return: new Map([['base', ['a', 'db']]]) });
});

test('a pillar that a minion claims by its grains gives no right', async (t) => {
  const rules = ['tier:core', 'name:web1', 'tier:front'].map((pillar) => {
    const resource = { tag: `my/${pillar.split(':')[1]}` };
    return allow(pillar, { subject: { minion: '*', pillar }, action: 'signal', resource });
  });
  const ownTier = allow('tag', {
    subject: { minion: '*' },
    action: 'signal',
    resource: { tag: `own/\${pillar:tier}` },
  });
  const { master } = await start(t, tree, { acl: { rules: [...rules, ownTier] } });
  const ask = async (resource: string): Promise<string> => {
    const subject = { kind: 'minion', id: 'web1' } as const;
    const { decision } = await master.acl.explain({ subject, action: 'signal', resource });
    return decision.effect;
  };
  t.is(await ask('my/web1'), 'allow');
  t.is(await ask('my/core'), 'deny');
  t.is(await ask('my/front'), 'allow');
  t.is(await ask('own/core'), 'deny');
  t.is(await ask('own/front'), 'allow');
});

test('files of pillar below a root of files are not there for minions', async (t) => {
  const { master } = await start(t, tree);
  const { return: files } = await master.runners.run({ fun: 'fileserver.file_list' });
  t.deepEqual(files, ['state.sls']);
});

test('of a minion whose key is deleted no pillar is left', async (t) => {
  const running = await start(t, tree);
  const stored = async (): Promise<string[]> => {
    const ids: string[] = [];
    // Writes are done in the order of their calls, and nobody waits for those of pillars.
    await running.store.write([{ op: 'delete', key: ['nothing'] }]);
    for await (const { key } of running.store.list(['pillar-cache'])) ids.push(key.at(-1) ?? '');
    return ids;
  };
  await running.master.pillar.show({ minion: 'web1' });
  await running.master.pillar.show({ minion: 'nobody' });
  t.deepEqual(await stored(), ['web1']);
  await running.master.keys.delete({ match: 'web1' });
  t.deepEqual(await stored(), []);
  await running.master.pillar.show({ minion: 'web1' });
  t.deepEqual(await stored(), []);
});

test('an explanation names the files in the order in which they lie over each other', async (t) => {
  const { master } = await start(t, tree);
  const explained = await master.pillar.explain({ minion: 'web1', key: 'x:y' });
  t.is(explained.value, 2);
  t.true(explained.followsFromGrains);
  t.deepEqual(explained.files, [
    { saltenv: 'base', sls: 'a', file: 'a.sls', value: 1 },
    { saltenv: 'base', sls: 'more', file: 'more.sls', line: 2, value: 3 },
    { saltenv: 'base', sls: 'db', file: 'db.sls', value: 2 },
  ]);
  const name = await master.pillar.explain({ minion: 'web1', key: 'name' });
  t.like(name, { value: 'web1', followsFromGrains: false });
  t.deepEqual(name.files, [{ saltenv: 'base', sls: 'a', file: 'a.sls', line: 2, value: 'web1' }]);
});

test('a difference is told between what a minion got and what it would get', async (t) => {
  const master = await start(t, tree);
  t.deepEqual(await master.master.pillar.diff({ minion: 'web1' }), []);
  layOut(master.root, { 'db.sls': 'db: other\nnew: 1\n' });
  t.deepEqual(await master.master.pillar.diff({ minion: 'web1' }), [
    { path: 'db', before: 'secret', after: 'other' },
    { path: 'new', after: 1 },
    { path: 'x:y', before: 2, after: 1 },
    { path: 'x:z', before: [1] },
  ]);
});

test('a pillar that has errors says which file, and a program has no files to explain', async (t) => {
  const broken = await start(t, { ...tree, 'pillar/a.sls': 'a: {{ nothing }}\n' });
  const pillar = await returnOf(broken, 'pillar.items');
  t.true(isWireMap(pillar));
  t.like(pillar, {
    _errors: ["Rendering SLS 'a' failed. Please see master log for details."],
    db: 'secret',
  });
  const { master } = await startVectorMaster(t, { pillar: async () => ({ a: 1 }) });
  t.like(await master.pillar.show({ minion: 'web1' }), { a: 1 });
  await t.throwsAsync(master.pillar.explain({ minion: 'web1' }), { code: 'ERR_NOT_SERVED' });
});

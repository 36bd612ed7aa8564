/** Pillar in real git repositories. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import type { Master } from '#master';
import { createMaster } from '#server';
import { layOut } from '../../helpers/file-tree.ts';
import { GitRepository } from '../../helpers/git-repository.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

async function start(
  t: ExecutionContext,
  remotes: readonly { readonly id: string; readonly parameters?: object }[],
): Promise<Master> {
  const root = temporaryDirectory(t);
  layOut(path.join(root, 'pillar'), {
    'top.sls': "base:\n  '*': [own]\n",
    'own.sls': 'from: files\nown: yes\n',
  });
  const config = resolveMasterConfig({
    interface: '127.0.0.1',
    publishPort: 0,
    retPort: 0,
    pkiDir: path.join(root, 'pki'),
    cachedir: path.join(root, 'cache'),
    sockDir: path.join(root, 's'),
    stateDir: path.join(root, 'state'),
    pillarRoots: { base: [path.join(root, 'pillar')] },
    extPillar: [
      {
        module: 'git',
        remotes: remotes.map(({ id, parameters = {} }) => ({
          id,
          parameters: { ...parameters },
          saltenv: [],
        })),
      },
    ],
    git: { ...resolveMasterConfig().git, protocols: ['file'] },
  });
  const master = createMaster({ config });
  await master.start();
  t.teardown(() => master.close());
  return master;
}

test('pillar of a branch overrides the files, is fetched again, and can read other remotes', async (t) => {
  const directory = temporaryDirectory(t);
  const repo = new GitRepository(path.join(directory, 'one'));
  repo.commit({
    'pillar/top.sls':
      "base:\n  'os:Linux': [{match: grain}, web]\n  'web*': [web, shared.common, 'odd?saltenv=x']\n",
    'pillar/web.sls': 'from: git\nversion: 1\n',
    'pillar/odd?saltenv=x.sls': 'odd: yes\n',
  });
  const other = new GitRepository(path.join(directory, 'two'));
  other.commit({ 'common.sls': 'common: yes\n' });
  const master = await start(t, [
    { id: `master ${repo.url}`, parameters: { root: 'pillar' } },
    { id: `master ${other.url}`, parameters: { mountpoint: 'shared' } },
  ]);
  const show = (minion: string, pillarenv?: string) =>
    master.pillar.show({ minion, ...(pillarenv === undefined ? {} : { pillarenv }) });
  t.deepEqual(
    { ...(await show('web1')) },
    { from: 'git', own: true, version: 1, common: true, odd: true },
  );
  t.deepEqual({ ...(await show('db1')) }, { from: 'files', own: true });
  repo.commit({ 'pillar/web.sls': 'from: git\nversion: 2\n' });
  const { return: updated } = await master.runners.run({ fun: 'git_pillar.update' });
  t.deepEqual(
    { ...Object(updated) },
    { [`master ${repo.url}`]: true, [`master ${other.url}`]: null },
  );
  t.is(Object(await show('web1')).version, 2);
});

test('__env__ is only the branch of the requested environment', async (t) => {
  const repo = new GitRepository(path.join(temporaryDirectory(t), 'one'));
  repo.commit({ 'top.sls': "base:\n  '*': [a]\n", 'a.sls': 'branch: master\n' });
  repo.git('checkout', '--quiet', '-b', 'dev');
  repo.commit({ 'top.sls': "dev:\n  '*': [a]\n", 'a.sls': 'branch: dev\n' });
  const master = await start(t, [{ id: `__env__ ${repo.url}` }]);
  const branch = async (pillarenv?: string): Promise<unknown> => {
    const question = { minion: 'm1', ...(pillarenv === undefined ? {} : { pillarenv }) };
    return Object(await master.pillar.show(question)).branch;
  };
  t.is(await branch(), 'master');
  t.is(await branch('dev'), 'dev');
  t.is(await branch('other'), undefined);
});

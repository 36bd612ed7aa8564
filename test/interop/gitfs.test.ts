/** Real minions that receive files of branches, and pillar, from a real git repository. */
import path from 'node:path';
import test from 'ava';
import { isWireMap } from '#minion-protocol';
import { GitRepository } from '../helpers/git-repository.ts';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');

let home: MasterHome;
let master: OurMaster;
let fleet: Fleet;
let events: EventLog;
let repo: GitRepository;

test.before(async () => {
  if (minionPrograms.length === 0) return;
  const empty = await MasterHome.create();
  repo = new GitRepository(path.join(empty.directory, 'remote'));
  repo.commit({
    'states/file': 'of master',
    'pillar/top.sls': "base:\n  '*': [a]\n",
    'pillar/a.sls': 'from: git\n',
  });
  repo.git('checkout', '--quiet', '-b', 'dev');
  repo.commit({
    'states/file': 'of dev',
    'states/made.sls': `made:\n  file.managed:\n    - name: ${empty.directory}/made-{{ grains.id }}\n    - source: salt://file?saltenv=dev\n`,
  });
  home = empty.with({
    fileserverBackend: ['gitfs'],
    gitfsRemotes: [{ id: repo.url, parameters: { root: 'states' }, saltenv: [] }],
    extPillar: [
      {
        module: 'git',
        remotes: [{ id: `master ${repo.url}`, parameters: { root: 'pillar' }, saltenv: [] }],
      },
    ],
    git: {
      program: 'git',
      protocols: ['file'],
      timeout: 60,
      maxBytes: 1e8,
      maxFiles: 1000,
      knownHosts: null,
      credentialsFile: null,
    },
  });
  fleet = await Fleet.create({ ...home.ports, name: 'gitfs' }, minionPrograms);
  master = await home.startHere(null);
  events = new EventLog(await master.api.events.subscribe());
  await fleet.enrol(master.api, events);
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('a file of a branch belongs to its environment, before and after a push', async (t) => {
  const read = async (arg: readonly string[]): Promise<unknown[]> => {
    const { returns } = await fleet.ask(master.api, { fun: 'cp.get_file_str', arg: [...arg] });
    return [...returns.values()].map(({ return: value }) => value);
  };
  const all = (value: string): string[] => minionPrograms.map(() => value);
  t.deepEqual(await read(['salt://file']), all('of master'));
  t.deepEqual(await read(['salt://file?saltenv=dev']), all('of dev'));
  repo.commit({ 'states/file': 'pushed' });
  await master.api.runners.run({ fun: 'fileserver.update' });
  t.deepEqual(await read(['salt://file?saltenv=dev']), all('pushed'));
});

step('states of a branch are applied, and pillar comes from the repository', async (t) => {
  const { returns } = await fleet.ask(master.api, {
    fun: 'state.apply',
    arg: ['made'],
    kwarg: { saltenv: 'dev' },
  });
  for (const [id, { return: states }] of returns) {
    t.true(isWireMap(states), `${id}: ${JSON.stringify(states)}`);
    for (const state of Object.values(Object(states))) t.true(Object(state).result, id);
  }
  const pillars = await fleet.ask(master.api, { fun: 'pillar.get', arg: ['from'] });
  for (const [id, { return: value }] of pillars.returns) t.is(value, 'git', id);
});

import test from 'ava';
import { MasterError, type ReactionInfo, type ReactionRun, reaction } from '../../master/index.ts';
import { runCli } from './run-cli.ts';

const puppet: ReactionInfo = {
  ...reaction('puppet', {
    on: 'infra/puppet/requested',
    from: 'jenkins-*',
    do: { run: { fun: 'puppet.run', target: 'web*', kwargs: { env: { from: 'data.env' } } } },
    oncePer: 60,
    onceBy: ['data.env'],
  }),
  origin: { file: '/etc/salt/master', line: 7 },
  waiting: 3,
  running: 1,
};
const look: ReactionInfo = {
  ...reaction('look', { on: 'a/b', do: { runner: { fun: 'manage.present' } } }),
  waiting: 0,
  running: 0,
};
const runs: readonly ReactionRun[] = [
  {
    jid: '20240102030405123456',
    reaction: 'puppet',
    tag: 'infra/\x1b[2J',
    sender: 'jenkins-1',
    kind: 'run',
    fun: 'puppet.run',
    state: 'denied',
    queuedAt: Date.UTC(2024, 0, 2, 3, 4, 5),
    endedAt: Date.UTC(2024, 0, 2, 3, 4, 6),
    reason: 'no rule\nat all',
  },
];

test('reactions are listed with what they wait for and do', async (t) => {
  const master = { reactions: { list: async () => [puppet, look] } };
  const { stdout } = await runCli(['reactions', 'list'], { master });
  t.is(
    stdout,
    'puppet: infra/puppet/requested -> puppet.run (1 running, 3 waiting)\n' +
      'look: a/b -> runner manage.present (0 running, 0 waiting)\n',
  );
  const json = await runCli(['reactions', 'list', '--json'], { master });
  t.deepEqual(JSON.parse(json.stdout), JSON.parse(JSON.stringify([puppet, look])));
});

test('one reaction is shown with its limits and what the policy knows it as', async (t) => {
  const master = { reactions: { show: async () => puppet } };
  const { stdout } = await runCli(['reactions', 'show', 'puppet'], { master });
  t.deepEqual(stdout.trimEnd().split('\n'), [
    'reaction  puppet',
    'written   /etc/salt/master:7',
    'on        infra/puppet/requested',
    'from      jenkins-*',
    'do        {"run":{"fun":"puppet.run","target":"web*","kwargs":{"env":{"from":"data.env"}}}}',
    'once      per 60 s by data.env',
    'at once   1 (1 running)',
    'queue     100 (3 waiting)',
    'timeout   300 s',
    'rate      60/minute',
    'subject   service:reaction:puppet',
  ]);
});

test('an unknown reaction is an error of usage', async (t) => {
  const show = async (): Promise<never> => {
    throw new MasterError('ERR_REACTION_UNKNOWN', 'there is no reaction of this name');
  };
  t.is((await runCli(['reactions', 'show', 'x'], { master: { reactions: { show } } })).code, 64);
});

test('runs are told a line each, and nothing in them steers the terminal', async (t) => {
  const asked: unknown[] = [];
  const master = {
    reactions: {
      runs: async (request: unknown) => {
        asked.push(request);
        return runs;
      },
    },
  };
  const { stdout } = await runCli(['reactions', 'runs', 'puppet', '--limit', '5'], { master });
  t.is(
    stdout,
    '2024-01-02T03:04:05.000Z 20240102030405123456 denied puppet: puppet.run on infra/\\x1b[2J from jenkins-1: no rule\\nat all\n',
  );
  t.deepEqual(asked, [{ reaction: 'puppet', limit: 5 }]);
  t.is((await runCli(['reactions', 'runs', '--limit', 'x'], { master })).code, 64);
});

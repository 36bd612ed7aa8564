/** `saltbridge: reactions:` as files and programs have it. */
import type { ExecutionContext } from 'ava';
import { parseConfigFile } from '../../../master/config/read-files.ts';
import { ConfigError, loadMasterConfig, reaction, resolveMasterConfig } from '../../../master/index.ts';
import { configDirectory } from './files.ts';
import test, {} from 'ava';

const signals = `
  acl:
    signals:
      - tag: infra/puppet/requested
        minions: "jenkins-*"
        schema:
          type: object
          required: [env, deep]
          properties:
            env: { enum: [test, live] }
            deep: { type: object, required: [count], properties: { count: { type: integer } } }
            loose: { type: string }
`;

const written = `saltbridge:
  reactions:
    puppet:
      on: infra/puppet/requested
      from: "jenkins-*"
      do:
        run:
          fun: puppet.run
          target: "G@role:web"
          tgt_type: compound
          args: [agent, { from: data.deep.count }]
          kwargs: { environment: { from: data.env } }
      once_per: 5m
      once_by: data.env
      at_once: 2
      rate: 10/hour
${signals}`;

test('reactions of several files are put together, each with its place', async (t) => {
  const other =
    'saltbridge:\n  reactions:\n    look:\n      "on": salt/minion/*/start\n      do: { runner: { fun: manage.present } }\n';
  const directory = configDirectory(t, { master: written, 'master.d/a.conf': other });
  const { config } = await loadMasterConfig(directory);
  t.deepEqual(JSON.parse(JSON.stringify(config.reactions)), [
    {
      name: 'puppet',
      on: 'infra/puppet/requested',
      from: 'jenkins-*',
      do: {
        run: {
          fun: 'puppet.run',
          target: 'G@role:web',
          tgtType: 'compound',
          args: ['agent', { from: 'data.deep.count' }],
          kwargs: { environment: { from: 'data.env' } },
        },
      },
      oncePer: 300,
      onceBy: ['data.env'],
      atOnce: 2,
      queue: 100,
      timeout: 300,
      rate: '10/hour',
      origin: { file: `${directory}/master`, line: 3 },
    },
    {
      name: 'look',
      on: 'salt/minion/*/start',
      do: { runner: { fun: 'manage.present' } },
      oncePer: 0,
      onceBy: [],
      atOnce: 1,
      queue: 100,
      timeout: 300,
      rate: '60/minute',
      origin: { file: `${directory}/master.d/a.conf`, line: 3 },
    },
  ]);
});

async function refusal(t: ExecutionContext, from: string, to: string): Promise<ConfigError> {
  t.true(written.includes(from), from);
  const directory = configDirectory(t, { master: written.replace(from, to) });
  const error = await t.throwsAsync(loadMasterConfig(directory), { instanceOf: ConfigError });
  t.is(error?.code, 'ERR_OPTION_TYPE');
  t.is(error?.line, 3);
  if (error === undefined) throw new Error('it was taken');
  return error;
}

for (const [what, from, to, field] of [
  ['a function from the event', 'fun: puppet.run', 'fun: { from: data.env }', 'do.run.fun'],
  ['what is no function', 'fun: puppet.run', 'fun: "puppet run"', 'do.run.fun'],
  ['an expression from the event', 'target: "G@role:web"', 'target: { from: data.env }', 'target'],
  ['a kind of target that nobody has', 'compound', 'telepathy', 'do.run.target'],
  ['a selector that cannot be read', '"jenkins-*"\n      do', '"E@("\n      do', 'from'],
  ['data that the schema does not require', 'data.env }', 'data.loose }', 'environment'],
  ['data that no schema knows', 'data.env }', 'data.other }', 'environment'],
  ['data that are no plain value', 'data.env }', 'data.deep }', 'environment'],
  ['text of the event by place', 'data.deep.count }', 'data.env }', 'args.1'],
  ['the sender by place', 'data.deep.count }', 'sender }', 'args.1'],
  [
    'a value of the event in a list',
    '{ from: data.env } }',
    '[{ from: data.env }] }',
    'environment',
  ],
  ['a path of another kind', 'data.env }', 'grains.env }', 'environment'],
  ['text by place that is a keyword', '[agent,', '["noop=false",', 'args.0'],
  ['a keyword of Salt itself', 'environment:', '__kwarg__:', 'kwargs'],
  ['another event, which no schema is for', 'on: infra/puppet/requested', 'on: a/b', 'args.1'],
  ['a field that nobody has', 'at_once: 2', 'atonce: 2', 'atonce'],
  ['a rate that cannot be read', '10/hour', 'often', 'rate'],
  ['a time that cannot be read', '5m', 'soon', 'oncePer'],
  ['two things to do', 'run:', 'runner: { fun: manage.up }\n        run:', 'do'],
] as const) {
  test(`a reaction with ${what} is refused, with its line`, async (t) => {
    const { message } = await refusal(t, from, to);
    t.true(message.includes(field), message);
  });
}

test('a signal without a schema may be reacted to, so long as nothing is taken from it', async (t) => {
  const bare = 'saltbridge:\n  acl: { signals: [{ tag: a/b }] }\n  reactions:\n    one:\n';
  const does = '      on: a/b\n      do: { run: { fun: test.ping, target: "*" } }\n';
  const directory = configDirectory(t, { master: bare + does });
  t.is((await loadMasterConfig(directory)).config.reactions.length, 1);
});

test('a program is told by the name where its reaction is wrong', (t) => {
  const wrong = reaction('mine', { on: 'a/b', do: { run: { fun: 'ping', target: '*' } } });
  const error = t.throws(() => resolveMasterConfig({ reactions: [wrong] }), {
    instanceOf: ConfigError,
  });
  t.is(error?.key, 'saltbridge:reactions:mine');
  const twice = reaction('two', { on: 'a/b', do: { run: { fun: 'test.ping', target: '*' } } });
  t.throws(() => resolveMasterConfig({ reactions: [twice, twice] }), { instanceOf: ConfigError });
});

test('YAML 1.1 reads the key on as true, which is why it is taken for on', (t) => {
  t.deepEqual([...parseConfigFile('on: 1', 'f').keys()], ['true']);
});

async function unheard(t: ExecutionContext, more: string): Promise<readonly string[]> {
  const directory = configDirectory(t, {
    master: `reactor:\n  - infra/puppet/requested: [/srv/a.sls]\n  - deploy/*/done: [/srv/a.sls]\n  - salt/minion/*/start: [/srv/a.sls]\n${more}`,
  });
  const { warnings } = await loadMasterConfig(directory);
  return warnings.filter(({ kind }) => kind === 'unheard').map(({ message }) => message);
}

test('the start says which tags of the reactor nobody may emit', async (t) => {
  const [both = '', ...none] = await unheard(t, '');
  t.deepEqual(none, []);
  t.regex(both, /master:1: .* 2 of its tags \(infra\/puppet\/requested, deploy\/\*\/done\)/);
  const permit = (tag: string): string => `saltbridge:\n  acl: { signals: [{ tag: "${tag}" }] }\n`;
  const [one = ''] = await unheard(t, permit('infra/*'));
  t.regex(one, /1 of its tags \(deploy\/\*\/done\)/);
  const deploys = `saltbridge:\n  acl: { signals: [{ tag: infra/* }, { tag: "deploy/\${minion.id}/done" }] }\n`;
  t.deepEqual(await unheard(t, deploys), []);
});

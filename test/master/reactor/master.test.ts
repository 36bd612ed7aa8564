/** Salt's option `reactor` in a running master: events of minions, and those of the master itself. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '../../../acl/index.ts';
import { loadMasterConfig, type MasterOptions } from '../../../master/index.ts';
import { checkMigration, policyText } from '../../../ops/index.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { type Stage, schema, startStage, startWeb, tag } from '../reactions/stage.ts';

interface ReactorStage extends Stage {
  /** What the reaction of a file is called. */
  readonly nameOf: (file: string) => string;
}

async function startReactor(
  t: ExecutionContext,
  files: FileTree,
  tags: Readonly<Record<string, string>>,
  rules: (nameOf: (file: string) => string) => readonly PolicyRule[],
): Promise<ReactorStage> {
  const directory = temporaryDirectory(t);
  layOut(directory, files);
  const nameOf = (file: string): string => path.join(directory, file);
  const config: Partial<MasterOptions> = {
    fileRoots: { base: [directory] },
    reactions: [],
    reactor: Object.entries(tags).map(([on, file]) => ({ tag: on, sls: [nameOf(file)] })),
    acl: {
      signals: [{ name: 'jenkins', tag, minions: '*', schema }],
      rules: [...rules(nameOf)],
    },
  };
  return { ...(await startStage(t, config)), nameOf };
}

const puppet =
  'puppet:\n  local.test.kwarg:\n    - tgt: web1\n    - args: [{env: {{ data.data.env }}}]\n';

function grant(name: string, action: 'publish' | 'runner' | 'wheel', fun: string): PolicyRule {
  const subject = { service: `reaction:${name}` };
  return allow(`${action} ${fun}`, { subject, action, resource: { fun } });
}

test('what a minion may ask for is done, under the name of the file', async (t) => {
  const stage = await startReactor(
    t,
    { 'puppet.sls': puppet },
    { 'infra/puppet/*': 'puppet.sls' },
    (nameOf) => [grant(nameOf('puppet.sls'), 'publish', 'test.kwarg')],
  );
  const { calls } = await startWeb(t, stage);
  const env = "x\n    - tgt: '*'";
  await stage.emit({ env });
  const [run] = await stage.ended(1);
  t.like(run, { reaction: stage.nameOf('puppet.sls'), state: 'succeeded', fun: 'test.kwarg' });
  t.like(calls, [{ env }]);
});

test('what no rule permits is denied, and what the policy refuses is not rendered', async (t) => {
  const stage = await startReactor(
    t,
    { 'puppet.sls': puppet },
    { 'infra/*': 'puppet.sls' },
    () => [],
  );
  await stage.emit({ env: 'test' }, 'infra/other');
  await stage.emit({ env: 'test' });
  const [run] = await stage.ended(1);
  t.is(run?.state, 'denied');
  t.is((await stage.master.reactions.runs()).length, 1);
});

test('what one file may do no other may', async (t) => {
  const stage = await startReactor(
    t,
    { 'puppet.sls': puppet, 'other.sls': puppet },
    { 'infra/puppet/*': 'puppet.sls', 'infra/**': 'other.sls' },
    (nameOf) => [grant(nameOf('other.sls'), 'publish', 'test.kwarg')],
  );
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'test' });
  const runs = await stage.ended(2);
  t.deepEqual(Object.fromEntries(runs.map(({ reaction, state }) => [reaction, state])), {
    [stage.nameOf('puppet.sls')]: 'denied',
    [stage.nameOf('other.sls')]: 'succeeded',
  });
  t.is(calls.length, 1);
});

test("the master's own events lead to runners and wheel functions", async (t) => {
  const stage = await startReactor(
    t,
    {
      'job.sls':
        "{% if data.fun == 'test.ping' %}\nlist:\n  runner.jobs.list_job: [{jid: '{{ data.jid }}'}]\nkeys:\n  wheel.key.list: [{match: accepted}]\n{% endif %}\n",
    },
    { 'salt/job/*/new': 'job.sls' },
    (nameOf) => [
      grant(nameOf('job.sls'), 'runner', 'jobs.list_job'),
      grant(nameOf('job.sls'), 'wheel', 'key.list'),
    ],
  );
  await stage.master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  const runs = await stage.ended(2);
  t.deepEqual(runs.map(({ kind, fun, state }) => [kind, fun, state]).sort(), [
    ['runner', 'jobs.list_job', 'succeeded'],
    ['wheel', 'key.list', 'succeeded'],
  ]);
});

test('a file may lead to an orchestration, and a failed one is a failed run', async (t) => {
  const orchestrate =
    'deploy:\n  runner.state.orchestrate:\n    - args: [{mods: deploy}, {pillar: {env: {{ data.data.env | json }}}}]\n';
  const deploy = [
    'told:',
    '  test.configurable_test_state:',
    '    - comment: {{ pillar.env | json }}',
    "    - result: {{ pillar.env == 'test' }}",
  ];
  const stage = await startReactor(
    t,
    { 'react.sls': orchestrate, 'deploy.sls': deploy.join('\n') },
    { 'infra/puppet/*': 'react.sls' },
    (nameOf) => [grant(nameOf('react.sls'), 'runner', 'state.orchestrate')],
  );
  await stage.emit({ env: 'test' });
  await stage.ended(1);
  await stage.emit({ env: "live'\n    - result: true" });
  const runs = await stage.ended(2);
  t.deepEqual(runs.map(({ fun, state }) => [fun, state]).sort(), [
    ['state.orchestrate', 'failed'],
    ['state.orchestrate', 'succeeded'],
  ]);
});

test('a file that fails leads to nothing, is counted, and told without what was said', async (t) => {
  const stage = await startReactor(
    t,
    { 'puppet.sls': 'a:\n  local.test.kwarg:\n    - tgt: {{ data.nothing.more }}\n' },
    { 'infra/**': 'puppet.sls' },
    () => [],
  );
  const events = stage.master.events.subscribe();
  await stage.emit({ env: 'secret-word' });
  for await (const { tag: told, data } of events) {
    if (told !== 'saltbridge/reaction/dropped') continue;
    t.like(data, { reaction: stage.nameOf('puppet.sls'), reason: 'render' });
    t.regex(String(data.why), /line 3$/);
    t.false(JSON.stringify(data).includes('secret-word'));
    break;
  }
  t.is((await stage.master.status()).counters['reaction-render'], 1);
});

test('under the policy that the migration check derives, the reactor of a site does what it did', async (t) => {
  const directory = temporaryDirectory(t);
  const etc = path.join(directory, 'etc');
  layOut(directory, { 'srv/puppet.sls': puppet });
  const reactor = `reactor: [{'infra/puppet/*': ['salt://puppet.sls']}]`;
  const roots = `file_roots: {base: [${directory}/srv]}\npillar_roots: {}`;
  layOut(etc, { master: `${roots}\n${reactor}\n` });
  layOut(etc, { 'master.d/site.conf': policyText(await checkMigration(etc)) });
  const { config } = await loadMasterConfig(etc);
  const { fileRoots, reactor: entries } = config;
  const rules = config.acl.rules.map(({ origin: _origin, ...rule }) => rule);
  // What the stage's minion emits fits the schema of the stage alone.
  const acl = { signals: [{ name: 'jenkins', tag, minions: '*', schema }], rules };
  const stage = await startStage(t, { fileRoots, reactor: entries, reactions: [], acl });
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'test' });
  const [run] = await stage.ended(1);
  t.like(run, { reaction: 'salt://puppet.sls', state: 'succeeded', fun: 'test.kwarg' });
  t.like(calls, [{ env: 'test' }]);
});

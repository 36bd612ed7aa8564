/** Salt's option `reactor` in a running master: events of minions, and those of the master itself. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { allow, type PolicyRule } from '#acl';
import { loadMasterConfig, type MasterOptions } from '#config';
import type { ReactionEvent } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { Plan, PlannedCall } from '#salt/reactor/reaction-planner.ts';
import { checkMigration, policyText } from '#server/ops.ts';
import { tries } from '../../helpers/effort.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { type Stage, schema, startStage, startWeb, tag } from '../reactions/stage.ts';
import { planFiles } from './plan-files.ts';

interface ReactorStage extends Stage {
  /** Returns the name of the reaction for a file. */
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

test('a permitted reactor file runs, with the rights of its name', async (t) => {
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

test('an event that no rule permits is denied, and a denied file is not rendered', async (t) => {
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

test('calls that reactions queue run with all rights only if the reaction has all rights', async (t) => {
  const insert = (key: string): string => `cache.store, [bank, ${key}, value]`;
  const file = (key: string): string =>
    `queue:\n  runner.queue.insert_runner:\n    - args: [{fun: cache.store}, {args: [bank, ${key}, value]}]\n`;
  const item = '{fun: cache.store, args: [bank, "of item", value], kwargs: {}}';
  const stage = await startReactor(
    t,
    {
      'limited.sls': file('"of limited"'),
      'item.sls': `q:\n  runner.queue.insert:\n    - args: [{queue: runners}, {items: ${item}}]\n`,
      'orchestrate.sls': 'o:\n  runner.state.orchestrate:\n    - args: [{mods: queue}]\n',
      'queue.sls': `q:\n  salt.runner:\n    - name: queue.insert_runner\n    - arg: [${insert('"of orchestration"')}]\n`,
      'full.sls': file('"of full"'),
    },
    {
      'infra/limited': 'limited.sls',
      'infra/item': 'item.sls',
      'infra/orchestrate': 'orchestrate.sls',
      'infra/full': 'full.sls',
    },
    (nameOf) => [
      grant(nameOf('limited.sls'), 'runner', 'queue.insert_runner'),
      grant(nameOf('item.sls'), 'runner', '*'),
      grant(nameOf('orchestrate.sls'), 'runner', 'state.orchestrate'),
      ...(['publish', 'runner', 'wheel'] as const).map((it) => grant(nameOf('full.sls'), it, '*')),
    ],
  );
  const { master } = stage;
  const run = async (fun: string, ...arg: WireValue[]): Promise<WireValue> =>
    (await master.runners.run({ fun, arg })).return;
  for (const name of ['limited', 'item', 'orchestrate', 'full']) {
    await master.events.fire(`infra/${name}`, {});
  }
  const runs = await stage.ended(4);
  t.deepEqual(
    runs.map(({ state }) => state),
    Array(4).fill('succeeded'),
  );
  t.is(await run('queue.list_length', 'runners'), 4);
  t.regex(String(await run('queue.process_runner', 'all')), /did not run 3 calls/);
  t.deepEqual(await run('cache.list', 'bank'), ['of full']);
});

test('reactors are added and deleted while the master runs, under the rules of their files', async (t) => {
  const stage = await startReactor(
    t,
    { 'puppet.sls': puppet, 'other.sls': puppet },
    { 'infra/none': 'other.sls' },
    (nameOf) => [grant(nameOf('puppet.sls'), 'publish', 'test.kwarg')],
  );
  const { calls } = await startWeb(t, stage);
  const { master, nameOf } = stage;
  const reactor = async (fun: string, ...arg: readonly WireValue[]): Promise<WireValue> =>
    (await master.runners.run({ fun: `reactor.${fun}`, arg })).return;
  const configured = { 'infra/none': [nameOf('other.sls')] };
  const files = [nameOf('puppet.sls'), nameOf('other.sls')];
  t.deepEqual(await reactor('list'), [configured]);
  t.deepEqual(await reactor('add', 'infra/puppet/*', files), {
    status: true,
    comment: 'Reactor added.',
  });
  t.deepEqual(await reactor('add', 'infra/puppet/*', nameOf('other.sls')), {
    status: false,
    comment: 'Reactor already exists.',
  });
  t.deepEqual(await reactor('list'), [configured, { 'infra/puppet/*': files }]);
  await stage.emit({ env: 'test' });
  const runs = await stage.ended(2);
  t.deepEqual(Object.fromEntries(runs.map(({ reaction, state }) => [reaction, state])), {
    [nameOf('puppet.sls')]: 'succeeded',
    [nameOf('other.sls')]: 'denied',
  });
  t.is(calls.length, 1);
  for (const tag of ['infra/none', 'infra/puppet/*']) {
    const deleted = { status: true, comment: 'Reactor deleted.' };
    t.deepEqual(await reactor('delete', tag), deleted);
    const none = { status: false, comment: 'Reactor does not exists.' };
    t.deepEqual(await reactor('delete', tag), none);
  }
  t.deepEqual(await reactor('list'), []);
  t.deepEqual(await master.reactions.list(), []);
});

test('an invalid reactor, one beyond the limit, and a request of a user are refused', async (t) => {
  const { master } = await startReactor(t, {}, {}, () => []);
  const add = async (...arg: readonly WireValue[]): Promise<string> =>
    String((await master.runners.run({ fun: 'reactor.add', arg })).return);
  t.regex(await add('infra/**', 'relative.sls'), /requires a tag glob and files/);
  t.regex(await add('', '/a.sls'), /requires a tag glob and files/);
  t.regex(await add('a', new Array(101).fill('/a.sls')), /at most 1000 reactors of 100 files/);
  const by = { who: { kind: 'user', name: 'fred' }, rule: 'test' } as const;
  const call = { fun: 'reactor.add', arg: ['a/b', '/a.sls'], by };
  const { return: answer } = await master.runners.run(call);
  t.regex(String(answer), /only available on the local socket/);
  t.deepEqual(await master.reactions.list(), []);
});

test('a grant to one file does not extend to another', async (t) => {
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

test("the master's own events start runners and wheel functions", async (t) => {
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

test('a file may start an orchestration, and a failed orchestration is a failed run', async (t) => {
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

test('a failed file starts nothing, is counted, and reported without data of the event', async (t) => {
  const stage = await startReactor(
    t,
    { 'puppet.sls': 'a:\n  local.test.kwarg:\n    - tgt: {{ data.nothing.more }}\n' },
    { 'infra/**': 'puppet.sls' },
    () => [],
  );
  const events = await stage.master.events.subscribe();
  await stage.emit({ env: 'secret-word' });
  for await (const { tag, data } of events) {
    if (tag !== 'saltbridge/reaction/dropped') continue;
    t.like(data, { reaction: stage.nameOf('puppet.sls'), reason: 'render' });
    t.regex(String(data.why), /line 3$/);
    t.false(JSON.stringify(data).includes('secret-word'));
    break;
  }
  t.is((await stage.master.status()).counters['reaction-render'], 1);
});

test('with the policy of the migration check, the reactor of a site behaves as before', async (t) => {
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
  // The minion's data matches only this schema.
  const acl = { signals: [{ name: 'jenkins', tag, minions: '*', schema }], rules };
  const stage = await startStage(t, { fileRoots, reactor: entries, reactions: [], acl });
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'test' });
  const [run] = await stage.ended(1);
  t.like(run, { reaction: 'salt://puppet.sls', state: 'succeeded', fun: 'test.kwarg' });
  t.like(calls, [{ env: 'test' }]);
});

// Texts of events are values in reactor files, whatever they look like.

const eventTag = 'infra/deploy';

async function planOf(
  t: ExecutionContext,
  file: string,
  data: unknown,
  options: Parameters<typeof planFiles>[2] = {},
): Promise<Plan> {
  const { directory, plan } = await planFiles(t, { 'react.sls': file }, options);
  return plan(path.join(directory, 'react.sls'), eventOf(data));
}

function eventOf(data: unknown): Parameters<Awaited<ReturnType<typeof planFiles>>['plan']>[1] {
  return {
    tag: eventTag,
    sender: 'jenkins1',
    data: undefined,
    body: { id: 'jenkins1', data } as WireMap,
  };
}

function reasons({ refused }: Plan): string[] {
  return refused.map(({ reason }) => reason);
}

const hostile = [
  "x\n    - tgt: '*'",
  'x, fun: cmd.run',
  "'*'",
  '"',
  "\\'",
  '*',
  '&a',
  '!!python/object:os.system',
  '{a: b}',
  '[1, 2]',
  'a: b',
  'a # b',
  '{{ 7 * 7 }}',
  '{% raw %}',
  '\uE000x.0\uE001',
  ' x ',
  '=',
  '---',
  '%TAG',
  'a\u0085b\u2028c',
];

/** Each would be one value more if it were read as YAML in some of the places. */
const fitting = [
  'x\n          - y',
  "x'\n          - 'y",
  'x"\n          - "y',
  'x, y',
  'x]\n          - [y',
  'x}\n          - {v: y',
  'x"]\n          - ["y',
  'x"}\n          - {"v": "y',
  'x\n        more: 1',
];

const places: readonly string[] = [
  '- {{ data.data.v }}',
  "- '{{ data.data.v }}'",
  '- "{{ data.data.v }}"',
  '- [{{ data.data.v }}]',
  '- {v: {{ data.data.v }}}',
  '- {{ [data.data.v] }}',
  '- {{ {"v": data.data.v} }}',
  "- '{{ [data.data.v] }}'",
  '- {{ "%s" | format(data.data.v) }}',
  '- {% set v %}{{ data.data.v }}{% endset %}{{ v }}',
  '- {% macro m(v) %}{{ v }}{% endmacro %}{{ m(data.data.v) }}',
  '- {% call(v) wrap() %}{% endcall %}{{ data.data.v }}',
];

for (const place of places) {
  test(`an event cannot break out of its place: ${place}`, (t) => staysInPlace(t, place));
}

for (const filter of ['json', 'yaml_dquote']) {
  test(`output of the filter ${filter} cannot break out of its place`, (t) =>
    staysInPlace(t, `- {{ data.data.v | ${filter} }}`));
}

async function staysInPlace(t: ExecutionContext, place: string): Promise<void> {
  const head = '{% macro wrap() %}{{ caller("x") }}{% endmacro %}\n';
  const file = `${head}tell:\n  local.test.arg:\n    - tgt: web1\n    - args:\n        values:\n          ${place}\n        after: 1\n`;
  const { directory, plan } = await planFiles(t, { 'react.sls': file });
  const check = async (v: string): Promise<void> => {
    const { calls } = await plan(path.join(directory, 'react.sls'), eventOf({ v }));
    // The result may also be empty, for instance if a text begins with a dash.
    for (const call of calls) {
      t.like(call, { fun: 'test.arg', target: { tgt: 'web1' }, arg: [] });
      t.deepEqual(Object.keys(call.kwarg), ['values', 'after'], JSON.stringify(v));
      t.is(Array.isArray(call.kwarg.values) ? call.kwarg.values.length : 0, 1);
    }
  };
  for (const v of [...hostile, ...fitting]) await check(v);
  await fc.assert(fc.asyncProperty(fc.string({ unit: 'binary' }), check), tries(50));
}

test('text of an event arrives unchanged', async (t) => {
  const file = 'tell:\n  local.test.arg:\n    - tgt: web1\n    - args: [{v: {{ data.data.v }}}]\n';
  const { directory, plan } = await planFiles(t, { 'react.sls': file });
  for (const v of hostile) {
    const { calls } = await plan(path.join(directory, 'react.sls'), eventOf({ v }));
    t.deepEqual(
      calls.map(({ kwarg }) => kwarg.v),
      v === '---' ? [] : [v],
    );
  }
});

test("the operator's own expressions stay unchanged", async (t) => {
  const file =
    "{% set hosts = {'test': 'web* and not web9'} %}\nping:\n  local.test.ping:\n    - tgt: {{ hosts[data.data.env] }}\n    - tgt_type: compound\n";
  const { calls } = await planOf(t, file, { env: 'test' });
  t.like(calls[0], { target: { tgt: 'web* and not web9', tgtType: 'compound' } });
});

test('text of an event is not a target, except as an id in a list', async (t) => {
  const file = (type: string): string =>
    `ping:\n  local.test.ping:\n    - tgt: {{ data.data.tgt }}\n    - tgt_type: ${type}\n`;
  for (const tgt of ['*', 'web[0-9]', 'G@os:Debian or L@a', 'a,b']) {
    t.deepEqual(reasons(await planOf(t, file('glob'), { tgt })), ['pattern']);
    t.deepEqual(reasons(await planOf(t, file('compound'), { tgt })), ['pattern']);
  }
  const { calls } = await planOf(t, file('list'), { tgt: ['*', 'web1'] });
  t.like(calls[0], { target: { tgt: ['*', 'web1'], tgtType: 'list' } });
});

test('text of an event is never a pattern', async (t) => {
  const target = (tgt: string, type: string): string =>
    `ping:\n  local.test.ping:\n    - tgt: ${tgt}\n    - tgt_type: ${type}\n`;
  const says = { v: '.+', w: 'web1' };
  for (const type of ['pcre', 'compound', 'grain', 'pillar', 'nodegroup', 'ipcidr', 'range']) {
    for (const tgt of ['{{ data.data.v }}', '{{ data.data.w }}', "'a{{ data.data.w }}'"]) {
      t.deepEqual(reasons(await planOf(t, target(tgt, type), says)), ['pattern'], `${type} ${tgt}`);
    }
  }
  for (const tgt of ["'E@{{ data.data.v }}'", "'web2 {{ data.data.w }} web3'"]) {
    t.deepEqual(reasons(await planOf(t, target(tgt, 'compound'), says)), ['pattern'], tgt);
  }
  t.deepEqual(reasons(await planOf(t, target("'web*{{ data.data.w }}'", 'glob'), says)), [
    'pattern',
  ]);
  t.deepEqual(reasons(await planOf(t, target('{{ data.data.v }}', 'glob'), says)), ['pattern']);
  t.deepEqual(reasons(await planOf(t, target('web1', '{{ data.data.v }}'), { v: 'pcre' })), [
    'form',
  ]);
  const { calls } = await planOf(t, target("'a{{ data.data.w }}'", 'glob'), says);
  t.like(calls[0], { target: { tgt: 'aweb1', tgtType: 'glob' } });
});

const runnerCalls = [
  'manage.up: [{args: [{tgt: {{ data.data.v }}}, {tgt_type: pcre}]}]',
  'manage.up: [{args: [{tgt: {{ data.data.v }}}]}]',
  'manage.up: [{args: [{tgt: web1}, {tgt_type: {{ data.data.w }}}]}]',
  'manage.up: [{arg: [{{ data.data.v }}, pcre]}]',
  "manage.up: [{arg: ['tgt={{ data.data.w }}', 'tgt_type=pcre']}]",
  'salt.execute: [{args: [{tgt: web1}, {fun: {{ data.data.f }}}]}]',
  'salt.execute: [{arg: [web1, {{ data.data.f }}]}]',
  'salt.cmd: [{arg: [{{ data.data.f }}]}]',
  'match.compound_matches: [{arg: [{{ data.data.w }}, web1]}]',
  'survey.hash: [{arg: [{{ data.data.w }}, state.apply]}]',
  'survey.hash: [{args: [{tgt: {{ data.data.w }}}, {fun: state.apply}]}]',
  'survey.hash: [{arg: [web1, {{ data.data.f }}]}]',
  'survey.diff: [{arg: [web1, {{ data.data.f }}]}]',
  'queue.insert_runner: [{arg: [{{ data.data.f }}]}]',
  'queue.insert_runner: [{arg: [salt.execute, [web1, {{ data.data.f }}]]}]',
  'queue.insert_runner: [{arg: [salt.execute, [], {tgt: {{ data.data.v }}}]}]',
  'queue.insert: [{arg: [runners, {fun: salt.cmd, args: [{{ data.data.f }}]}]}]',
  'mine.update: [{arg: [web1, glob, false, [{{ data.data.f }}]]}]',
  'mine.update: [{args: [{tgt: web1}, {mine_functions: [{{ data.data.f }}]}]}]',
  'cache.clear_mine_func: [{arg: [web1, glob, {{ data.data.f }}]}]',
  'jobs.list_jobs: [{args: [{search_function: {{ data.data.f }}}]}]',
  'reactor.add: [{arg: [{{ data.data.w }}, [a.sls]]}]',
  'state.event: [{args: [{tagmatch: {{ data.data.w }}}]}]',
  'state.orchestrate_single: [{args: [{fun: salt.function}, {name: {{ data.data.f }}}]}]',
  'manage.up: [{args: [{tgt: {{ data.data.w }}}, {tgt_type: pcre}]}]',
  'manage.up: [{arg: [{{ data.data.w }}]}, {kwarg: {tgt_type: pcre}}]',
  "salt.execute: [{arg: ['timeout=5', web1, {{ data.data.f }}]}]",
];

for (const call of runnerCalls) {
  test(`text of an event is neither a pattern nor a function of a runner: ${call}`, async (t) => {
    const says = { v: '.+', w: 'web1', f: 'test.ping' };
    t.deepEqual(reasons(await planOf(t, `up:\n  runner.${call}\n`, says)), ['pattern']);
  });
}

test('text of an event is an id or a value of a runner', async (t) => {
  const permitted = [
    'salt.execute: [{arg: [{{ data.data.w }}, test.ping]}, {kwarg: {}}]',
    'salt.execute: [{args: [{tgt: [{{ data.data.w }}]}, {tgt_type: list}, {fun: test.ping}]}]',
    'queue.insert_runner: [{arg: [salt.execute, [{{ data.data.w }}, test.ping]]}, {kwarg: {}}]',
    'event.send: [{args: [{tag: site/seen}, {data: {text: {{ data.data.v }}}}]}]',
  ];
  for (const call of permitted) {
    const plan = await planOf(t, `up:\n  runner.${call}\n`, { v: 'a, b?', w: 'web1' });
    t.deepEqual(reasons(plan), [], call);
    t.is(plan.calls.length, 1, call);
  }
});

test('text of an event that Salt would interpret is refused as a value', async (t) => {
  const places = [
    '- args: [{name: {{ data.data.v }}}]',
    "- args: [{name: 'a{{ data.data.v }}'}]",
    '- kwarg: {pillar: {a: [{{ data.data.v }}]}}',
    '- kwarg: {pillar: {{ data.data }}}',
    '- arg: [{{ data.data.v }}]',
  ];
  for (const v of ['__slot__:salt:test.ping()', '__slot__:salt:test.ping']) {
    for (const place of places) {
      const file = `apply:\n  local.state.apply:\n    - tgt: web1\n    ${place}\n`;
      t.deepEqual(reasons(await planOf(t, file, { v })), ['interpreted'], `${place} ${v}`);
    }
  }
  const joined =
    "apply:\n  local.state.apply:\n    - tgt: web1\n    - args: [{name: '{{ data.data.a }}{{ data.data.b }}'}]\n";
  const parts = { a: '__slot__:salt:cmd.run', b: '(id)' };
  t.deepEqual(reasons(await planOf(t, joined, parts)), ['interpreted']);
  for (const v of ['sdb://saltbridge/db/password', 'salt://top.sls']) {
    const file =
      'apply:\n  local.state.apply:\n    - tgt: web1\n    - args: [{name: {{ data.data.v }}}]\n';
    t.deepEqual(reasons(await planOf(t, file, { v })), ['interpreted'], v);
  }
});

test('text of an event is neither a function nor the selector of keys', async (t) => {
  const fun = 'do:\n  local.{{ data.data.fun }}:\n    - tgt: web1\n';
  t.deepEqual(reasons(await planOf(t, fun, { fun: 'cmd.run ' })), ['pattern']);
  const forms = ['- match: {{ data.data.id }}', '- args: [{match: {{ data.data.id }}}]'];
  for (const form of forms) {
    const file = `accept:\n  wheel.key.accept:\n    ${form}\n`;
    t.deepEqual(reasons(await planOf(t, file, { id: '*' })), ['pattern']);
    t.is((await planOf(t, file, { id: 'web1.example.org' })).calls.length, 1);
  }
  const runner = 'up:\n  runner.manage.up:\n    - args: [{tgt: {{ data.data.id }}}]\n';
  t.deepEqual(reasons(await planOf(t, runner, { id: 'web*' })), ['pattern']);
});

test('text of an event is neither a keyword nor an option of a program', async (t) => {
  const file = 'run:\n  local.cmd.run:\n    - tgt: web1\n    - arg: [{{ data.data.v }}]\n';
  t.deepEqual(reasons(await planOf(t, file, { v: 'runas=root' })), ['positional-text']);
  t.deepEqual(reasons(await planOf(t, file, { v: '--force' })), ['dash']);
  const keywords = { __kwarg__: true, runas: 'root' };
  t.deepEqual(reasons(await planOf(t, file, { v: keywords })), ['positional-text']);
  const named = "run:\n  local.cmd.run:\n    - tgt: web1\n    - arg: ['cwd={{ data.data.v }}']\n";
  const { calls } = await planOf(t, named, { v: '/srv/a b' });
  t.deepEqual(
    calls.map((call: PlannedCall) => [call.arg, call.kwarg]),
    [[[], { cwd: '/srv/a b' }]],
  );
});

// The files that the reactor reads, and files that it cannot use.

const event: ReactionEvent = {
  tag: 'salt/auth',
  sender: undefined,
  data: undefined,
  body: { id: 'web1' },
};
const ping = (tgt: string): string => `ping_${tgt}:\n  local.test.ping: [{tgt: ${tgt}}]\n`;

test('a glob means all existing files in their order', async (t) => {
  const { directory, plan } = await planFiles(t, { 'b.sls': ping('b'), 'a.sls': ping('a') });
  const { calls } = await plan(path.join(directory, '*.sls'), event);
  t.deepEqual(
    calls.map((call) => (call.kind === 'run' ? call.target.tgt : '')),
    ['a', 'b'],
  );
});

test('files are also read from the file server, including imports', async (t) => {
  const { plan } = await planFiles(t, {});
  for (const reference of ['salt://reactor/served.sls', 'salt://reactor/served.sls?saltenv=base']) {
    t.like((await plan(reference, event)).calls, [{ target: { tgt: 'web1' } }]);
  }
  t.like(await plan('salt://reactor/other.sls', event), { refused: [{ reason: 'no-file' }] });
  t.like(await plan('salt://../etc/passwd', event), { refused: [{ reason: 'no-file' }] });
});

test('keys and the store are never read', async (t) => {
  const { directory, plan } = await planFiles(t, {
    'hidden/a.sls': ping('a'),
    'link.sls': { link: 'hidden/a.sls' },
  });
  for (const name of ['hidden/a.sls', 'link.sls']) {
    const { calls, refused } = await plan(path.join(directory, name), event);
    t.deepEqual(calls, []);
    t.is(refused[0]?.reason, 'no-file');
  }
});

test('a broken file does not affect others', async (t) => {
  const { directory, plan } = await planFiles(t, {
    'a.sls': '{{ nothing }}\n',
    'b.sls': ping('b'),
    'c.sls': '#!py\ndef run(): pass\n',
  });
  const { calls, refused } = await plan(path.join(directory, '*.sls'), event);
  t.is(calls.length, 1);
  t.deepEqual(
    refused.map(({ reason }) => reason),
    ['render', 'render'],
  );
  t.regex(refused[0]?.why ?? '', /a\.sls, line 1$/);
});

test('an endless template stops at its limit', async (t) => {
  const { directory, plan } = await planFiles(
    t,
    { 'a.sls': '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}' },
    { steps: 10_000 },
  );
  t.like(await plan(path.join(directory, 'a.sls'), event), { refused: [{ reason: 'render' }] });
});

test('caller is refused, and the rest of the file is executed', async (t) => {
  const { directory, plan } = await planFiles(t, {
    'a.sls': `here:\n  caller.cmd.run:\n    - args: [{cmd: uptime}]\n${ping('a')}`,
  });
  const { calls, refused } = await plan(path.join(directory, 'a.sls'), event);
  t.is(calls.length, 1);
  t.is(refused[0]?.reason, 'caller');
});

test('calls of a reaction on the master trigger no further reaction', async (t) => {
  const { directory, plan } = await planFiles(t, { 'a.sls': ping('a') });
  const returned: ReactionEvent = {
    ...event,
    tag: 'salt/run/20260102030405678901/ret',
    sender: undefined,
    body: { user: 'reaction:/srv/a.sls' },
  };
  const place = path.join(directory, 'a.sls');
  t.is((await plan(place, { ...returned, isOfReaction: true })).calls.length, 0);
  t.is((await plan(place, returned)).calls.length, 1);
});

test('calls of a user whose name is that of a reaction trigger reactions', async (t) => {
  const stage = await startReactor(
    t,
    { 'run.sls': 'run:\n  runner.test.arg:\n    - args: [{text: a}]\n' },
    { 'salt/run/*/ret': 'run.sls' },
    (nameOf) => [grant(nameOf('run.sls'), 'runner', 'test.arg')],
  );
  const user = `reaction:${stage.nameOf('run.sls')}`;
  const by = { who: { kind: 'user', name: user, eauth: 'pam' }, rule: 'test' } as const;
  const call = { fun: 'test.arg', user, by };
  for (const count of [1, 2]) {
    await stage.master.runners.run(call);
    // The runner that the reaction calls has the same user, and triggers no further run.
    const runs = await stage.ended(count);
    t.deepEqual(
      runs.map(({ state }) => state),
      Array.from({ length: count }, () => 'succeeded'),
    );
  }
});

// Results of Salt for the same files; see test/fixtures/reactor/README.md.

interface RecordedCall {
  readonly kind: 'run' | 'runner' | 'wheel';
  readonly fun: string;
  readonly tgt?: WireValue;
  readonly tgt_type?: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
}

interface Recorded {
  readonly name: string;
  readonly tag: string;
  readonly data: WireMap;
  readonly files: Readonly<Record<string, string>>;
  readonly fails?: boolean;
  readonly calls: readonly RecordedCall[];
}

interface Spec {
  readonly names: readonly string[];
  readonly defaults: WireMap;
  readonly more: boolean;
}

const fixture = new URL('../../../test/fixtures/reactor/cases.json', import.meta.url);
const recorded: {
  readonly takes: Readonly<Record<string, Spec>>;
  readonly cases: readonly Recorded[];
} = JSON.parse(readFileSync(fixture, 'utf8'));

for (const it of recorded.cases) {
  test(`a recorded reaction has the same effect as in Salt (${it.name})`, async (t) => {
    const { directory, plan } = await planFiles(t, it.files, {
      takes: (kind, fun, name) => {
        const spec = recorded.takes[`${kind}.${fun}`];
        return spec?.more === true || spec?.names.includes(name) === true;
      },
    });
    const event = { tag: it.tag, sender: undefined, data: undefined, body: it.data };
    const { calls, refused } = await plan(path.join(directory, 'react.sls'), event);
    t.deepEqual(calls.map(ofOurs), it.calls.map(ofSalt));
    t.is(refused.length > 0, it.fails === true);
  });
}

test('the recorded files cover all features', (t) => {
  t.true(recorded.cases.length >= 50);
  t.true(recorded.cases.filter(({ fails }) => fails).length >= 15);
});

/**
 * Returns a call in comparable form: the target as a list, and arguments by name, without defaults.
 */
function ofOurs(call: PlannedCall): unknown {
  if (call.kind !== 'run') return { kind: call.kind, fun: call.fun, kwarg: named(call) };
  const { tgt, tgtType = 'glob' } = call.target;
  return { kind: 'run', fun: call.fun, tgt, tgtType, arg: call.arg, kwarg: call.kwarg };
}

function ofSalt(call: RecordedCall): unknown {
  if (call.kind !== 'run') return { kind: call.kind, fun: call.fun, kwarg: named(call) };
  const { fun, arg, kwarg, tgt, tgt_type: tgtType = 'glob' } = call;
  const isText = tgtType === 'list' && typeof tgt === 'string';
  return { kind: 'run', fun, tgt: isText ? tgt.split(',') : tgt, tgtType, arg, kwarg };
}

function named({
  kind,
  fun,
  arg,
  kwarg,
}: Pick<PlannedCall, 'kind' | 'fun' | 'arg' | 'kwarg'>): WireMap {
  const spec: Spec = recorded.takes[`${kind}.${fun}`] ?? { names: [], defaults: {}, more: false };
  const { names, defaults } = spec;
  const all = { ...Object.fromEntries(arg.map((value, at) => [names[at] ?? '', value])), ...kwarg };
  return Object.fromEntries(
    Object.entries(all)
      .filter(([name, value]) => !Object.hasOwn(defaults, name) || defaults[name] !== value)
      .sort(([left], [right]) => (left < right ? -1 : 1)),
  );
}

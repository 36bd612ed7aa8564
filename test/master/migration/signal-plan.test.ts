/** The least policy: what the listeners of a site hear, minions may emit, and nothing else. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { decide, isReservedTag } from '../../../acl/index.ts';
import { rulesOf } from '../../../master/config/policy-rules.ts';
import {
  type Listening,
  planSignals,
  type SignalPlan,
} from '../../../master/config/signal-plan.ts';
import { loadMasterConfig, resolveMasterConfig } from '../../../master/index.ts';
import { compileGlob } from '../../../minion-protocol/index.ts';
import { checkMigration, policyText } from '../../../ops/index.ts';
import { policyOf } from '../../helpers/policies.ts';
import { configDirectory } from '../config/files.ts';

function listening(...patterns: readonly string[]): Listening[] {
  return patterns.map((pattern) => ({ pattern, listener: 'reactor', file: 'master', line: 1 }));
}

function planOf(pattern: string, enginePrefixes: readonly string[] = []): SignalPlan {
  return planSignals(listening(pattern), enginePrefixes);
}

function tagsOf({ rules }: SignalPlan): string[] {
  return rules.map(({ tag }) => tag);
}

/** The plan that `migrate check` makes of one main file. */
async function planOfFile(t: ExecutionContext, yaml: string, files = {}): Promise<SignalPlan> {
  const directory = configDirectory(t, { master: `root_dir: ROOT\n${yaml}`, ...files });
  return (await checkMigration(directory)).signals;
}

for (const pattern of [
  'salt/minion/*/start',
  'salt/auth',
  'salt/key',
  'salt/job/*/ret/*',
  'salt/job/20240102030405678000/*',
  'salt/beacon/*/inotify/*',
  'salt/beacon/web1/load/',
  'salt/cloud/*/destroyed',
  'salt/presence/change',
  'salt/run/*',
  'salt/auth*',
  'minion_start',
]) {
  test(`${pattern} needs no rule`, (t) => {
    const plan = planOf(pattern);
    t.deepEqual(tagsOf(plan), []);
    t.is(plan.needless.length, 1);
  });
}

for (const pattern of [
  'myco/deploy/*',
  'myco/deploy/done',
  'my*',
  '*/deploy/done',
  'key*',
  'salt/custom/*',
  'salt/engines/docker_events/*',
  'salt/jobs/*',
]) {
  test(`${pattern} is granted as it is`, (t) => {
    t.deepEqual(tagsOf(planOf(pattern)), [pattern]);
  });
}

for (const pattern of [
  '*',
  '**',
  '*/*',
  '?*',
  '[a-z]*',
  'my/{{ tag }}',
  'a\nb*',
  'x'.repeat(600),
]) {
  test(`${JSON.stringify(pattern.slice(0, 20))} is not granted, and the reason is told`, (t) => {
    const plan = planOf(pattern);
    t.deepEqual(tagsOf(plan), []);
    t.is(plan.ungranted.length, 1);
    t.not(plan.ungranted[0]?.reason, '');
  });
}

const reactions = { rules: [], underivable: [] };

test('salt/* is narrowed to what needs a rule there', (t) => {
  for (const pattern of ['salt/*', 'salt*']) {
    const plan = planOf(pattern);
    t.deepEqual(tagsOf(plan), ['salt/state_result/*']);
    t.is(plan.narrowed.length, 1);
  }
});

test('what covers tags of the master too is granted with a note', (t) => {
  t.is(planOf('*/ret/*').narrowed.length, 1);
  t.is(planOf('myco/*').narrowed.length, 0);
});

test('tags that an engine of the master fires need no rule', (t) => {
  t.deepEqual(tagsOf(planOf('salt/engines/slack/*', ['salt/engines/slack'])), []);
  t.deepEqual(tagsOf(planOf('salt/engines/slackware/*', ['salt/engines/slack'])), [
    'salt/engines/slackware/*',
  ]);
});

test('a rule that two listeners need is written once, with both', (t) => {
  const plan = planSignals(listening('my/tag', 'my/tag'), []);
  t.deepEqual(tagsOf(plan), ['my/tag']);
  t.is(plan.rules[0]?.listeners.length, 2);
});

test('reactors, engines and returners of events are listeners', async (t) => {
  const plan = await planOfFile(
    t,
    `reactor: [{my/one: [a.sls]}, {'my/two/*': [b.sls]}]
engines:
  - http_logstash: {url: x, tags: [log/*, salt/auth]}
  - fluent
  - slack: {token: x}
event_return: rawfile_json
event_return_whitelist: [kept/*]
`,
  );
  t.deepEqual(tagsOf(plan), ['my/one', 'my/two/*', 'log/*', 'kept/*']);
  t.deepEqual(
    plan.ungranted.map(({ pattern, listener }) => [pattern, listener]),
    [['*', 'engine fluent']],
  );
  t.deepEqual(
    plan.rules.map(({ listeners }) => listeners[0]?.line),
    [2, 2, 3, 7],
  );
});

test('reactors of several files are all listeners', async (t) => {
  const plan = await planOfFile(t, '', {
    'master.d/a.conf': 'reactor: [{my/one: [a.sls]}]',
    'master.d/b.conf': 'reactor: [{my/two: [a.sls]}]',
  });
  t.deepEqual(tagsOf(plan), ['my/one', 'my/two']);
});

test('formulas of Thorium say which tags they listen for, where it is on', async (t) => {
  const directory = configDirectory(t, {
    'thorium/watch.sls': "x:\n  reg.set:\n    - add: y\n    - match: 'my/metric/*'  # often\n",
    master: '',
  });
  const roots = `thorium_roots: {base: [${path.join(directory, 'thorium')}]}\n`;
  t.deepEqual(tagsOf(await planOfFile(t, `${roots}engines: [{thorium: {}}]\n`)), ['my/metric/*']);
  t.deepEqual(tagsOf(await planOfFile(t, roots)), []);
});

test('orchestrations say which tags they wait for', async (t) => {
  const directory = configDirectory(t, {
    'salt/orch/deploy.sls': `wait_a:
  salt.wait_for_event:
    - id_list: [web1]
    - name: my/done/*
    - timeout: 60
other:
  salt.state:
    - name: not/this
wait_b:
  salt.wait_for_event:
  - name: "my/other"
my/by/id:
  salt.wait_for_event:
    - timeout: 60
next:
  cmd.run:
    - name: nor/this
`,
  });
  const plan = await planOfFile(t, `file_roots: {base: [${path.join(directory, 'salt')}]}\n`);
  t.deepEqual(
    plan.rules.map(({ tag, listeners }) => [tag, listeners[0]?.line]),
    [
      ['my/done/*', 2],
      ['my/other', 10],
    ],
  );
});

test('the policy that is written is one that the master reads', async (t) => {
  const odd = ['my/tag', 'quo"te*', "it's: #x", 'ünïcode/*', '- {a}', 'back\\slash'];
  const plan = planSignals(listening(...odd, '*', 'salt/*', 'salt/auth'), []);
  const directory = configDirectory(t, {
    'master.d/signals.conf': policyText({ signals: plan, reactions }),
    master: '',
  });
  const { config } = await loadMasterConfig(directory);
  t.deepEqual(
    config.acl.signals.map(({ tag }) => tag),
    [...odd, 'salt/state_result/*'],
  );
});

test('a policy without rules is read too', async (t) => {
  const text = policyText({ signals: planSignals([], []), reactions });
  const { config } = await loadMasterConfig(configDirectory(t, { master: text }));
  t.deepEqual(config.acl.signals, []);
});

test('no name in a comment gets out of it', (t) => {
  const [item] = listening('salt/auth');
  const listener = 'x\nsaltbridge: {acl: 1}\u2028y';
  const text = policyText({
    signals: planSignals(item ? [{ ...item, listener }] : [], []),
    reactions,
  });
  t.is(text.split('\n').filter((line) => line.startsWith('saltbridge')).length, 1);
});

const segment = fc.constantFrom(
  'salt',
  'job',
  'auth',
  'my',
  'deploy',
  'ret',
  'key',
  'x',
  'state_result',
  'web1',
);
const piece = fc.oneof(segment, segment, fc.constantFrom('*', '?', 'm*', 's*', '[!s]*'));
const pattern = fc.array(piece, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
const tag = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));

test('a tag that somebody listens for is permitted, or is one that needs or gets no rule', (t) => {
  const check = (globs: string[], candidate: string): void => {
    const plan = planSignals(listening(...globs), []);
    const rules = plan.rules.map((rule) => ({ tag: rule.tag, minions: '*' }));
    const allowed = decide(
      {
        subject: { kind: 'minion', id: 'web1' },
        action: 'signal',
        resource: { tag: candidate, wasPublishedToSubject: () => false },
      },
      policyOf(rulesOf(resolveMasterConfig({ acl: { signals: rules } }))),
    ).effect;
    const heard = globs.filter((glob) => compileGlob(glob)(candidate));
    const told = new Set(
      [...plan.narrowed, ...plan.ungranted, ...plan.needless].map((it) => it.pattern),
    );
    const isOthers = candidate.startsWith('salt/state_result/');
    if (heard.length === 0) t.is(allowed, 'deny', candidate);
    if (isReservedTag(candidate)) t.is(allowed, 'deny', candidate);
    else if (heard.some((glob) => !told.has(glob)) && !isOthers) t.is(allowed, 'allow', candidate);
  };
  fc.assert(fc.property(fc.array(pattern, { minLength: 1, maxLength: 3 }), tag, check), {
    numRuns: 2000,
  });
});

/** Hooks of `cfn-hup` that run when a server's own metadata changes. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { parseServerMetadata } from '#guests/deployments/metadata.ts';
import { metadataUpdates } from '#guests/deployments/metadata-hooks.ts';
import type { MinionFunction } from '#minion-protocol';
import { until } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { eventually } from '../../interop/eventually.ts';
import { type StandInHeat, startStandInHeat } from '../deployments/stand-in-heat.ts';
import { type BridgeStage, echo, startBridge } from '../stage.ts';

const initKey = 'AWS::CloudFormation::Init';

/**
 * Applies several states of the metadata in turn. Returns what each of them runs, as NAME ACTION.
 */
function run(states: readonly object[]): readonly string[][] {
  const records: { id: string }[] = [];
  return states.map((metadata) => {
    const { deployments, noted } = metadataUpdates({ ...metadata }, records);
    const fresh = deployments.filter(({ id }) => !records.some((it) => it.id === id));
    for (const { id } of [...deployments, ...noted]) {
      if (!records.some((it) => it.id === id)) records.push({ id });
    }
    return fresh.map(({ name, action }) => `${name} ${action}`);
  });
}

test('test_cfn_hup_cfn_init_metadata: new or changed init metadata is applied', (t) => {
  const one = { [initKey]: { config: { commands: {} } } };
  const two = { [initKey]: { config: { files: {} } } };
  t.deepEqual(run([one, one, two, one, one]), [
    [`${initKey} CREATE`],
    [],
    [`${initKey} UPDATE`],
    [`${initKey} UPDATE`],
    [],
  ]);
});

test('test_cfn_hup_empty_metadata: without init metadata, no run starts', (t) => {
  t.deepEqual(run([{}, { deployments: [] }, { [initKey]: {} }, {}, { [initKey]: {} }]), [
    [],
    [],
    [`${initKey} CREATE`],
    [],
    [`${initKey} CREATE`],
  ]);
});

test('test_hup_config: a hook runs for the events that it names, wherever its path points', (t) => {
  const hook = {
    triggers: 'post.update, post.remove',
    path: "Resources.web.Metadata.site.'a.b'",
    action: 'x',
  };
  const other = { triggers: 'post.add', path: 'Metadata.site', action: 'demo.other' };
  const hooks = { 'saltbridge:cfn-hup': { hook, other } };
  const withValue = (value: unknown): object => ({ ...hooks, site: { 'a.b': value, c: value } });
  t.deepEqual(
    run([hooks, withValue(1), withValue(1), withValue(2), hooks, withValue(2), withValue(3)]),
    [[], ['other CREATE'], [], ['hook UPDATE'], ['hook DELETE'], ['other CREATE'], ['hook UPDATE']],
  );
});

test('test_metadata_retrieve_by_nested_key_none_with_matching_string: a path into a text has no value', (t) => {
  const hook = { triggers: 'post.add, post.update', path: 'Metadata.site.a', action: 'x' };
  const hooks = { 'saltbridge:cfn-hup': { hook } };
  const values = ['a', ['a'], { b: 1 }, { a: 1 }];
  t.deepEqual(run(values.map((site) => ({ ...hooks, site }))), [[], [], [], ['hook CREATE']]);
});

test('test_load_main_section: incomplete hooks are ignored', (t) => {
  for (const bad of [
    {},
    { triggers: 'post.add', path: 'Metadata.a' },
    { triggers: 'post.start', path: 'Metadata.a', action: 'x' },
    { triggers: 'post.add', path: 'Other.a', action: 'x' },
    'x',
  ]) {
    t.deepEqual(run([{ 'saltbridge:cfn-hup': { bad }, a: 1 }]), [[]]);
  }
});

test('blanks around values of a hook are ignored', (t) => {
  const hook = { triggers: ' post.add ', path: ` Metadata.'${initKey}' `, action: ' demo.other ' };
  const [, entry] = metadataUpdates(
    { 'saltbridge:cfn-hup': { hook }, [initKey]: { config: {} } },
    [],
  ).deployments;
  t.like(entry, { name: 'hook', config: 'demo.other' });
});

for (const [what, hook, warning] of [
  ['trigger', { triggers: 'service.restarted' }, /never runs.*"service\.restarted".*post\.add/],
  [
    'second trigger',
    { triggers: 'post.add,service.restarted' },
    /^\S+: "h": unknown triggers are ignored/,
  ],
  ['path', { path: 'Other.a' }, /never runs: the `path` "Other\.a"/],
  ['action', { action: undefined }, /never runs: `action`/],
] as const) {
  test(`a hook with an unknown ${what} is reported with the reason`, (t) => {
    const whole = { triggers: 'post.add', path: 'Metadata.a', action: 'x', ...hook };
    const { warnings } = metadataUpdates({ 'saltbridge:cfn-hup': { h: whole } }, []);
    t.is(warnings.length, 1);
    t.regex(warnings[0] ?? '', warning);
  });
}

test('a field of a hook that is no text is reported with its name', (t) => {
  for (const value of [{ toString: 1 }, [{ toString: 1 }], [['post.add']], 5, true]) {
    for (const field of ['triggers', 'path']) {
      const hook = { triggers: 'post.add', path: 'Metadata.a', action: 'x', [field]: value };
      const { warnings, deployments } = metadataUpdates({ 'saltbridge:cfn-hup': { hook } }, []);
      t.deepEqual(deployments, []);
      const reason = `the hook never runs: \`${field}\` must be text`;
      t.deepEqual(warnings, [`saltbridge:cfn-hup: "hook": ${reason}`]);
    }
  }
  const listed = { triggers: ['post.add', 'post.update'], path: 'Metadata.a', action: 'x' };
  t.deepEqual(run([{ 'saltbridge:cfn-hup': { listed }, a: 1 }]), [['listed CREATE']]);
});

test('config sets that are no text fail the deployment of the init metadata', (t) => {
  const setsOf = (configSets: unknown): unknown => {
    const metadata = { [initKey]: { config: {} }, 'saltbridge:cfn-init': { configSets } };
    const [deployment] = metadataUpdates(metadata, []).deployments;
    return deployment && ('problem' in deployment ? deployment.problem : deployment.inputs);
  };
  for (const value of [{ toString: 1 }, [{ toString: 1 }], 5]) {
    t.is(
      setsOf(value),
      '`configSets` in saltbridge:cfn-init must be a string or a list of strings',
    );
  }
  t.deepEqual(setsOf(['a', 'b']), { configSets: 'a,b' });
  t.deepEqual(setsOf('a'), { configSets: 'a' });
  t.deepEqual(setsOf(null), {});
});

test('a hook with an endless name or value never runs, and is not recorded', (t) => {
  const whole = { triggers: 'post.remove', path: 'Metadata.a', action: 'x' };
  for (const [name, hook, warning] of [
    ['n'.repeat(129), whole, /never runs: its name has more than 128 characters/],
    [
      'h',
      { ...whole, triggers: 'a,'.repeat(600) },
      /never runs: `triggers` has more than 1024 char/,
    ],
    [
      'h',
      { ...whole, path: 'Metadata.a'.repeat(200) },
      /never runs: `path` has more than 1024 char/,
    ],
  ] as const) {
    const { noted, warnings } = metadataUpdates(
      { 'saltbridge:cfn-hup': { [name]: hook }, a: 1 },
      [],
    );
    t.deepEqual(noted, []);
    t.is(warnings.length, 1);
    t.regex(warnings[0] ?? '', warning);
    t.true((warnings[0] ?? '').length < 256);
  }
});

test('the last run of a hook is retained until the next one is recorded', (t) => {
  const hook = { triggers: 'post.update', path: 'Metadata.a', action: 'x' };
  const of = (a: number): object => ({ 'saltbridge:cfn-hup': { hook }, a });
  const [first] = metadataUpdates({ ...of(1) }, []).noted;
  const { deployments, before } = metadataUpdates({ ...of(2) }, first === undefined ? [] : [first]);
  t.like(deployments, [{ name: 'hook', action: 'UPDATE' }]);
  t.deepEqual(before, [first?.id]);
});

test('a deployment with an endless name fails with the reason', (t) => {
  const parsed = parseServerMetadata({ deployments: [{ id: 'one', name: 'n'.repeat(256) }] });
  if (!parsed.ok) return t.fail(parsed.problem);
  const problem = 'its name has more than 255 characters';
  t.like(parsed.metadata.deployments, [{ name: 'n'.repeat(255), problem }]);
});

test('hooks and handles beyond the limit are reported', (t) => {
  const hook = { triggers: 'post.add', path: 'Metadata.a', action: 'x' };
  const hooks = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`h${at}`, hook]));
  const { warnings } = metadataUpdates({ 'saltbridge:cfn-hup': hooks }, []);
  t.deepEqual(warnings, ['saltbridge:cfn-hup: only the first 16 of 17 hooks run']);
  const handles = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`h${at}`, {}]));
  const parsed = parseServerMetadata({ 'saltbridge:handles': handles });
  t.deepEqual(parsed.ok && parsed.metadata.warnings, [
    'saltbridge:handles: only the first 64 of 65 handles are registered',
  ]);
});

test('changes by the bridge and Heat do not count as changes of metadata', (t) => {
  const all = { triggers: 'post.update', path: 'Resources.web.Metadata', action: 'x' };
  const hooks = { 'saltbridge:cfn-hup': { all } };
  t.deepEqual(
    run([
      { ...hooks, a: 1 },
      { ...hooks, a: 1, deployments: [{ id: 'x' }], 'os-collect-config': {} },
      { ...hooks, a: 2 },
    ]),
    [[], [], ['all UPDATE']],
  );
});

test('hooks of the same value read it once', (t) => {
  let looks = 0;
  const site = {
    get a() {
      looks += 1;
      return 1;
    },
  };
  const hook = { triggers: 'post.add', path: 'Metadata.site', action: 'x' };
  const hooks = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`h${at}`, hook]));
  t.is(metadataUpdates({ 'saltbridge:cfn-hup': hooks, site }, []).deployments.length, 16);
  t.is(looks, 2, 'once for the number of values, and once for the digest');
});

const catalog = `
deployments:
  site.init:
    description: What was looked at.
    group: cfn-init
    unsafe: i-understand
`;

async function start(
  t: ExecutionContext,
  apply: MinionFunction,
): Promise<BridgeStage & { readonly heat: StandInHeat }> {
  const heat = await startStandInHeat(t);
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'code.yaml'), catalog);
  const stage = await startBridge(t, {
    commands: [
      {
        ...echo,
        parameters: { type: 'object', properties: { text: { type: 'string', default: 'x' } } },
      },
    ],
    functions: { 'state.template_str': apply },
    rules: [
      allow('all', {
        subject: { service: 'deployments' },
        action: 'command',
        resource: { fun: ['demo.*', 'site.*'], within: 'web*' },
      }),
    ],
    config: {
      bridge: {
        catalog: [directory],
        handles: { endpoints: [heat.origin], same_id_wait: 0 },
        deployments: { poll_interval: 1, polls_per_second: 100, retry_max_delay: 1 },
      },
    },
  });
  return { ...stage, heat };
}

/** Returns the signals that a handle received. */
function signals({ results }: StandInHeat): readonly Readonly<Record<string, unknown>>[] {
  return results.filter(({ path: to }) => to.includes('/wait/')).map(({ values }) => values);
}

test('init metadata of a server is applied at each change, and its handle gets the actual result', async (t) => {
  let isSuccess = true;
  const stage = await start(t, () => ({
    'cmd_|-saltbridge-0001_|-x_|-run': {
      __id__: 'saltbridge-0001',
      result: isSuccess,
      changes: {},
      comment: 'disk full',
    },
  }));
  const { bridge, heat } = stage;
  const signal = { endpoint: `${heat.origin}/v1/p/stacks/s/i/resources/wait/signal`, token: 'tok' };
  const metadataOf = (command: string): object => ({
    [initKey]: { config: { commands: { a: { command } } } },
    'saltbridge:cfn-init': { signal: 'wait' },
    'saltbridge:handles': { wait: signal },
    'saltbridge:cfn-hup': {
      note: { triggers: 'post.update', path: `Metadata.'${initKey}'`, action: 'demo.echo' },
    },
  });
  heat.metadata = metadataOf('one');
  const collect = heat.collect('heat');
  await bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server', minion: 'web1', collect }],
  });
  await until('the first signal', () => signals(heat).length === 1);
  t.like(signals(heat)[0], { status: 'SUCCESS', reason: 'Configuration Complete' });
  isSuccess = false;
  heat.metadata = metadataOf('two');
  await until('the second signal', () => signals(heat).length === 2);
  t.like(signals(heat)[1], { status: 'FAILURE', reason: 'config config: commands: a: disk full' });
  const applied = (): number => stage.seen.filter(({ fun }) => fun === 'state.template_str').length;
  await until('the hook', () => stage.seen.some(({ kwargs }) => kwargs.text === 'x'));
  const reads = heat.requests.length;
  await until('two more reads', () => heat.requests.length > reads + 3);
  t.is(applied(), 2);
});

test('a template cannot signal a handle that its stack has not registered', async (t) => {
  const stage = await start(t, () => ({}));
  const { bridge, heat } = stage;
  const signal = { endpoint: `${heat.origin}/v1/p/stacks/s/i/resources/wait/signal`, token: 'tok' };
  await bridge.handles.add({ alias: 'wait', minions: ['web1'], signal });
  heat.metadata = {
    [initKey]: { config: { commands: { a: { command: 'id' } } } },
    'saltbridge:cfn-init': { signal: 'wait' },
    'saltbridge:handles': { wait: signal },
  };
  const collect = heat.collect('heat');
  await bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server', minion: 'web1', collect }],
  });
  let reason: string | undefined;
  await eventually('the end', async () => {
    const { deployments } = await bridge.stacks.show('demo');
    const found = deployments.find(({ name }) => name === initKey);
    reason = found?.reason;
    return found?.state === 'done';
  });
  t.is(
    reason,
    'the result could not be sent to Heat: no handle with the alias wait is registered for this stack',
  );
  t.deepEqual(signals(heat), []);
});

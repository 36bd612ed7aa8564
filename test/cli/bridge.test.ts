import { writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import test, { type ExecutionContext } from 'ava';
import type { ExtensionClient } from '#client';
import type { StackDetails } from '#guests';
import type { Enrolment, HandleInfo, OutboxEntry } from '#heat-bridge';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli, streamOf } from './run-cli.ts';

const info: HandleInfo = {
  alias: 'db-ready',
  id: '1',
  transport: 'HEAT_SIGNAL',
  origin: 'https://heat.example.org:8004',
  isListed: true,
  minions: ['db1', 'db2'],
  members: [],
  emptyIsSuccess: false,
  stack: 'trove-7',
  registeredAt: 0,
  expiresAt: 1_800_000_000_000,
};
const entry: OutboxEntry = {
  id: 'abc',
  alias: 'db-ready',
  minion: 'db1',
  stack: 'trove-7',
  status: 'FAILURE',
  state: 'dead',
  acceptedAt: 1_700_000_000_000,
  failures: 0,
  reason: 'answered 404: gone\u001b[2J',
};

/** Returns a bridge that gives the same answer to every call, and its calls. */
function fakeBridge(answer: unknown) {
  const calls: [method: string, parameters: object][] = [];
  const client: ExtensionClient = {
    call: async (method, parameters = {}) => {
      calls.push([method, parameters]);
      // The answer has the type that the command expects.
      return answer as never;
    },
    stream: () => {
      throw new TypeError('not foreseen');
    },
  };
  return { calls, options: { openExtension: async () => client } };
}

test('handle add reads a file, and does not print its secrets', async (t) => {
  const file = path.join(temporaryDirectory(t), 'signal.json');
  await writeFile(file, '{"alarm_url": "https://heat/secret"}');
  const { calls, options } = fakeBridge(info);
  const { code, stdout, stderr } = await runCli(
    ['bridge', 'handle', 'add', 'db-ready', file, '--minion', 'db1', 'db2', '--stack', 'trove-7'],
    options,
  );
  t.is(code, 0);
  t.is(stderr, '');
  t.snapshot(stdout);
  const registration = {
    alias: 'db-ready',
    minions: ['db1', 'db2'],
    stack: 'trove-7',
    signal: '{"alarm_url": "https://heat/secret"}',
  };
  t.deepEqual(calls, [['handles.add', { registration, replaces: false }]]);
});

test('handle add reads standard input, and reports a service that is not a listed endpoint', async (t) => {
  const { calls, options } = fakeBridge({ ...info, isListed: false });
  const { stderr } = await runCli(
    ['bridge', 'handle', 'add', 'a', '-', '--minion', 'db1', '--replace', '--expires', '60'],
    { ...options, input: '{\n}' },
  );
  t.regex(stderr, /list it under saltbridge: bridge: handles: endpoints/);
  const [[, parameters] = ['', {}]] = calls;
  t.like(parameters, { replaces: true, registration: { signal: '{\n}' } });
});

test('handles are listed, and shown as JSON', async (t) => {
  const { options } = fakeBridge([info, { ...info, alias: 'x', isListed: false }]);
  t.snapshot((await runCli(['bridge', 'handle', 'list'], options)).stdout);
  const { stdout } = await runCli(['bridge', 'handle', 'list', '--json'], options);
  t.deepEqual(JSON.parse(stdout)[0], info);
  const one = fakeBridge(info);
  const shown = await runCli(['bridge', 'handle', 'remove', 'db-ready', '--json'], one.options);
  t.deepEqual(JSON.parse(shown.stdout), info);
  t.deepEqual(one.calls, [['handles.remove', { alias: 'db-ready' }]]);
});

test('outbox list escapes control characters in the responses of services', async (t) => {
  const { calls, options } = fakeBridge([entry, { ...entry, state: 'waiting', failures: 3 }]);
  const { stdout } = await runCli(['bridge', 'outbox', 'list', '--dead'], options);
  t.snapshot(stdout);
  t.false(stdout.includes('\u001b'));
  t.deepEqual(calls, [['outbox.list', { isDead: true, limit: 1000 }]]);
});

test('outbox list --delivered prints the HTTP status of each response', async (t) => {
  const { reason: _none, ...rest } = entry;
  const delivered = { ...rest, state: 'delivered', failures: 0, httpStatus: 204 };
  const { calls, options } = fakeBridge([delivered]);
  const { stdout } = await runCli(['bridge', 'outbox', 'list', '--delivered'], options);
  t.regex(stdout, / delivered db-ready .* \(204\)\n$/);
  const json = await runCli(['bridge', 'outbox', 'list', '--delivered', '--json'], options);
  t.is(JSON.parse(json.stdout)[0].httpStatus, 204);
  t.deepEqual(calls[0], ['outbox.list', { isDelivered: true, limit: 1000 }]);
  const both = ['bridge', 'outbox', 'list', '--delivered', '--dead'];
  t.is((await runCli(both, options)).code, 64);
});

test('signals are retried and dropped by id, by handle, or all at once', async (t) => {
  const { calls, options } = fakeBridge([entry]);
  await runCli(['bridge', 'outbox', 'retry', 'abc'], options);
  await runCli(['bridge', 'outbox', 'drop', '--handle', 'db-ready'], options);
  await runCli(['bridge', 'outbox', 'drop', '--all'], options);
  t.deepEqual(calls, [
    ['outbox.retry', { id: 'abc' }],
    ['outbox.drop', { alias: 'db-ready' }],
    ['outbox.drop', {}],
  ]);
  t.is((await runCli(['bridge', 'outbox', 'drop'], options)).code, 64);
  t.is((await runCli(['bridge', 'outbox', 'drop', 'abc', '--all'], options)).code, 64);
});

// `saltbridge bridge`: its calls of the master, and its output.

const good = `
mysql.list-users:
  description: Lists users.
  function: mysql.user_list
demo.echo:
  description: Gives back | a text.
  deprecated: use demo.say
  function: test.echo
  idempotent: true
  parameters:
    type: object
    required: [text]
    properties:
      text: {type: string, description: What comes back.}
      level: {enum: [low, high]}
  arguments: {text: text}
`;

function catalog(t: ExecutionContext, text: string): string {
  const file = path.join(temporaryDirectory(t), 'c.yaml');
  writeFileSync(file, text);
  return file;
}

const whole = good.replace('      level: {enum: [low, high]}\n', '');

/** Returns a bridge with answers by method, and its calls. */
function fake(answers: Readonly<Record<string, unknown>>): {
  readonly asked: unknown[];
  readonly openExtension: () => Promise<ExtensionClient>;
} {
  const asked: unknown[] = [];
  const client: ExtensionClient = {
    call: async (method, parameters) => {
      asked.push([method, parameters]);
      return answers[method] as never;
    },
    stream: (method, parameters) => {
      asked.push([method, parameters]);
      return streamOf(...(answers[method] as never[]));
    },
  };
  return { asked, openExtension: async () => client };
}

test('lint prints each error with its place, and exits with 1', async (t) => {
  const file = catalog(t, good);
  const { code, stdout, stderr } = await runCli(['bridge', 'lint', file]);
  t.is(code, 1);
  t.is(
    stdout,
    `${file}:10: demo.echo: parameters.level: no argument uses this parameter; remove the parameter, or refer to it in \`arguments\`\n`,
  );
  t.is(stderr, '1 commands are valid.\n');
});

test('lint of a valid catalog exits with 0, and can print JSON', async (t) => {
  const { code, stdout } = await runCli(['bridge', 'lint', '--json', catalog(t, whole)]);
  t.is(code, 0);
  t.deepEqual(JSON.parse(stdout), { commands: 2, plans: 0, findings: [] });
});

test('lint without paths checks the catalog of the configuration', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(
    path.join(directory, 'master'),
    'saltbridge: {bridge: {catalog: [commands.yaml]}}\n',
  );
  writeFileSync(path.join(directory, 'commands.yaml'), whole);
  const { stderr } = await runCli(['bridge', 'lint', '-c', directory]);
  t.is(stderr, '2 commands are valid.\n');
});

test('docs prints a page with a table of parameters', async (t) => {
  const { stdout } = await runCli(['bridge', 'docs', catalog(t, whole)]);
  t.true(stdout.startsWith('# Commands\n\n## `demo.echo`\n\n**Deprecated:** use demo.say\n'));
  t.true(stdout.includes('| `text` | `string` | yes | What comes back. |'));
  t.true(stdout.includes('It has no parameters.'));
});

test('types prints declarations of the parameters', async (t) => {
  const { stdout } = await runCli(['bridge', 'types', catalog(t, whole)]);
  t.true(
    stdout.includes("  readonly 'demo.echo': { readonly params: { readonly text: string; } };"),
    stdout,
  );
  t.true(stdout.includes('@deprecated use demo.say'));
});

test('docs and types print nothing for an invalid catalog', async (t) => {
  const { code, stdout, stderr } = await runCli(['bridge', 'types', catalog(t, good)]);
  t.deepEqual([code, stdout], [78, '']);
  t.regex(stderr, /no argument uses this parameter/);
});

test('list and show print the commands of the running master', async (t) => {
  const info = { name: 'demo.echo', description: 'Gives.', parameters: { type: 'object' } };
  const plan = { name: 'demo.twice', description: 'Gives twice.', parameters: {}, steps: [] };
  const { openExtension } = fake({ commands: [info], plans: [plan], command: info });
  const list = await runCli(['bridge', 'list'], { openExtension });
  t.is(list.stdout, 'demo.echo: Gives.\ndemo.twice: Gives twice.\n');
  const shown = await runCli(['bridge', 'show', 'demo.twice'], { openExtension });
  t.true(shown.stdout.startsWith('name        demo.twice\n'));
  const { stdout } = await runCli(['bridge', 'show', 'demo.echo'], { openExtension });
  t.is(stdout, 'name        demo.echo\ndescription Gives.\nparameters  {"type":"object"}\n');
});

test('run passes all options to the master, prints the results, and exits with 1 if one failed', async (t) => {
  const results = [
    { minion: 'web1', state: 'failed', reason: 'the retcode is not 0', return: 'x' },
  ];
  const outcome = { id: '1', command: 'demo.echo', status: 'failed', results, jids: ['1'] };
  const updates = [
    { type: 'begun', id: '1', minions: ['web1'], missing: [], isRepeated: false },
    { type: 'published', jid: '1', minions: ['web1'] },
    { type: 'result', jid: '1', result: results[0] },
    { type: 'outcome', outcome },
  ];
  const { asked, openExtension } = fake({ run: updates });
  const argv = ['bridge', 'run', 'demo.echo', '-t', 'web*', '-p', '{"text":"x"}', '--key', 'k'];
  const run = await runCli([...argv, '--service', 'trove'], { openExtension });
  t.is(run.code, 1);
  t.is(run.stdout, 'web1: failed (the retcode is not 0) "x"\n');
  t.is(run.stderr, 'Run 1 begins.\nRun 1 failed.\n');
  const parameters = { command: 'demo.echo', tgt: 'web*', idempotencyKey: 'k', service: 'trove' };
  t.deepEqual(JSON.parse(JSON.stringify(asked)), [
    ['run', { ...parameters, params: { text: 'x' } }],
  ]);
  const json = await runCli([...argv, '--json'], { openExtension });
  t.is(json.stdout.trim().split('\n').length, 4);
});

const planned = `${whole}plans:
  demo.twice:
    description: Says it twice.
    parameters: {type: object, required: [text], properties: {text: {type: string}}}
    groups: {all: {description: Those who say it., max: 3}, first: {from: all, select: first}}
    steps:
      one: {command: demo.echo, group: first}
      two: {command: demo.echo, group: all, needs: [one], undo: {command: mysql.list-users}}
`;

test('lint, docs and types support plans', async (t) => {
  const file = catalog(t, planned);
  t.is((await runCli(['bridge', 'lint', file])).stderr, '2 commands and 1 plans are valid.\n');
  const bad = catalog(t, planned.replace('needs: [one]', 'needs: [two]'));
  t.regex(
    (await runCli(['bridge', 'lint', bad])).stdout,
    /demo\.twice: steps: .*depend on each other in a cycle/,
  );
  const docs = await runCli(['bridge', 'docs', file]);
  t.true(docs.stdout.includes('## `demo.twice`'));
  t.true(docs.stdout.includes('| `all` | 1 | 3 | Those who say it. |'));
  t.false(docs.stdout.includes('| `first` |'));
  t.true(
    docs.stdout.includes('- two: `demo.echo` on all, after one; undone by `mysql.list-users`'),
  );
  const types = await runCli(['bridge', 'types', file]);
  const declared =
    '  readonly \'demo.twice\': { readonly params: { readonly text: string; }; readonly groups: "all" };';
  t.true(types.stdout.includes(declared), types.stdout);
});

const progress = {
  type: 'step',
  step: 'one',
  kind: 'do',
  minions: { all: 2, ended: 1, succeeded: 1 },
  steps: { all: 2, ended: 1 },
};

test('run with groups runs a plan, prints its steps, and exits with 1 unless all succeeded', async (t) => {
  const undone = [{ step: 'one', command: 'demo.undo', status: 'failed', results: [], runs: [] }];
  const outcome = { id: '1', plan: 'demo.twice', status: 'failed', steps: [], undone };
  const updates = [
    { type: 'begun', id: '1', groups: { all: ['web1'] }, narrowed: [], isRepeated: true },
    { ...progress, state: 'failed', reason: '1 minions did not succeed' },
    { type: 'result', step: 'one', kind: 'undo', result: { minion: 'web1', state: 'silent' } },
    { type: 'outcome', outcome },
  ];
  const { asked, openExtension } = fake({
    runPlan: updates,
    followPlan: updates,
    cancelPlan: outcome,
  });
  const groups = ['-g', 'all=web1,web2', '-g', 'first=db*'];
  const argv = ['bridge', 'run', 'demo.twice', ...groups, '-p', '{"text":"x"}', '--key', 'k'];
  const run = await runCli(argv, { openExtension });
  t.is(run.code, 1);
  t.is(run.stdout, 'undo of one web1: silent\n');
  const counts = '1 of 2 minions; 1 of 2 steps have ended';
  const lines = [
    'Run 1 exists already.',
    `one failed (1 minions did not succeed): ${counts}`,
    'Run 1 failed. Not undone: one.',
  ];
  t.is(run.stderr, `${lines.join('\n')}\n`);
  const follow = await runCli(['bridge', 'follow', '1', '--json'], { openExtension });
  t.is(follow.stdout.trim().split('\n').length, 4);
  const cancel = await runCli(['bridge', 'cancel', '1', '--no-undo'], { openExtension });
  t.is(cancel.stdout, 'Run 1 failed.\n');
  const request = { plan: 'demo.twice', groups: { all: ['web1', 'web2'], first: 'db*' } };
  t.deepEqual(JSON.parse(JSON.stringify(asked)), [
    ['runPlan', { ...request, params: { text: 'x' }, idempotencyKey: 'k' }],
    ['followPlan', { id: '1' }],
    ['cancelPlan', { id: '1', undo: false }],
  ]);
});

test('run requires a target or groups, and each group only once', async (t) => {
  const { asked, openExtension } = fake({});
  for (const more of [[], ['-g', 'all'], ['-g', 'all=web1', '-g', 'all=web2'], ['-g', '=x']]) {
    t.is((await runCli(['bridge', 'run', 'demo.twice', ...more], { openExtension })).code, 64);
  }
  t.deepEqual(asked, []);
});

test('parameters that are not a map are refused before the master is called', async (t) => {
  const { asked, openExtension } = fake({});
  for (const params of ['[1]', 'x', '1']) {
    const argv = ['bridge', 'run', 'a.b', '-t', '*', '-p', params];
    t.is((await runCli(argv, { openExtension })).code, 64);
  }
  t.deepEqual(asked, []);
});

const enrolment: Enrolment = {
  number: 'AAAAAAAAAAAAAAAAAAAAAA',
  id: 'web-1',
  project: 'shop',
  by: 'claim',
  state: 'open',
  protocol: 3,
  createdAt: 1_700_000_000_000,
  ticketExpiresAt: 1_700_001_800_000,
  deadline: 1_700_001_800_000,
};
const made = { enrolment, ticket: 'sbt1.a.b', userData: '#cloud-config\n{}\n' };

/** Returns a bridge that gives the same answer to every call, and its calls. */
function fakeEnrolmentBridge(answer: unknown, changes: readonly Enrolment[] = []) {
  const calls: [method: string, parameters: object][] = [];
  const client: ExtensionClient = {
    call: async (method, parameters = {}) => {
      calls.push([method, parameters]);
      // The answer has the type that the command expects.
      return answer as never;
    },
    stream: async function* (method, parameters = {}) {
      calls.push([method, parameters]);
      // The answer has the type that the command expects.
      for (const change of changes) yield change as never;
    },
  };
  return { calls, options: { openExtension: async () => client } };
}

test('create prints the user-data to standard output, and the number to standard error', async (t) => {
  const beside = path.join(temporaryDirectory(t), 'own');
  await writeFile(beside, '#!/bin/sh\n');
  const { calls, options } = fakeEnrolmentBridge(made);
  const argv = [
    'enroll',
    'create',
    'web-1',
    '--project',
    'shop',
    '--by',
    'keys',
    '--protocol',
    '0',
  ];
  const { code, stdout, stderr } = await runCli(
    [...argv, '--merge-user-data', beside, '--lifetime', '60', '--minion-config', '/opt/salt'],
    options,
  );
  t.is(code, 0);
  t.is(stdout, made.userData);
  t.is(stderr, `Enrolment ${enrolment.number}\n`);
  const request = { id: 'web-1', project: 'shop', by: 'keys', protocol: 0, lifetimeSeconds: 60 };
  t.deepEqual(calls, [
    [
      'enroll.create',
      { ...request, format: 'cloud-init', beside: '#!/bin/sh\n', configDir: '/opt/salt' },
    ],
  ]);
});

test('user-data to merge is decompressed, and refused if it is not text', async (t) => {
  const directory = temporaryDirectory(t);
  const { calls, options } = fakeEnrolmentBridge(made);
  const merge = (file: string) =>
    runCli(['enroll', 'create', 'web-1', '--project', 'shop', '--merge-user-data', file], options);
  const packed = path.join(directory, 'packed');
  await writeFile(packed, gzipSync('#cloud-config\nhostname: ä\n'));
  t.is((await merge(packed)).code, 0);
  t.like(calls[0]?.[1], { beside: '#cloud-config\nhostname: ä\n' });
  for (const bytes of [Buffer.of(0xff, 0xfe, 0x41), gzipSync(Buffer.alloc(300_000, 'a'))]) {
    const file = path.join(directory, 'odd');
    await writeFile(file, bytes);
    const { code, stderr } = await merge(file);
    t.is(code, 64);
    t.regex(stderr, /cannot be merged: it is not UTF-8 text/);
  }
  t.is(calls.length, 1);
});

test('create --ticket prints only the ticket, and --json prints everything', async (t) => {
  const argv = ['enroll', 'create', 'web-1', '--project', 'shop'];
  const { options } = fakeEnrolmentBridge(made);
  t.is((await runCli([...argv, '--ticket'], options)).stdout, 'sbt1.a.b\n');
  t.deepEqual(JSON.parse((await runCli([...argv, '--json'], options)).stdout), made);
});

test('enroll --wait prints each state, and fails if the enrolment fails', async (t) => {
  const failed: Enrolment = { ...enrolment, state: 'failed', reason: 'no \u001b[2Jservice' };
  const { options } = fakeEnrolmentBridge(null, [enrolment, failed]);
  const { code, stderr } = await runCli(['enroll', 'wait', enrolment.number], options);
  t.is(code, 1);
  t.snapshot(stderr);
  const good = fakeEnrolmentBridge(null, [{ ...enrolment, state: 'signed-in' }]);
  t.is((await runCli(['enroll', 'wait', enrolment.number], good.options)).code, 0);
});

test('enrolments are listed and shown', async (t) => {
  const listed = await runCli(['enroll', 'list'], fakeEnrolmentBridge([enrolment]).options);
  t.is(listed.stdout, 'AAAAAAAAAAAAAAAAAAAAAA web-1 of shop by claim: open\n');
  t.snapshot(
    (await runCli(['enroll', 'show', enrolment.number], fakeEnrolmentBridge(enrolment).options))
      .stdout,
  );
});

test('enroll import reads a file or standard input, with one default project', async (t) => {
  const { calls, options } = fakeEnrolmentBridge([enrolment]);
  const input = JSON.stringify([
    { id: 'a', fingerprint: 'ff' },
    { id: 'b', project: 'own' },
  ]);
  await runCli(['enroll', 'import', '-', '--project', 'shop'], { ...options, input });
  const minions = [
    { id: 'a', fingerprint: 'ff', project: 'shop' },
    { id: 'b', project: 'own' },
  ];
  t.deepEqual(calls, [['enroll.import', { minions }]]);
  t.is((await runCli(['enroll', 'import', '-'], { ...options, input: '{}' })).code, 64);
});

test('a machine is retired by its id or its instance id, but not by both', async (t) => {
  const { calls, options } = fakeEnrolmentBridge(null);
  await runCli(['enroll', 'retire', 'web-1'], options);
  await runCli(['enroll', 'retire', '--instance', 'i-1'], options);
  t.deepEqual(calls, [
    ['enroll.retire', { id: 'web-1' }],
    ['enroll.retire', { instance: 'i-1' }],
  ]);
  t.is((await runCli(['enroll', 'retire'], options)).code, 64);
  t.is((await runCli(['enroll', 'retire', 'a', '--instance', 'b'], options)).code, 64);
});

const stack: StackDetails = {
  name: 'demo',
  id: '1',
  stack: 'web/7f',
  minions: ['web1'],
  servers: [{ server: 'server-1', minion: 'web1', source: 'login' }],
  origins: ['https://keystone.example.org:5000'],
  unlisted: ['https://keystone.example.org:5000'],
  registeredAt: 0,
  followed: [{ server: 'server-1', serverId: 'server-1', minion: 'web1', problem: 'answered 503' }],
  unclaimed: [
    {
      ...{ id: 's', alias: 'ready', minion: 'web1', state: 'dead', acceptedAt: 1_700_000_000_000 },
      reason: 'no handle was registered for it within 600 s',
    },
  ],
  deployments: [
    {
      id: 'd',
      server: 'server-1',
      minion: 'web1',
      name: 'install',
      action: 'CREATE',
      command: 'demo.echo',
      state: 'done',
      end: 'failed',
      reason: 'disk full\u001b[2J',
      begunAt: 1_700_000_000_000,
    },
  ],
};

test('stack add reads a file, and reports services that are not listed endpoints', async (t) => {
  const file = path.join(temporaryDirectory(t), 'stack.json');
  await writeFile(file, '{"stack": "web/7f", "minions": ["web1"]}');
  const { calls, options } = fakeBridge(stack);
  const { code, stdout, stderr } = await runCli(
    ['bridge', 'stack', 'add', 'demo', file, '--owner', 'p1', '--replace'],
    options,
  );
  t.is(code, 0);
  t.is(stdout, 'demo: stack web/7f, 1 servers, 1 minions\n');
  t.regex(
    stderr,
    /No requests are sent to https:\/\/keystone\.example\.org:5000, because these addresses are not permitted: list them under/,
  );
  const registration = { stack: 'web/7f', minions: ['web1'], name: 'demo' };
  t.deepEqual(calls, [['stacks.add', { registration, replaces: true, owner: 'p1' }]]);
});

test('a stack is shown with its servers and deployments, and removed', async (t) => {
  const { calls, options } = fakeBridge(stack);
  const shown = await runCli(['bridge', 'stack', 'show', 'demo'], options);
  t.regex(shown.stdout, /server server-1: minion web1: answered 503\n/);
  t.regex(shown.stdout, /install CREATE server-1\/web1 demo\.echo done \(failed\): disk full/);
  t.regex(
    shown.stdout,
    /signal heat\/ready of web1 has no handle \(dead\): no handle was registered for it within 600 s/,
  );
  t.false(shown.stdout.includes('\u001b'));
  t.is((await runCli(['bridge', 'stack', 'remove', 'demo'], options)).code, 0);
  t.deepEqual(
    calls.map(([method]) => method),
    ['stacks.show', 'stacks.remove'],
  );
  const none = await runCli(['bridge', 'stack', 'list'], fakeBridge([]).options);
  t.is(none.stderr, 'No stack is registered.\n');
});

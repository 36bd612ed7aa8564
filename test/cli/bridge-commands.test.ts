/** `saltbridge bridge`: what it asks of the master, and what it prints. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { ExtensionClient } from '../../client/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli, streamOf } from './run-cli.ts';

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

/** A bridge that a test made up, and what it was asked. */
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

test('lint says what is wrong and where, and ends with 1', async (t) => {
  const file = catalog(t, good);
  const { code, stdout, stderr } = await runCli(['bridge', 'lint', file]);
  t.is(code, 1);
  t.is(stdout, `${file}: demo.echo: parameters.level: no argument has this parameter\n`);
  t.is(stderr, '1 commands are well.\n');
});

test('lint of a good catalog ends with 0, and speaks JSON', async (t) => {
  const { code, stdout } = await runCli(['bridge', 'lint', '--json', catalog(t, whole)]);
  t.is(code, 0);
  t.deepEqual(JSON.parse(stdout), { commands: 2, plans: 0, findings: [] });
});

test('lint without places looks at those of the configuration', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(
    path.join(directory, 'master'),
    'saltbridge: {bridge: {catalog: [commands.yaml]}}\n',
  );
  writeFileSync(path.join(directory, 'commands.yaml'), whole);
  const { stderr } = await runCli(['bridge', 'lint', '-c', directory]);
  t.is(stderr, '2 commands are well.\n');
});

test('docs is a page with a table of parameters', async (t) => {
  const { stdout } = await runCli(['bridge', 'docs', catalog(t, whole)]);
  t.true(stdout.startsWith('# Commands\n\n## `demo.echo`\n\n**Deprecated:** use demo.say\n'));
  t.true(stdout.includes('| `text` | `string` | yes | What comes back. |'));
  t.true(stdout.includes('It has no parameters.'));
});

test('types are declarations of the parameters', async (t) => {
  const { stdout } = await runCli(['bridge', 'types', catalog(t, whole)]);
  t.true(
    stdout.includes("  readonly 'demo.echo': { readonly params: { readonly text: string; } };"),
    stdout,
  );
  t.true(stdout.includes('@deprecated use demo.say'));
});

test('docs and types of a catalog with a mistake are none', async (t) => {
  const { code, stdout, stderr } = await runCli(['bridge', 'types', catalog(t, good)]);
  t.deepEqual([code, stdout], [64, '']);
  t.regex(stderr, /no argument has this parameter/);
});

test('list and show say what the master has', async (t) => {
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

test('run hands everything on, prints results, and ends with 1 where one failed', async (t) => {
  const results = [
    { minion: 'web1', state: 'failed', reason: 'the retcode is not 0', return: 'x' },
  ];
  const outcome = { id: '1', command: 'demo.echo', status: 'failed', results, jids: ['1'] };
  const updates = [
    { type: 'begun', id: '1', minions: ['web1'], isRepeated: false },
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

test('lint, docs and types know plans', async (t) => {
  const file = catalog(t, planned);
  t.is((await runCli(['bridge', 'lint', file])).stderr, '2 commands and 1 plans are well.\n');
  const bad = catalog(t, planned.replace('needs: [one]', 'needs: [two]'));
  t.regex((await runCli(['bridge', 'lint', bad])).stdout, /demo\.twice: steps: .* in a circle/);
  const docs = await runCli(['bridge', 'docs', file]);
  t.true(docs.stdout.includes('## `demo.twice`'));
  t.true(docs.stdout.includes('| `all` | 1 | 3 | Those who say it. |'));
  t.false(docs.stdout.includes('| `first` |'));
  t.true(
    docs.stdout.includes('- two: `demo.echo` on all, after one; taken back by `mysql.list-users`'),
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

test('run with groups runs a plan, prints its steps, and ends with 1 unless all succeeded', async (t) => {
  const undone = [{ step: 'one', command: 'demo.undo', status: 'failed', results: [], runs: [] }];
  const outcome = { id: '1', plan: 'demo.twice', status: 'failed', steps: [], undone };
  const updates = [
    { type: 'begun', id: '1', groups: { all: ['web1'] }, isRepeated: true },
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
    'Run 1 is a run that was there before.',
    `one failed (1 minions did not succeed): ${counts}`,
    'Run 1 failed. Not taken back: one.',
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

test('run needs a target or groups, each group once', async (t) => {
  const { asked, openExtension } = fake({});
  for (const more of [[], ['-g', 'all'], ['-g', 'all=web1', '-g', 'all=web2'], ['-g', '=x']]) {
    t.is((await runCli(['bridge', 'run', 'demo.twice', ...more], { openExtension })).code, 64);
  }
  t.deepEqual(asked, []);
});

test('parameters that are no map are refused before anything is asked', async (t) => {
  const { asked, openExtension } = fake({});
  for (const params of ['[1]', 'x', '1']) {
    const argv = ['bridge', 'run', 'a.b', '-t', '*', '-p', params];
    t.is((await runCli(argv, { openExtension })).code, 64);
  }
  t.deepEqual(asked, []);
});

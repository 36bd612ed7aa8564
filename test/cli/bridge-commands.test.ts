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
  t.deepEqual(JSON.parse(stdout), { commands: 2, findings: [] });
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
  const { openExtension } = fake({ commands: [info], command: info });
  t.is((await runCli(['bridge', 'list'], { openExtension })).stdout, 'demo.echo: Gives.\n');
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

test('parameters that are no map are refused before anything is asked', async (t) => {
  const { asked, openExtension } = fake({});
  for (const params of ['[1]', 'x', '1']) {
    const argv = ['bridge', 'run', 'a.b', '-t', '*', '-p', params];
    t.is((await runCli(argv, { openExtension })).code, 64);
  }
  t.deepEqual(asked, []);
});

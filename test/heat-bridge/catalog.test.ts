/** What a catalog takes, and what it refuses before anybody calls. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { Catalog } from '../../heat-bridge/commands/command-catalog.ts';
import { parseCommandDefinition } from '../../heat-bridge/commands/command-definition.ts';
import {
  loadFunctionReviews,
  reviewedFunctions,
  unsafeFunctions,
} from '../../heat-bridge/commands/function-lists.ts';
import { BridgeError, loadCatalog } from '../../heat-bridge/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const text = { type: 'object', properties: { text: { type: 'string' } } };
const base = { description: 'Does something.', parameters: text };
const why = 'looked at by the database team';

function compile(body: object, name = 'a.b'): Catalog {
  return new Catalog([parseCommandDefinition(name, body)]);
}

const refused: readonly (readonly [why: string, body: object, named: RegExp])[] = [
  ['neither a function nor a state', base, /either function or state/],
  ['both', { ...base, function: 'test.echo', state: 'x' }, /either function or state/],
  ['an unknown field', { ...base, function: 'test.echo', fun: 'x' }, /fun: no such field/],
  ['a function in two parts by a comma', { ...base, function: 'test.ping,cmd.run' }, /function/],
  ['a function with look-alike letters', { ...base, function: 'tеst.echo' }, /function/],
  ['a function nobody knows', { ...base, function: 'site.reset' }, /reviewed: site\.reset is not/],
  ['one that runs what it is handed', { ...base, function: 'cmd.run' }, /unsafe: cmd\.run runs/],
  [
    'one that runs what it is handed, however well it was looked at',
    { ...base, function: 'cmd.run', reviewed: why },
    /unsafe: cmd\.run runs/,
  ],
  ['a state that nobody looked at', { ...base, state: 'mysql.user' }, /reviewed: expected why/],
  [
    'a keyword that the list does not have',
    { ...base, function: 'service.restart', arguments: { unmask: 'text' } },
    /arguments\.unmask: the shipped list/,
  ],
  [
    'a keyword with a dot',
    { ...base, function: 'test.kwarg', arguments: { 'a.b': 'text' } },
    /expected a keyword/,
  ],
  [
    "a keyword of Salt's own",
    { ...base, function: 'test.kwarg', arguments: { __kwarg__: 'text' } },
    /expected a keyword/,
  ],
  [
    'runas',
    { ...base, function: 'site.run', reviewed: why, arguments: { runas: 'text' } },
    /chooses how commands are run/,
  ],
  [
    'an argument of no parameter',
    { ...base, function: 'test.echo', arguments: { text: 'other' } },
    /there is no parameter other/,
  ],
  [
    'a parameter that goes nowhere',
    { ...base, function: 'test.kwarg', arguments: { a: { value: 1 } } },
    /parameters\.text: no argument/,
  ],
  [
    'parameters beyond those that are described',
    { ...base, function: 'test.kwarg', parameters: { ...text, additionalProperties: true } },
    /additionalProperties: expected false/,
  ],
  [
    'a schema of something else than an object',
    { ...base, function: 'test.kwarg', parameters: { type: 'string' } },
    /type: object/,
  ],
  [
    'a keyword of no JSON Schema',
    {
      ...base,
      function: 'test.kwarg',
      parameters: { type: 'object', properties: { a: { type: 'string', maxlength: 2 } } },
    },
    /maxlength/,
  ],
  [
    'a secret for a function, which could only get it in the publication',
    { ...base, function: 'test.echo', secret: ['text'] },
    /publication can be read by every minion/,
  ],
  [
    'a secret that an argument tells',
    { ...base, state: 'x', reviewed: why, secret: ['text'], arguments: { a: 'text' } },
    /text is secret/,
  ],
  [
    'a secret that is none of the parameters',
    { ...base, state: 'x', reviewed: why, secret: ['password'] },
    /there is no parameter password/,
  ],
  ['a word in place of i-understand', { ...base, function: 'cmd.run', unsafe: 'yes' }, /unsafe/],
  ['a review in one word', { ...base, function: 'site.x', reviewed: 'ok' }, /reviewed/],
];

for (const [title, body, named] of refused) {
  test(`a catalog refuses ${title}`, (t) => {
    const error = t.throws(() => compile(body), { instanceOf: BridgeError, code: 'ERR_CATALOG' });
    t.regex(error.message, named);
  });
}

for (const name of ['mysql', 'Mysql.create', 'mysql.créer', 'a.b,c.d', 'a..b', '__proto__.x', '']) {
  test(`a command cannot be named ${JSON.stringify(name)}`, (t) => {
    t.throws(() => compile({ ...base, function: 'test.echo' }, name), { code: 'ERR_CATALOG' });
  });
}

const taken: readonly (readonly [why: string, body: object])[] = [
  ['a function of the shipped list', { ...base, function: 'test.echo' }],
  ['another one that was looked at', { ...base, function: 'site.reset', reviewed: why }],
  ['a dangerous one that is meant', { ...base, function: 'cmd.run', unsafe: 'i-understand' }],
  ['a state that was looked at', { ...base, state: 'mysql.user', reviewed: why }],
  ['a state with a secret', { ...base, state: 'mysql.user', reviewed: why, secret: ['text'] }],
];

for (const [title, body] of taken) {
  test(`a catalog takes ${title}`, (t) => {
    t.is(compile(body).list().length, 1);
  });
}

test('no function is in both of the shipped lists', (t) => {
  const standings = loadFunctionReviews();
  const unsafe = unsafeFunctions.trim().split('\n');
  for (const line of reviewedFunctions.trim().split('\n')) {
    const [fun = ''] = line.split(' ');
    t.is(standings(fun).kind, 'reviewed', fun);
    t.false(unsafe.includes(fun), fun);
  }
});

for (const fun of [
  'cmd.run',
  'cmd.script',
  'module.run',
  'state.single',
  'state.template_str',
  'state.sls',
  'state.apply',
  'schedule.add',
  'docker.run',
  'file.write',
  'cp.get_url',
  'saltutil.cmd',
  'publish.publish',
  'event.send',
  'cron.set_job',
  'git.clone',
  'pip.install',
  'slsutil.renderer',
  'mysql.query',
  'postgres.psql_query',
  'pillar.items',
  'config.get',
  'http.query',
  'win_task.create_task',
]) {
  test(`${fun} is known to be dangerous`, (t) => {
    t.is(loadFunctionReviews()(fun).kind, 'unsafe');
  });
}

const yaml = `
demo.echo:
  description: Gives back a text.
  function: test.echo
  parameters: {type: object, properties: {text: {type: string}}}
site.reset:
  description: Resets.
  function: site.reset
`;

test('files of a directory are read by name, and each problem is told with its file', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'a.yaml'), yaml);
  writeFileSync(path.join(directory, 'b.yml'), yaml.replace('site.reset', 'demo.other'));
  writeFileSync(path.join(directory, 'c.yaml'), 'a: [');
  writeFileSync(path.join(directory, 'd.yaml'), '- 1');
  writeFileSync(path.join(directory, 'notes.txt'), 'no');
  mkdirSync(path.join(directory, 'more'));
  const { definitions, findings } = await loadCatalog([directory]);
  t.deepEqual(
    definitions.map(({ name }) => name),
    ['demo.echo'],
  );
  const told = findings.map(({ file, problem }) => [path.basename(file), problem] as const);
  t.deepEqual(
    told.map(([file]) => file),
    ['a.yaml', 'b.yml', 'b.yml', 'c.yaml', 'd.yaml'],
  );
  t.regex(told[0]?.[1] ?? '', /site\.reset: reviewed/);
  t.regex(told[1]?.[1] ?? '', /demo\.echo: it is defined twice/);
});

test('a place that is not there is told', async (t) => {
  await t.throwsAsync(loadCatalog([path.join(temporaryDirectory(t), 'none')]), {
    code: 'ERR_CATALOG',
  });
});

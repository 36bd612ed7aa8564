/**
 * Catalogs of named commands: valid definitions, and mistakes that are reported before any call.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import { loadCatalog } from '#guests';
import { BridgeError, Catalog, type CommandDefinition } from '#heat-bridge';
import { parseCommandDefinition } from '#heat-bridge/commands/command-definition.ts';
import { describeCommand } from '#heat-bridge/commands/command-info.ts';
import lists from '#heat-bridge/commands/function-lists.json' with { type: 'json' };
import { loadFunctionReviews } from '#heat-bridge/commands/function-lists.ts';
import { stepParameters } from '#heat-bridge/plans/step-parameters.ts';
import { tries } from '../helpers/effort.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const text = { type: 'object', properties: { text: { type: 'string' } } };
const base = { description: 'Does something.', parameters: text };
const why = 'looked at by the database team';

function compile(body: object, name = 'a.b'): Catalog {
  return new Catalog([parseCommandDefinition(name, body)]);
}

const refused: readonly (readonly [why: string, body: object, named: RegExp])[] = [
  [
    'neither a function nor a state',
    base,
    /exactly one of the fields `function`, `state` and `install`/,
  ],
  [
    'a function and a state',
    { ...base, function: 'test.echo', state: 'x' },
    /exactly one of the fields `function`, `state` and `install`/,
  ],
  ['an unknown field', { ...base, function: 'test.echo', fun: 'x' }, /fun: there is no such key/],
  [
    'a list of functions, separated by a comma',
    { ...base, function: 'test.ping,cmd.run' },
    /function/,
  ],
  ['a function name with Cyrillic letters', { ...base, function: 'tеst.echo' }, /function/],
  [
    'a function that is in neither list',
    { ...base, function: 'site.reset' },
    /reviewed: site\.reset is not/,
  ],
  [
    'a function that executes its arguments',
    { ...base, function: 'cmd.run' },
    /unsafe: cmd\.run executes/,
  ],
  [
    'a function that executes its arguments, even if it was reviewed',
    { ...base, function: 'cmd.run', reviewed: why },
    /unsafe: cmd\.run executes/,
  ],
  ['a state file without a review', { ...base, state: 'mysql.user' }, /reviewed: required/],
  [
    'a keyword that the list of safe functions does not permit',
    { ...base, function: 'service.restart', arguments: { unmask: 'text' } },
    /arguments\.unmask: .*list of safe functions/,
  ],
  [
    'a keyword with a dot',
    { ...base, function: 'test.kwarg', arguments: { 'a.b': 'text' } },
    /not a valid name for a keyword argument/,
  ],
  [
    'a keyword that Salt reserves',
    { ...base, function: 'test.kwarg', arguments: { __kwarg__: 'text' } },
    /not a valid name for a keyword argument/,
  ],
  [
    'runas',
    { ...base, function: 'site.run', reviewed: why, arguments: { runas: 'text' } },
    /Salt uses this keyword/,
  ],
  [
    'an argument that refers to an unknown parameter',
    { ...base, function: 'test.echo', arguments: { text: 'other' } },
    /unknown parameter other/,
  ],
  [
    'a parameter that no argument uses',
    { ...base, function: 'test.kwarg', arguments: { a: { value: 1 } } },
    /parameters\.text: no argument/,
  ],
  [
    'a schema that permits undeclared parameters',
    { ...base, function: 'test.kwarg', parameters: { ...text, additionalProperties: true } },
    /additionalProperties: must be false/,
  ],
  [
    'a schema that does not describe an object',
    { ...base, function: 'test.kwarg', parameters: { type: 'string' } },
    /type: object/,
  ],
  [
    'an unknown keyword in a JSON Schema',
    {
      ...base,
      function: 'test.kwarg',
      parameters: { type: 'object', properties: { a: { type: 'string', maxlength: 2 } } },
    },
    /maxlength/,
  ],
  [
    'a secret parameter of a function, which would be published',
    { ...base, function: 'test.echo', secret: ['text'] },
    /every minion can read the arguments/,
  ],
  [
    'a secret parameter in an argument',
    { ...base, state: 'x', reviewed: why, secret: ['text'], arguments: { a: 'text' } },
    /text is secret/,
  ],
  [
    'a secret that is not a parameter',
    { ...base, state: 'x', reviewed: why, secret: ['password'] },
    /unknown parameter password/,
  ],
  [
    'a value of unsafe other than i-understand',
    { ...base, function: 'cmd.run', unsafe: 'yes' },
    /unsafe/,
  ],
  ['a review that is too short', { ...base, function: 'site.x', reviewed: 'ok' }, /reviewed/],
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
  ['another reviewed function', { ...base, function: 'site.reset', reviewed: why }],
  ['a dangerous one that is meant', { ...base, function: 'cmd.run', unsafe: 'i-understand' }],
  ['a state that was looked at', { ...base, state: 'mysql.user', reviewed: why }],
  ['a state with a secret', { ...base, state: 'mysql.user', reviewed: why, secret: ['text'] }],
];

for (const [title, body] of taken) {
  test(`a catalog accepts ${title}`, (t) => {
    t.is(compile(body).list().length, 1);
  });
}

test('files of a catalog have names with underscores; other names are refused', async (t) => {
  const directory = temporaryDirectory(t);
  const entry = (name: string, concurrency: string): string =>
    `${name}: { description: x, function: test.ping, concurrency: { ${concurrency} } }`;
  const plan = (name: string, step: string): string =>
    `  ${name}: { description: x, groups: { all: {} }, steps: { one: { command: a.new, group: all, ${step} } } }`;
  const lines = [
    entry('a.new', 'per_target: 1'),
    'plans:',
    plan('p.new', 'batch_size: 25%, max_failures: 1, on_failure: continue'),
    plan('p.program', 'batchSize: 1'),
  ];
  writeFileSync(path.join(directory, 'a.yaml'), lines.join('\n'));
  const { definitions, plans, findings } = await loadCatalog([directory]);
  t.deepEqual(
    definitions.map(({ name, concurrency }) => [name, concurrency]),
    [['a.new', { perTarget: 1 }]],
  );
  t.deepEqual(
    plans.map(({ name, steps }) => [name, steps.one]),
    [
      [
        'p.new',
        {
          command: 'a.new',
          group: 'all',
          batchSize: '25%',
          maxFailures: 1,
          onFailure: 'continue',
        },
      ],
    ],
  );
  t.deepEqual(
    findings.map(({ problem }) => problem),
    ['p.program: steps.one.batchSize: unknown field in a file; use batch_size'],
  );
});

test('no function is in both shipped lists', (t) => {
  const standings = loadFunctionReviews();
  for (const line of lists.reviewed) {
    const [fun = ''] = line.split(' ');
    t.is(standings(fun).kind, 'reviewed', fun);
    t.false(lists.unsafe.includes(fun), fun);
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
  test(`${fun} is classified as dangerous`, (t) => {
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

test('files of a directory are read in order of their names, and each problem names its file', async (t) => {
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
  t.regex(told[1]?.[1] ?? '', /demo\.echo: duplicate name/);
});

test('a missing path is reported', async (t) => {
  await t.throwsAsync(loadCatalog([path.join(temporaryDirectory(t), 'none')]), {
    code: 'ERR_CATALOG',
  });
});

// Parameters of callers: an error names the parameter, and contains nothing of the caller's data.

function compiled(
  body: Omit<CommandDefinition, 'name' | 'description'>,
): ReturnType<Catalog['get']> {
  return new Catalog([parseCommandDefinition('a.b', { description: 'x', ...body })]).get('a.b');
}

const anything = compiled({
  function: 'test.kwarg',
  parameters: {
    type: 'object',
    required: ['text'],
    properties: {
      text: { type: 'string' },
      list: { type: 'array', items: { type: 'string' } },
      map: { type: 'object', additionalProperties: { type: 'string' } },
      count: { type: 'integer', default: 3 },
      dash: { type: 'string', 'x-allow-leading-dash': true },
      lines: { type: 'string', 'x-allow-newlines': true },
      syntax: { type: 'string', 'x-allow-salt-syntax': true },
    },
  },
});

const slot = '__slot__:salt:cmd.run(id)';

const refusedParameters: readonly (readonly [why: string, parameters: unknown, named: RegExp])[] = [
  ['a missing parameter', {}, /text/],
  ['an unknown parameter', { text: 'a', other: 1 }, /is not known; it has text, list, map, count/],
  ['a value of a wrong type', { text: 1 }, /text: must be string/],
  ['text instead of a map', 'text=a', /must be object/],
  ['an option', { text: '-rf' }, /text: must not begin with -/],
  ['an option behind blanks', { text: ' --all' }, /must not begin with -/],
  ['an option in a list', { text: 'a', list: ['b', '-c'] }, /list\.1: must not begin/],
  ['a line break', { text: 'a\nb' }, /line breaks/],
  ['a NUL', { text: 'a\0b' }, /control/],
  ['an invisible mark', { text: 'a\u202eb' }, /invisible/],
  ['a lone surrogate', { text: 'a\ud800' }, /invisible/],
  ['a Unicode line separator', { text: 'a\u2028b' }, /line breaks/],
  ['a map of keywords', { text: 'a', map: { __kwarg__: 'true', cmd: 'id' } }, /rename the key/],
  [
    'a control character in a text that permits line breaks',
    { text: 'a', lines: 'a\u0007' },
    /control/,
  ],
  ['a slot', { text: slot }, /^a\.b: text: must not contain __slot__:/],
  ['a slot in a list', { text: 'a', list: ['b', slot] }, /list\.1: must not contain __slot__:/],
  ['a slot in a map', { text: 'a', map: { b: slot } }, /map\.b: must not contain __slot__:/],
  ['a slot as a key', { text: 'a', map: { [` ${slot}`]: 'b' } }, /rename the key/],
  ['a slot behind blanks', { text: ` \u3000${slot}` }, /must not contain __slot__:/],
  ['a slot behind other text', { text: `a,${slot}` }, /must not contain __slot__:/],
  ['a reference to a database', { text: 'sdb://saltbridge/db/password' }, /text: .*sdb:\/\//],
  ['a reference to a file', { text: 'salt://top.sls' }, /text: .*salt:\/\//],
  [
    'a message for the GPG renderer',
    { text: 'a', lines: 'x\n-----BEGIN PGP MESSAGE-----\n\nx' },
    /lines: .*PGP/,
  ],
];

for (const [title, parameters, named] of refusedParameters) {
  test(`parameters are refused: ${title}`, (t) => {
    const error = t.throws(() => anything.check(parameters), {
      instanceOf: BridgeError,
      code: 'ERR_COMMAND_PARAMETERS',
    });
    t.regex(error.message, named);
  });
}

test('a key beside __proto__ is not a parameter either', (t) => {
  const parameters: unknown = JSON.parse('{"text": "a", "__proto__": {"x": "y"}}');
  t.throws(() => anything.check(parameters), { code: 'ERR_COMMAND_PARAMETERS' });
});

test('texts that a command line would interpret reach the minion unchanged', (t) => {
  for (const text of ['runas=root', 'True', '{a: 1}', 'test.ping,cmd.run', '0777', '1_000', '~']) {
    const { fun, kwarg } = anything.toCall(anything.check({ text }), '');
    t.is(fun, 'test.kwarg');
    t.deepEqual(kwarg, { text, count: 3 });
  }
});

test('a schema may permit a text to begin with - and to have several lines', (t) => {
  const parameters = { text: 'a', dash: '-1', lines: 'a\n\tb' };
  t.deepEqual(anything.check(parameters), { ...parameters, count: 3 });
});

test('a schema may permit text that Salt interprets', (t) => {
  const parameters = { text: 'a', syntax: slot };
  t.deepEqual(anything.check(parameters), { ...parameters, count: 3 });
});

test('an error contains nothing that the caller sent', (t) => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{12,20}$/), (secret) => {
      const sent = [
        { [secret]: 1, text: 'a' },
        { text: `-${secret}` },
        { text: 'a', count: secret },
      ];
      for (const parameters of sent) {
        const error = t.throws(() => anything.check(parameters));
        t.false(error.message.includes(secret));
      }
    }),
    tries(30),
  );
});

test('accepted values are sent as keywords, and only under names of the catalog', (t) => {
  const marks = fc.constantFrom('__kwarg__', '__pub_jid', 'cmd', 'a.b');
  const map = fc.oneof(fc.jsonValue(), fc.dictionary(marks, fc.string({ maxLength: 4 })));
  fc.assert(
    fc.property(map, fc.string(), (value, text) => {
      try {
        const parameters = anything.check({ text, map: value });
        const { fun, kwarg } = anything.toCall(parameters, '');
        t.is(fun, 'test.kwarg');
        t.true(Object.keys(kwarg).every((key) => ['text', 'map', 'count'].includes(key)));
        t.false(JSON.stringify(kwarg).includes('__kwarg__'));
      } catch (error) {
        t.true(error instanceof BridgeError);
      }
    }),
  );
});

const restart = compiled({
  function: 'service.restart',
  parameters: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
});

for (const name of ['../../tmp/x', 'a b', 'a;b', 'a$(id)', 'a|b', 'a`b`', "a'b", '']) {
  test(`a function of the shipped list accepts one word, and refuses ${JSON.stringify(name)}`, (t) => {
    t.throws(() => restart.check({ name }), { code: 'ERR_COMMAND_PARAMETERS' });
  });
}

test('a function of the shipped list accepts the name of a unit', (t) => {
  for (const name of ['mysql', 'getty@tty1.service', 'dbus-org.x', 'a_b:c']) {
    t.deepEqual(restart.check({ name }), { name });
  }
});

const state = compiled({
  state: 'mysql.user',
  reviewed: 'it quotes nothing and runs nothing',
  parameters: {
    type: 'object',
    properties: {
      name: { type: 'string' },
      note: { type: 'string', 'x-quoted-by-template': true },
      password: { type: 'string' },
    },
  },
  secret: ['password'],
});

for (const name of [
  'a: b',
  '{a: b}',
  '[a]',
  'a #b',
  '*x',
  '&x',
  '!!python/object:os',
  '%x',
  '@x',
  '"a"',
  "'a'",
  '0777',
  'yes',
  '2001-01-01',
  'a:',
  'a ',
  ' a',
  '{{ x }}',
  '{% x %}',
]) {
  test(`a state accepts only text that YAML reads as text, and refuses ${JSON.stringify(name)}`, (t) => {
    t.throws(() => state.check({ name }), { code: 'ERR_COMMAND_PARAMETERS' });
  });
}

test('a state refuses text that Salt would interpret, quoted or not', (t) => {
  const error = t.throws(() => state.check({ note: slot }), { code: 'ERR_COMMAND_PARAMETERS' });
  t.regex(error.message, /note: must not contain __slot__:/);
  t.throws(() => state.check({ password: slot }), { code: 'ERR_COMMAND_PARAMETERS' });
});

test('a state that quotes a text accepts it, except for invisible characters', (t) => {
  t.deepEqual(state.check({ note: 'a: "b" {c}' }), { note: 'a: "b" {c}' });
  t.throws(() => state.check({ note: 'a\nb' }), { code: 'ERR_COMMAND_PARAMETERS' });
});

test('a state gets its parameters as pillar, and for secrets only a reference', (t) => {
  const { fun, kwarg } = state.toCall(state.check({ name: 'app', password: 'hunter22' }), 'ref1');
  t.is(fun, 'state.apply');
  t.deepEqual(kwarg, {
    mods: 'mysql.user',
    pillar: { name: 'app', saltbridge_secrets: 'ref1' },
  });
});

test('arguments may be renamed, fixed and nested into maps', (t) => {
  const command = compiled({
    function: 'site.create',
    reviewed: 'creates one record, and nothing else',
    parameters: { type: 'object', properties: { who: { type: 'string' } } },
    arguments: {
      user: { parameter: 'who' },
      host: { value: 'localhost' },
      options: { map: { owner: { parameter: 'who' }, level: { value: 2 } } },
    },
  });
  t.deepEqual(command.toCall({ who: 'app' }, '').kwarg, {
    user: 'app',
    host: 'localhost',
    options: { owner: 'app', level: 2 },
  });
  t.deepEqual(command.toCall({}, '').kwarg, { host: 'localhost', options: { level: 2 } });
});

test('a parameter that was not given is not passed on, whatever its name', (t) => {
  const names = ['constructor', 'toString', 'valueOf', 'hasOwnProperty'];
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  const parameters = { type: 'object', properties };
  const command = compiled({
    function: 'test.kwarg',
    reviewed: 'it gives back what it gets',
    parameters,
  });
  t.deepEqual(command.toCall(command.check({}), '').kwarg, {});
  const given = command.check({ toString: 'a' });
  t.deepEqual(command.toCall(given, '').kwarg, { toString: 'a' });
  const sources = Object.fromEntries(names.map((name) => [name, { parameter: name }]));
  t.deepEqual(stepParameters(sources, {}, new Map()), {});
});

test('a missing word is not replaced by another one, whatever its name', (t) => {
  const parameters = { type: 'object', properties: { constructor: { type: 'string' } } };
  const named = { name: { parameter: 'constructor' } };
  const command = compiled({ function: 'service.restart', parameters, arguments: named });
  t.notThrows(() => command.check({}));
});

test('the duration of a command and of a plan is timeout in files, and timeoutSeconds in programs', async (t) => {
  const directory = temporaryDirectory(t);
  const command = (name: string, more: string): string =>
    `${name}: { description: x, function: test.ping, ${more} }`;
  const plan =
    '{ description: x, groups: { all: {} }, steps: { one: { command: a.new, group: all } }';
  const lines = [
    command('a.new', 'timeout: 7'),
    command('a.program', 'timeoutSeconds: 7'),
    `plans:\n  p.new: ${plan}, timeout: 9 }`,
  ];
  writeFileSync(path.join(directory, 'a.yaml'), lines.join('\n'));
  const { definitions, plans, findings } = await loadCatalog([directory]);
  t.deepEqual([definitions[0]?.timeoutSeconds, plans[0]?.timeoutSeconds], [7, 9]);
  t.deepEqual(
    findings.map(({ problem }) => problem),
    ['a.program: timeoutSeconds: unknown field in a file; use timeout'],
  );
});

// An error names the parameter and the violated rule, and suggests the most similar name.

const ruled = compiled({
  function: 'test.kwarg',
  parameters: {
    type: 'object',
    properties: {
      name: { type: 'string', pattern: '^[a-z]+$' },
      size: { type: 'integer', minimum: 1, maximum: 64 },
      engine: { enum: ['mysql', 'mariadb'] },
      mode: { const: 'safe' },
      password: { type: 'string', minLength: 12 },
      options: {
        type: 'object',
        properties: { charset: { type: 'string' } },
        additionalProperties: false,
      },
    },
  },
});

for (const [title, parameters, message] of [
  ['a pattern', { name: 'Hunter2' }, 'a.b: name: must match the pattern ^[a-z]+$'],
  ['an upper bound', { size: 65 }, 'a.b: size: must be <= 64'],
  ['a lower bound', { size: 0 }, 'a.b: size: must be >= 1'],
  ['a list of values', { engine: 'hunter2' }, 'a.b: engine: must be one of "mysql", "mariadb"'],
  ['one value', { mode: 'hunter2' }, 'a.b: mode: must be "safe"'],
  ['a length', { password: 'hunter2' }, 'a.b: password: must not have fewer than 12 characters'],
  [
    'a misspelt name',
    { nmae: 'hunter2' },
    'a.b: a parameter: is not known, did you mean name?; it has name, size, engine, mode, password, options',
  ],
  [
    'a misspelt name within one',
    { options: { charest: 'hunter2' } },
    'a.b: options.charest: is not known, did you mean charset?',
  ],
] as const) {
  test(`the error for a refused parameter names the violated rule: ${title}`, (t) => {
    const error = t.throws(() => ruled.check(parameters), { code: 'ERR_COMMAND_PARAMETERS' });
    t.is(error?.message, message);
    t.notRegex(error?.message ?? '', /hunter2/i, 'no value is repeated');
  });
}

test('a reviewed state file is not reported as unsafe', (t) => {
  const definition = parseCommandDefinition('a.b', {
    description: 'x',
    state: 'site.reset',
    reviewed: 'it takes no parameters',
  });
  t.is(describeCommand(new Catalog([definition]).get('a.b')).standing, 'reviewed');
});

test('parameters with too many values are refused before they are checked', (t) => {
  const { check } = compile({
    ...base,
    function: 'test.echo',
    parameters: { type: 'object', properties: { text: {} } },
  }).get('a.b');
  const many = (size: number): unknown[] => Array.from({ length: size }, () => 'x');
  const tooMany = { code: 'ERR_COMMAND_PARAMETERS', message: /more than 10000 values/ };
  t.throws(() => check({ text: many(9_999) }), tooMany);
  t.throws(() => check({ text: { ...many(9_999) } }), tooMany);
  t.throws(() => check({ text: Array.from({ length: 101 }, () => many(100)) }), tooMany);
  t.notThrows(() => check({ text: many(9_998) }));
});

/** What parameters of a caller may hold: what is refused says where, and nothing of the caller's. */

import test from 'ava';
import fc from 'fast-check';
import { Catalog, type CompiledCommand } from '../../heat-bridge/commands/command-catalog.ts';
import {
  type CommandDefinition,
  parseCommandDefinition,
} from '../../heat-bridge/commands/command-definition.ts';
import { BridgeError } from '../../heat-bridge/index.ts';
import { stepParameters } from '../../heat-bridge/plans/plan-catalog.ts';

function compiled(body: Omit<CommandDefinition, 'name' | 'description'>): CompiledCommand {
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
      dash: { type: 'string', 'x-dash': true },
      lines: { type: 'string', 'x-lines': true },
    },
  },
});

const refused: readonly (readonly [why: string, parameters: unknown, named: RegExp])[] = [
  ['one that is missing', {}, /text/],
  ['one too many', { text: 'a', other: 1 }, /is not known; it has text, list, map, count/],
  ['one of another type', { text: 1 }, /text: must be string/],
  ['no map at all', 'text=a', /must be object/],
  ['an option', { text: '-rf' }, /text: must not begin with -/],
  ['an option behind blanks', { text: ' --all' }, /must not begin with -/],
  ['an option in a list', { text: 'a', list: ['b', '-c'] }, /list\.1: must not begin/],
  ['a line break', { text: 'a\nb' }, /line breaks/],
  ['a NUL', { text: 'a\0b' }, /control/],
  ['an invisible mark', { text: 'a\u202eb' }, /invisible/],
  ['half a character', { text: 'a\ud800' }, /invisible/],
  ['another line end', { text: 'a\u2028b' }, /line breaks/],
  ['a map of keywords', { text: 'a', map: { __kwarg__: 'true', cmd: 'id' } }, /another key/],
  ['a control character where lines may be', { text: 'a', lines: 'a\u0007' }, /control/],
];

for (const [title, parameters, named] of refused) {
  test(`parameters are refused: ${title}`, (t) => {
    const error = t.throws(() => anything.check(parameters), {
      instanceOf: BridgeError,
      code: 'ERR_COMMAND_PARAMETERS',
    });
    t.regex(error.message, named);
  });
}

test('a key beside __proto__ is no parameter either', (t) => {
  const parameters: unknown = JSON.parse('{"text": "a", "__proto__": {"x": "y"}}');
  t.throws(() => anything.check(parameters), { code: 'ERR_COMMAND_PARAMETERS' });
});

test('texts that a command line would read otherwise reach the minion as they are', (t) => {
  for (const text of ['runas=root', 'True', '{a: 1}', 'test.ping,cmd.run', '0777', '1_000', '~']) {
    const { fun, kwarg } = anything.toCall(anything.check({ text }), '');
    t.is(fun, 'test.kwarg');
    t.deepEqual(kwarg, { text, count: 3 });
  }
});

test('a schema may let a text begin with -, and have lines', (t) => {
  const parameters = { text: 'a', dash: '-1', lines: 'a\n\tb' };
  t.deepEqual(anything.check(parameters), { ...parameters, count: 3 });
});

test('a refusal says nothing of what the caller sent', (t) => {
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
    { numRuns: 30 },
  );
});

test('whatever is taken, is told by keyword alone, and by no other than the catalog names', (t) => {
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
  test(`a function of the shipped list takes one word, and not ${JSON.stringify(name)}`, (t) => {
    t.throws(() => restart.check({ name }), { code: 'ERR_COMMAND_PARAMETERS' });
  });
}

test('a function of the shipped list takes the name of a unit', (t) => {
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
      note: { type: 'string', 'x-quoted': true },
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
  test(`a state takes only what YAML reads as that text, and not ${JSON.stringify(name)}`, (t) => {
    t.throws(() => state.check({ name }), { code: 'ERR_COMMAND_PARAMETERS' });
  });
}

test('a state that quotes a text takes it, but for what cannot be seen', (t) => {
  t.deepEqual(state.check({ note: 'a: "b" {c}' }), { note: 'a: "b" {c}' });
  t.throws(() => state.check({ note: 'a\nb' }), { code: 'ERR_COMMAND_PARAMETERS' });
});

test('a state gets its parameters as pillar, and of secrets only where they are', (t) => {
  const { fun, kwarg } = state.toCall(state.check({ name: 'app', password: 'hunter22' }), 'ref1');
  t.is(fun, 'state.apply');
  t.deepEqual(kwarg, {
    mods: 'mysql.user',
    pillar: { name: 'app', saltbridge_secrets: 'ref1' },
  });
});

test('arguments may be renamed, fixed, and put into maps', (t) => {
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

test('a word that was not given is no other word, whatever its name', (t) => {
  const parameters = { type: 'object', properties: { constructor: { type: 'string' } } };
  const named = { name: { parameter: 'constructor' } };
  const command = compiled({ function: 'service.restart', parameters, arguments: named });
  t.notThrows(() => command.check({}));
});

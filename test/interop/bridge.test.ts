/**
 * Named commands on real minions of all versions: hostile values stay text, and secrets reach only
 * their minion.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { allow } from '#acl';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition, CommandTypes } from '#heat-bridge';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { steps } from './programs.ts';

const step = steps('SALT_MINION');
const password = 'correct: "horse" {{ battery }} #staple';

const commands: readonly CommandDefinition[] = [
  {
    name: 'demo.kwarg',
    description: 'Says what it was given.',
    function: 'test.kwarg',
    parameters: {
      type: 'object',
      required: ['text'],
      properties: {
        text: { type: 'string' },
        map: { type: 'object', additionalProperties: true },
        dash: { type: 'string', 'x-allow-leading-dash': true },
      },
    },
  },
  {
    name: 'demo.write',
    description: 'Writes a secret into a file of its own.',
    state: 'write',
    reviewed: 'made for this test alone: it writes one file',
    parameters: {
      type: 'object',
      required: ['password'],
      properties: { password: { type: 'string', 'x-quoted-by-template': true } },
    },
    secret: ['password'],
  },
];

/** SLS that writes a file. Only the executing minion reads the place of the file. */
const sls = (directory: string): string => `
{% set secret = salt['pillar.get']('saltbridge:secrets:' ~ pillar['saltbridge_secrets']) %}
${directory}/{{ grains['id'] }}.secret:
  file.managed:
    - contents: {{ secret['password'] | yaml_dquote }}
    - show_changes: False
`;

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let bridge: Bridge<CommandTypes>;

test.before(async () => {
  if (process.env.SALT_MINION === undefined) return;
  const place = await MasterHome.create();
  const roots = path.join(place.directory, 'files');
  mkdirSync(roots);
  writeFileSync(path.join(roots, 'write.sls'), sls(place.directory));
  const rules = [
    allow('demo', {
      subject: { service: 'bridge' },
      action: 'command',
      resource: { fun: 'demo.*', within: 'salt-*' },
    }),
  ];
  home = place.with({ acl: { signals: [], rules }, fileRoots: { base: [roots] } });
  fleet = await Fleet.create(home.ports);
  bridge = createBridge({ commands });
  master = await home.startHere(null, { extensions: [bridge] });
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('crafted values reach the function only as text', async (t) => {
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
  const texts = [
    'runas=root',
    'test.ping,cmd.run',
    "{__kwarg__: True, cmd: 'id'}",
    '{"__kwarg__": true}',
    'True',
    '[1, 2]',
    '0777',
    '$(id); `id` | id',
    '{{ grains.id }}',
    'сmd.run',
    'ｃｍｄ.run',
    'a=b __kwarg__=True',
    "!!python/object/apply:os.system ['id']",
    '%s %(id)s {0}',
    '../../etc/passwd',
  ];
  for (const text of texts) {
    const map = { runas: 'root', 'a.b': text, 'cmd.run': 'id', ret: 'x', tgt: '*', list: [text] };
    const params = { text, map, dash: '--help' };
    const run = await bridge.run('demo.kwarg', { target: 'salt-*', params });
    const { status, results } = await run.outcome;
    t.is(status, 'succeeded', text);
    t.is(results.length, fleet.minions.length);
    for (const { return: value } of results) t.like(asPlain(value), params);
  }
});

step('crafted values that are not plain text are refused before publication', async (t) => {
  const before = (await master.api.jobs.list()).length;
  const refused: readonly (readonly [string, object, string])[] = [
    ['test.kwarg', { text: 'x' }, 'ERR_COMMAND_DENIED'],
    ['demo.kwarg,cmd.run', { text: 'x' }, 'ERR_COMMAND_UNKNOWN'],
    ['dеmo.kwarg', { text: 'x' }, 'ERR_COMMAND_DENIED'],
    ['ｄemo.kwarg', { text: 'x' }, 'ERR_COMMAND_DENIED'],
    ['demo.kwarg\u200b', { text: 'x' }, 'ERR_COMMAND_UNKNOWN'],
    ['demo.kwarg', { text: 'x', map: { __kwarg__: true } }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x', map: { a: [{ __kwarg__: true }] } }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x', __kwarg__: true }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x', __pub_user: 'root' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x', tеxt: 'y' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: { __kwarg__: true, cmd: 'id' } }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: ['x', 'y'] }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'c\u00admd.run' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x\nrunas: root' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x', 'cmd.run': 'id' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'x', runas: 'root' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: '-x' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: 'salt://x?saltenv=base' }, 'ERR_COMMAND_PARAMETERS'],
    ['demo.kwarg', { text: '__slot__:salt:cmd.run(id)' }, 'ERR_COMMAND_PARAMETERS'],
  ];
  for (const [name, params, code] of refused) {
    await t.throwsAsync(bridge.run(name, { target: 'salt-*', params }), { code });
  }
  t.is((await master.api.jobs.list()).length, before);
});

step('a secret reaches only its minion, and no job, event or other minion', async (t) => {
  const end = new AbortController();
  const texts: string[] = [];
  const events = await master.api.events.subscribe({}, end.signal);
  const following = (async () => {
    for await (const event of events) texts.push(JSON.stringify(event));
  })();
  const [first, ...others] = fleet.minions;
  const target = first?.id ?? '';
  const run = await bridge.run('demo.write', { target, params: { password } });
  const outcome = await run.outcome;
  t.is(outcome.status, 'succeeded', JSON.stringify(outcome.results[0]?.reason));
  const file = path.join(home.directory, `${target}.secret`);
  t.is(readFileSync(file, 'utf8').trimEnd(), password);
  end.abort();
  await following;
  const kept = JSON.stringify(await master.api.jobs.show(run.id));
  const secret = JSON.stringify(password).slice(1, -1);
  t.true(texts.some((text) => text.includes('saltbridge_secrets')));
  t.false(texts.some((text) => text.includes(secret)));
  t.false(kept.includes(secret));
  for (const { id } of others) {
    const pillar = await master.api.pillar.show({ minion: id });
    t.false(JSON.stringify(pillar).includes(secret));
  }
});

/** Converts Salt's maps, which have no prototype, to plain objects. */
function asPlain(value: unknown): object {
  return JSON.parse(JSON.stringify(value));
}

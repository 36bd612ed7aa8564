/**
 * Values that real minions interpret. They do so if an operator provides the values, and no one
 * else can provide them.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { allow } from '#acl';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition, CommandTypes } from '#heat-bridge';
import { findInterpretedText, type WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');

const commands: readonly CommandDefinition[] = [
  {
    name: 'demo.note',
    description: 'Shows a text.',
    state: 'note',
    reviewed: 'made for this test alone: it writes the text with yaml_encode and runs nothing',
    parameters: {
      type: 'object',
      required: ['text'],
      properties: {
        text: { type: 'string', 'x-quoted-by-template': true },
        map: {
          type: 'object',
          additionalProperties: { type: 'string', 'x-quoted-by-template': true },
        },
      },
    },
  },
];

const noteSls = `
note:
  test.nop:
    - text: {{ pillar['text'] | yaml_encode }}
`;
const casesSls = `
{% for value in pillar['values'] %}
value-{{ loop.index }}:
  test.nop:
    - value: {{ value | json }}
{% endfor %}
{% for text in pillar['texts'] %}
text-{{ loop.index }}:
  test.nop:
    - value: {{ text }}
{% endfor %}
`;

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let bridge: Bridge<CommandTypes>;

test.before(async () => {
  if (minionPrograms.length === 0) return;
  const place = await MasterHome.create();
  const roots = path.join(place.directory, 'files');
  mkdirSync(roots);
  writeFileSync(path.join(roots, 'note.sls'), noteSls);
  writeFileSync(path.join(roots, 'cases.sls'), casesSls);
  const rules = [
    allow('demo', {
      subject: { service: 'bridge' },
      action: 'command',
      resource: { fun: 'demo.*', within: 'salt-*' },
    }),
    allow('guests', {
      subject: { minion: '*' },
      action: 'runner',
      resource: { fun: 'saltbridge_*' },
    }),
  ];
  home = place.with({ acl: { signals: [], rules }, fileRoots: { base: [roots] } });
  fleet = await Fleet.create(home.ports);
  bridge = createBridge({ commands, extensions: { 'data-spaces': true } });
  master = await home.startHere(null, { extensions: [bridge] });
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

/** Returns a slot that creates a file. The file name begins with the id of the minion. */
function slotFor(id: string, name: string): string {
  return `__slot__:salt:file.touch(${home.directory}/${id}-${name})`;
}

function isTouched(id: string, name: string): boolean {
  return existsSync(path.join(home.directory, `${id}-${name}`));
}

async function run(
  id: string,
  fun: string,
  arg: readonly string[],
  kwarg: Readonly<Record<string, WireValue>>,
): Promise<WireValue> {
  const request = { tgt: id, tgtType: 'list', fun, arg, kwarg, timeoutSeconds: 120 };
  for await (const update of master.api.jobs.run(request)) {
    if (update.type === 'return') return update.return;
  }
  throw new Error(`${id} did not return from ${fun}`);
}

/** Places in a state where a slot can be a value. */
const values: readonly ((slot: string) => WireValue)[] = [
  (slot) => slot,
  (slot) => [slot],
  (slot) => ({ a: slot }),
  (slot) => [{ a: slot }],
  (slot) => ({ a: [slot] }),
  (slot) => [[slot]],
  (slot) => ({ [slot]: 'a' }),
  (slot) => ` ${slot}`,
  (slot) => `a ${slot}`,
  (slot) => slot.replace('__slot__', '__SLOT__'),
];
/** Texts that a template writes without quotes. */
const texts: readonly ((slot: string) => string)[] = [
  (slot) => slot,
  (slot) => `  ${slot}`,
  (slot) => `"${slot}"`,
  (slot) => `'${slot}'`,
  (slot) => `[${slot}]`,
  (slot) => `a\n    - b: ${slot}`,
];

step('each slot that a real minion runs is found, by the rule for its destination', async (t) => {
  for (const { id } of fleet.minions) {
    const pillar = {
      values: values.map((make, index) => make(slotFor(id, `value-${index}`))),
      texts: texts.map((make, index) => make(slotFor(id, `text-${index}`))),
    };
    const result = writeJson(await run(id, 'state.apply', ['cases'], { pillar }));
    t.true(isTouched(id, 'value-0'), result);
    t.true(isTouched(id, 'text-2'), result);
    for (const [index, value] of pillar.values.entries()) {
      if (!isTouched(id, `value-${index}`)) continue;
      t.truthy(findInterpretedText(value, 'argument'), writeJson(value));
    }
    for (const value of [...pillar.values, ...pillar.texts]) {
      t.truthy(findInterpretedText(value), writeJson(value));
    }
  }
});

step('a slot as a parameter of a command runs on no minion', async (t) => {
  for (const { id } of fleet.minions) {
    const slot = slotFor(id, 'parameter');
    for (const params of [{ text: slot }, { text: 'a', map: { a: slot } }]) {
      await t.throwsAsync(bridge.run('demo.note', { target: id, params }), {
        code: 'ERR_COMMAND_PARAMETERS',
        message: /(?:text|map\.a): must not contain __slot__:/,
      });
    }
    const text = 'plain "text"';
    const { outcome } = await bridge.run('demo.note', { target: id, params: { text } });
    t.is((await outcome).status, 'succeeded');
    t.false(isTouched(id, 'parameter'));
  }
});

step('a slot that a guest writes reaches no other guest', async (t) => {
  const [writer = '', reader = writer] = fleet.ids;
  await bridge.data.add({
    name: 'shop',
    roles: {
      db: { minions: [writer], writes: { address: {} } },
      app: { minions: writer === reader ? [] : [reader], reads: { address: 'db/address' } },
    },
  });
  await run(writer, 'saltutil.sync_all', [], {});
  const slot = slotFor(reader, 'value');
  const put = await run(writer, 'saltbridge_data.put', ['db/address'], { value: slot });
  t.regex(writeJson(put), /the value must not contain __slot__:/);
  const found = await bridge.data.show('shop');
  t.false(writeJson(JSON.parse(JSON.stringify(found))).includes('__slot__'));
});

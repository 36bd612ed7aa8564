/**
 * A plan on real minions: results of one minion are passed to others, and steps are undone after a
 * failure.
 */
import test from 'ava';
import { allow } from '#acl';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition, CommandTypes, PlanDefinition, PlanTypes } from '#heat-bridge';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { steps } from './programs.ts';

const step = steps('SALT_MINION');
const reviewed = 'made for this test alone: it changes nothing';

const commands: readonly CommandDefinition[] = [
  {
    name: 'demo.who',
    description: 'Says who it is.',
    function: 'grains.get',
    reviewed,
    arguments: { key: { value: 'id' } },
    returns: { type: 'string' },
  },
  {
    name: 'demo.tell',
    description: 'Says what it was given.',
    function: 'test.kwarg',
    parameters: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
  },
  {
    name: 'demo.assert',
    description: 'Fails unless it is given true.',
    function: 'test.assertion',
    reviewed,
    parameters: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
    arguments: { assertion: { parameter: 'ok' } },
  },
];

const who = { step: 'who', path: '' };
const plan: PlanDefinition = {
  name: 'demo.in-turn',
  description: 'Asks one minion who it is, and tells that to the others, one after the other.',
  parameters: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
  groups: {
    all: {},
    first: { from: 'all', select: 'first' },
    others: { from: 'all', select: 'rest' },
  },
  steps: {
    who: { command: 'demo.who', group: 'first' },
    tell: {
      command: 'demo.tell',
      group: 'all',
      needs: ['who'],
      params: { text: who },
      batchSize: 1,
      undo: { command: 'demo.tell', params: { text: who } },
    },
    check: { command: 'demo.assert', group: 'others', needs: ['tell'] },
    end: { command: 'demo.assert', group: 'first', needs: ['tell'] },
  },
};

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let bridge: Bridge<CommandTypes, PlanTypes>;

test.before(async () => {
  if (process.env.SALT_MINION === undefined) return;
  const rule = allow('demo', {
    subject: { service: 'bridge' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'salt-*' },
  });
  home = await MasterHome.create({ acl: { signals: [], rules: [rule] } });
  fleet = await Fleet.create(home.ports);
  bridge = createBridge({ commands, plans: [plan] });
  master = await home.startHere(null, { extensions: [bridge] });
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('a plan runs on real minions in sequence, with the result of the first', async (t) => {
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
  const ids = fleet.minions.map(({ id }) => id).sort();
  for (const ok of [true, false]) {
    const request = { groups: { all: 'salt-*' }, params: { ok } };
    const {
      status,
      steps: done,
      undone,
    } = await (await bridge.plan('demo.in-turn', request)).outcome;
    t.is(status, ok ? 'succeeded' : 'failed', JSON.stringify(done));
    const tell = done.find((it) => it.step === 'tell');
    t.deepEqual(
      tell?.results.map((it) => [it.minion, textOf(it.return)]),
      ids.map((id) => [id, ids[0]]),
    );
    t.is(tell?.runs.length, ids.length);
    t.deepEqual(
      undone.map((it) => [it.step, it.status, it.results.length]),
      ok ? [] : [['tell', 'succeeded', ids.length]],
    );
  }
});

function textOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'text' in value ? value.text : undefined;
}

/** Orchestrations with real minions of all versions. */
import path from 'node:path';
import test from 'ava';
import { isWireMap, type WireMap } from '#minion-protocol';
import { layOut } from '../helpers/file-tree.ts';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let events: EventLog;

const deploy = `
include: [end]
pings:
  salt.function: [{name: test.ping}, {tgt: '*'}, {expect_minions: true}]
fails:
  salt.function: [{name: test.retcode}, {tgt: '*'}, {arg: [7]}, {require: [{salt: pings}]}]
raises:
  salt.function: [{name: test.exception}, {tgt: '*'}]
changes:
  salt.state:
    - tgt: 'role:interop'
    - tgt_type: grain
    - sls: app
    - pillar: {word: {{ pillar.word | json }}}
    - require: [{salt: pings}]
breaks:
  salt.state: [{tgt: '*'}, {sls: broken}, {batch: 50%}]
rescued:
  salt.function: [{name: test.ping}, {tgt: '*'}, {onfail: [{salt: breaks}]}]
hears:
  salt.wait_for_event:
    - name: salt/job/*/ret/*
    - id_list: {{ pillar.ids | json }}
    - parallel: true
    - order: 1
`;

test.before(async () => {
  if (minionPrograms.length === 0) return;
  const made = await MasterHome.create();
  const roots = path.join(made.directory, 'srv');
  layOut(roots, {
    'deploy.sls': deploy,
    'end.sls': 'end:\n  test.nop: [{order: last}]\n',
    'app.sls': 'app:\n  test.succeed_with_changes: [{comment: {{ pillar.word }}}]\n',
    'broken.sls': 'broken: test.fail_without_changes\n',
  });
  home = made.with({ fileRoots: { base: [roots] } });
  fleet = await Fleet.create(home.ports);
  master = await home.startHere(null);
  events = new EventLog(await master.api.events.subscribe());
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

step('an orchestration acts on real minions, and reports its failed states', async (t) => {
  await fleet.enrol(master.api, events);
  const kwarg = { pillar: { word: 'salt', ids: [...fleet.ids] } };
  const call = { fun: 'state.orchestrate', arg: ['deploy'], kwarg };
  const { return: value, success } = await master.api.runners.run(call);
  t.false(success);
  const states = statesOf(value);
  t.deepEqual(Object.fromEntries([...states].map(([id, { result }]) => [id, result])), {
    hears: true,
    pings: true,
    fails: false,
    raises: false,
    changes: true,
    breaks: false,
    rescued: true,
    end: true,
  });
  const changed = states.get('changes')?.changes;
  const returned = isWireMap(changed) ? changed.ret : undefined;
  t.deepEqual(Object.keys(isWireMap(returned) ? returned : {}).sort(), [...fleet.ids]);
  t.regex(JSON.stringify(returned), /"comment":"salt"/);
});

function statesOf(value: unknown): ReadonlyMap<string, WireMap> {
  const result = value as {
    readonly data: Readonly<Record<string, Readonly<Record<string, WireMap>>>>;
  };
  const [running = {}] = Object.values(result.data);
  return new Map(
    Object.entries(running).map(([tag, state]) => [tag.split('_|-')[1] ?? tag, state]),
  );
}

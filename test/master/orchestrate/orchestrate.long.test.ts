/** Orchestrations in a running master: limits, owners, and how they end. */

import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '#config';
import type { AuditRequester, Master } from '#master';
import { emptyWireMap, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { auditRecords } from '../../helpers/audit-records.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import {
  callOf,
  comparable,
  comparableTold,
  type RecordedCase,
  recorded,
  startRecorded,
} from './recorded.ts';

interface Stage {
  readonly master: Master;
  /** Runs `state.orchestrate`. */
  readonly orchestrate: (mods: WireValue, kwarg?: WireMap) => Promise<Ran>;
}

/** Result of an orchestration. */
interface Ran {
  readonly success: boolean;
  /** Results of states by id, errors in the SLS files, or the reason of a failure. */
  readonly states: Readonly<Record<string, WireMap>>;
  readonly value: WireValue;
}

async function start(
  t: ExecutionContext,
  files: FileTree,
  config: Partial<MasterOptions> = {},
): Promise<Stage> {
  const { master } = await startVectorMaster(t, { config: { ...withFiles(t, files), ...config } });
  const orchestrate: Stage['orchestrate'] = async (mods, kwarg = {}) => {
    const call = { fun: 'state.orchestrate', arg: [mods], kwarg };
    const { return: value, success } = await master.runners.run(call);
    return { success, value, states: statesOf(value) };
  };
  return { master, orchestrate };
}

function withFiles(t: ExecutionContext, files: FileTree): Partial<MasterOptions> {
  const directory = temporaryDirectory(t);
  layOut(directory, files);
  const fileRoots = { base: [path.join(directory, 'srv')] };
  return { id: 'north_master', fileRoots, pillarRoots: { base: [] } };
}

function statesOf(value: WireValue): Record<string, WireMap> {
  const data = isWireMap(value) ? value.data : undefined;
  const running = isWireMap(data) ? data.north_master : undefined;
  if (!isWireMap(running)) return {};
  return Object.fromEntries(
    Object.entries(running).map(([tag, state]) => [
      tag.split('_|-')[1] ?? tag,
      isWireMap(state) ? state : {},
    ]),
  );
}

const nop = 'one: test.nop\n';

test('a file outside file_roots is not an SLS, whatever its name', async (t) => {
  const { orchestrate } = await start(t, { 'srv/site.sls': nop, 'other.sls': nop });
  t.true((await orchestrate('site')).success);
  for (const mods of ['../other', '..other', '.../other', '/../other', 'srv/../../other']) {
    const { success, value } = await orchestrate([mods]);
    t.false(success, mods);
    t.regex(JSON.stringify(value), /No matching sls found|not available/, mods);
  }
  const include = `include: ['../other', '/../other', '..other']\n${nop}`;
  const { orchestrate: other } = await start(t, { 'srv/site.sls': include, 'other.sls': nop });
  t.false((await other('site')).success);
});

test('pillar of the caller is data, and not a template', async (t) => {
  const { orchestrate } = await start(t, {
    'srv/site.sls': 'told:\n  test.show_notification:\n    - text: {{ pillar.word | json }}\n',
  });
  const word = '{{ 6 * 7 }}\n    - name: other';
  const { states } = await orchestrate('site', { pillar: { word } });
  t.like(states.told, { comment: word, name: 'told' });
});

test('text of a restricted user is a value, however a file uses it', async (t) => {
  const { master } = await start(t, {
    'srv/site.sls': `
plain:
  test.show_notification:
    - text: {{ pillar.word }}
quoted:
  test.show_notification:
    - text: "{{ pillar.word }}"
as json:
  test.show_notification:
    - text: {{ pillar.word | json }}
within:
  test.show_notification:
    - text: say {{ pillar.word }}!
{% set printed %}{{ pillar.kind }}{% endset %}
compared:
  test.show_notification:
    - text: {{ 'equal' if printed == 'web' else 'other' }}
map:
  salt.runner:
    - name: test.arg
    - given: {{ pillar | json }}
    - own: {{ {'a': [1, 'b c']} | json }}
    - number: {{ pillar.number }}
`,
  });
  const word = 'a: b\n    - name: other # "\' {{ 7 }}';
  const run = async (by?: AuditRequester): Promise<Record<string, WireMap>> => {
    const kwarg = { pillar: { word, number: 7, kind: 'web' } };
    const call = { fun: 'state.orchestrate', arg: ['site'], kwarg, ...(by && { by }) };
    return statesOf((await master.runners.run(call)).return);
  };
  const states = await run({ who: { kind: 'service', name: 'reaction:x' }, rule: 'x' });
  t.like(states.plain, { comment: word, name: 'plain', result: true });
  t.like(states.quoted, { comment: word });
  t.like(states['as json'], { comment: word });
  t.like(states.compared, { comment: 'equal' });
  t.like(states.within, { comment: `say ${word}!` });
  const given = { word, number: 7, kind: 'web' };
  const kwargs = { given, own: { a: [1, 'b c'] }, number: 7 };
  t.like(states.map, { changes: { return: { args: [], kwargs } } });
  // As in Salt, text of the operator is part of the file.
  t.deepEqual(await run(), {});
});

test('the states of an orchestration and concurrent orchestrations are limited', async (t) => {
  const { orchestrate } = await start(
    t,
    {
      'srv/many.sls': '{% for n in range(11) %}\ns{{ n }}: test.nop\n{% endfor %}\n',
      'srv/few.sls': nop,
      'srv/itself.sls': 'again:\n  salt.runner: [{name: state.orch}, {mods: itself}]\n',
    },
    { limits: { orchestrationStates: 10, orchestrations: 3 } },
  );
  t.true((await orchestrate('few')).success);
  const { success, value } = await orchestrate('many');
  t.false(success);
  t.regex(String(value), /has 11 states, the maximum is 10/);
  const itself = await orchestrate('itself');
  t.false(itself.success);
  const told = JSON.stringify(itself.value);
  t.regex(told, /3 orchestrations are already running/);
  t.is(told.match(/salt_\|-again/g)?.length, 3);
});

test('endless includes and too many SLS are refused', async (t) => {
  const deep = "include: ['d{{ sls[1:] | int + 1 }}']\n";
  const files = Object.fromEntries(
    Array.from({ length: 60 }, (_, n) => [`srv/d${n}.sls`, deep] as const),
  );
  const { orchestrate } = await start(t, {
    ...files,
    'srv/a.sls': 'include: [b]\na: test.nop\n',
    'srv/b.sls': 'include: [a]\nb: test.nop\n',
  });
  t.regex(String((await orchestrate('d0')).value), /includes nested more than 50 deep/);
  t.deepEqual(Object.keys((await orchestrate('a')).states), ['b', 'a']);
});

test('long lists of SLS are refused before their names are resolved', async (t) => {
  const { orchestrate } = await start(t, { 'srv/site.sls': nop });
  const names = (count: number): string[] => Array.from({ length: count }, () => 'site');
  for (const mods of [names(1000), names(1000).join()]) t.true((await orchestrate(mods)).success);
  const refusal = /`mods` and `exclude` may have at most 1000 names each/;
  for (const mods of [names(1001), names(1001).join(), names(10_001).join()]) {
    t.regex(String((await orchestrate(mods)).value), refusal);
  }
  t.regex(String((await orchestrate('site', { exclude: names(1001) })).value), refusal);
});

test('an orchestration ends at its deadline', async (t) => {
  const { orchestrate } = await start(
    t,
    { 'srv/site.sls': 'waits:\n  salt.wait_for_event: [{name: never}, {id_list: [x]}]\n' },
    { limits: { orchestrationSeconds: 1 } },
  );
  t.regex(String((await orchestrate('site')).value), /time limit of 1 s/);
});

test('an event whose id is a map does not end salt.wait_for_event', async (t) => {
  const { master, orchestrate } = await start(t, {
    'srv/site.sls': 'waits:\n  salt.wait_for_event: [{name: go/on}, {id_list: [x]}]\n',
  });
  let isRunning = true;
  const running = orchestrate('site').finally(() => {
    isRunning = false;
  });
  while (isRunning) {
    await master.events.fire('go/on', { id: emptyWireMap() });
    await master.events.fire('go/on', { id: [emptyWireMap(), 'x'] });
    await nextTurn();
  }
  const [waited] = Object.values((await running).states);
  t.like(waited, { result: true, changes: { minions_seen: ['x'] } });
});

test('an orchestration ends with its master', async (t) => {
  const { master, orchestrate } = await start(t, {
    'srv/site.sls':
      'first:\n  salt.runner: [{name: test.stdout_print}]\nwaits:\n  salt.wait_for_event: [{name: never}, {id_list: [x]}]\nafter: test.nop\n',
  });
  const events = (await master.events.subscribe({ match: 'salt/run/*/args' }))[
    Symbol.asyncIterator
  ]();
  const running = orchestrate('site');
  await events.next();
  await master.close();
  t.regex(String((await running).value), /the master is closing/);
});

test('calls of an orchestration are reported and audited as those of its caller', async (t) => {
  const fleet = await startFleet(t, {
    ids: ['m1'],
    config: withFiles(t, {
      'srv/site.sls': [
        'pings:\n  salt.function: [{name: test.ping}, {tgt: m1}]',
        'lists:\n  salt.runner: [{name: jobs.list_jobs}]',
        'keys:\n  salt.wheel: [{name: key.list_all}]\n',
      ].join('\n'),
    }),
  });
  const by = { who: { kind: 'user', name: 'fred', eauth: 'pam' }, rule: 'orchestrates' } as const;
  const call = { fun: 'state.orchestrate', arg: ['site'], user: 'fred', by };
  t.true((await fleet.master.runners.run(call)).success);
  const records = await auditRecords(fleet);
  const begun = records.filter(({ rule }) => rule === 'orchestrates');
  t.deepEqual(begun.map(({ action, what }) => [action, what]).sort(), [
    ['job.publish', 'test.ping'],
    ['runner.run', 'runner.jobs.list_jobs'],
    ['runner.run', 'runner.state.orchestrate'],
    ['wheel.run', 'wheel.key.list_all'],
  ]);
  t.true(begun.every(({ who }) => who.name === 'fred'));
});

test('soft_kill ends an orchestration before a state, and waits for running ones', async (t) => {
  const { master } = await start(t, {
    'srv/site.sls': [
      'first: {salt.runner: [{name: test.sleep}, {arg: [1]}]}',
      'second: test.nop',
      'third: test.nop\n',
    ].join('\n'),
  });
  for (const [stateId, expected] of [
    [undefined, ['first']],
    ['third', ['first', 'second']],
  ] as const) {
    const events = (await master.events.subscribe({ match: 'salt/run/*/args' }))[
      Symbol.asyncIterator
    ]();
    const call = { fun: 'state.orchestrate', arg: ['site'] };
    const running = master.runners.run(call);
    const { value: event } = await events.next();
    const jid = String(event?.tag).split('/')[2] ?? '';
    const kwarg = stateId === undefined ? { jid } : { jid, state_id: stateId };
    t.true((await master.runners.run({ fun: 'state.soft_kill', kwarg })).success);
    t.deepEqual(Object.keys(statesOf((await running).return)), [...expected]);
  }
  const none = { fun: 'state.soft_kill', arg: ['20240102030405123456'] };
  t.regex(String((await master.runners.run(none)).return), /no orchestration with the jid 2024/);
});

const userCall = (name: string, eauth = 'file') => ({
  user: name,
  by: { who: { kind: 'user', name, eauth }, rule: 'x' } as const,
});
const minionCall = (name: string) => ({
  user: name,
  by: { who: { kind: 'minion', name }, rule: 'x' } as const,
});
const reactionCall = (name: string) => ({
  user: name,
  by: { who: { kind: 'service', name }, rule: 'x' } as const,
});

test('a user can stop only its own orchestration, and leaves places to other users', async (t) => {
  const { master } = await start(
    t,
    {
      'srv/waits.sls': [
        'waits:\n  salt.wait_for_event: [{name: go/on}, {id_list: [x]}]',
        'last: test.nop\n',
      ].join('\n'),
      'srv/few.sls': nop,
    },
    { limits: { orchestrations: 4 } },
  );
  const jids: string[] = [];
  for (const caller of [userCall('ann'), userCall('ann'), reactionCall('cleanup')]) {
    const waits = { fun: 'state.orchestrate', arg: ['waits'], ...caller };
    jids.push((await master.runners.start(waits)).jid);
  }
  const few = (caller: object) =>
    master.runners.run({ fun: 'state.orchestrate', arg: ['few'], ...caller });
  t.regex(String((await few(userCall('ann'))).return), /reserved for other callers/);
  t.true((await few(userCall('bob'))).success);
  t.true((await few({})).success);
  t.true((await few(reactionCall('other'))).success);
  t.regex(String((await few(reactionCall('cleanup'))).return), /reserved for other callers/);
  const kill = async (caller: object): Promise<string> => {
    const call = { fun: 'state.soft_kill', kwarg: { jid: jids[0] ?? '' }, ...caller };
    return String((await master.runners.run(call)).return);
  };
  for (const other of [userCall('bob'), userCall('ann', 'ldap'), minionCall('ann')]) {
    t.regex(await kill(other), /belongs to another user/);
    t.true((await few(other)).success);
  }
  t.is(await kill(userCall('ann')), 'null');
  t.is(await kill({}), 'null');
});

test("no other caller can report under a stranger's orchestration", async (t) => {
  const { master } = await start(t, {
    'srv/outer.sls': 'waits:\n  salt.wait_for_event: [{name: go/on}, {id_list: [x]}]\n',
    'srv/inner.sls': 'shows:\n  salt.runner: [{name: test.stdout_print}]\n',
  });
  const { jid } = await master.runners.start({
    fun: 'state.orchestrate',
    arg: ['outer'],
    user: 'ann',
  });
  const told: string[] = [];
  const events = (await master.events.subscribe({ match: 'salt/run/*' }))[Symbol.asyncIterator]();
  for (const user of ['fred', 'ann']) {
    const kwarg = { orchestration_jid: jid };
    const inner = await master.runners.run({ fun: 'state.orch', arg: ['inner'], kwarg, user });
    for (;;) {
      const { value } = await events.next();
      if (value?.tag.endsWith('/args'))
        told.push(value.tag === `salt/run/${jid}/args` ? 'outer' : 'own');
      if (value?.tag === `salt/run/${inner.jid}/ret`) break;
    }
  }
  t.deepEqual(told, ['own', 'outer']);
  await master.events.fire('go/on', { id: 'x' });
});

test('runners run concurrently, and each reports its result', async (t) => {
  const { orchestrate } = await start(t, {
    'srv/site.sls': `
together:
  salt.parallel_runners:
    - runners:
        changes: [{name: state.orchestrate}, {kwarg: {mods: changes}}]
        calm: [{name: state.orchestrate}, {kwarg: {mods: calm}}]
values:
  salt.parallel_runners:
    - runners:
        test.stdout_print: []
        said: [{name: test.arg}, {kwarg: {one: 1}}]
one fails:
  salt.parallel_runners:
    - runners:
        calm: [{name: state.orchestrate}, {kwarg: {mods: calm}}]
        fails: [{name: state.orchestrate}, {kwarg: {mods: fails}}]
`,
    'srv/changes.sls': 'one: test.succeed_with_changes\n',
    'srv/calm.sls': 'one: test.nop\n',
    'srv/fails.sls': 'one: test.fail_without_changes\n',
  });
  const { states } = await orchestrate('site');
  const one = 'test_|-one_|-one_|-succeed_with_changes';
  const testing = { old: 'Unchanged', new: 'Something pretended to change' };
  t.like(states.together, {
    result: true,
    comment: 'All runner functions executed successfully.',
    changes: { changes: { north_master: { [one]: { testing } } } },
  });
  t.like(states.values, {
    result: true,
    changes: { ret: { 'test.stdout_print': 'bar', said: { args: [], kwargs: { one: 1 } } } },
  });
  t.like(states['one fails'], { result: false, comment: 'Runner fails failed.' });
});

test('only a state without its command, or with an unknown argument, fails', async (t) => {
  const { orchestrate } = await start(t, {
    'srv/site.sls': `
command:
  test.nop: [{onlyif: 'true'}]
no command:
  test.nop: [{unless: 'false'}]
file:
  test.nop: [{creates: /etc/hostname}]
strange:
  test.configurable_test_state: [{nonsense: 1}]
over ssh:
  salt.function: [{name: test.ping}, {tgt: '*'}, {ssh: true}]
module:
  file.managed: [{name: /etc/motd}]
after: test.nop
`,
  });
  const { states, success } = await orchestrate('site');
  t.false(success);
  const failed = Object.entries(states).filter(([, { result }]) => result === false);
  t.deepEqual(
    failed.map(([id]) => id),
    ['command', 'no command', 'file', 'strange', 'over ssh', 'module'],
  );
  t.like(states.after, { result: true });
  t.regex(String(states.command?.comment), /this master runs no shell commands/);
  t.regex(String(states.module?.comment), /'file\.managed' is not available/);
});

// Results of Salt for the same orchestrations; see test/fixtures/orchestrate/README.md.

/** Runs a case. Returns its result, and the arguments that are published meanwhile. */
async function play(
  master: Master,
  it: RecordedCase,
): Promise<{ readonly returned: unknown; readonly told: unknown }> {
  const end = new AbortController();
  const events = await master.events.subscribe({ match: 'salt/run/*' }, end.signal);
  const first = events[Symbol.asyncIterator]();
  const { jid, return: returned } = await master.runners.run(callOf(it));
  const told: unknown[] = [];
  for (;;) {
    const { value } = await first.next();
    if (value?.tag.endsWith('/args')) told.push(comparableTold(value.data));
    if (value === undefined || value.tag === `salt/run/${jid}/ret`) break;
  }
  end.abort();
  return { returned: comparable(returned), told };
}

test('orchestrations return and emit the same as in Salt', async (t) => {
  const master = await startRecorded(t);
  const ours: Record<string, unknown> = {};
  const salts: Record<string, unknown> = {};
  for (const it of recorded.cases) {
    ours[it.name] = await play(master, it);
    const told = (it.told ?? []).map(comparableTold);
    salts[it.name] = { returned: comparable(it.returned), told };
  }
  t.deepEqual(ours, salts);
});

test('the recorded orchestrations cover all features', (t) => {
  t.true(recorded.cases.length >= 60);
  t.true(recorded.answers.length >= 20);
});

test('requisites that form an endless cycle end the orchestration with an error', async (t) => {
  const { orchestrate } = await start(t, {
    'srv/site.sls': `
a:
  test.nop:
    - onfail_any: [b]
b:
  test.nop:
    - prereq_in: [gone]
    - require_any: [{test: a}]
c:
  test.nop:
    - watch: [{test: b}]
    - prereq_in: [{test: c}]
`,
  });
  const { success, value } = await orchestrate('site');
  t.false(success);
  t.regex(JSON.stringify(value), /the requisites of test_\|-\w_\|-\w_\|-nop form a cycle/);
});

test('each state of a cycle through prereq has a result', async (t) => {
  const { orchestrate } = await start(t, {
    'srv/site.sls': `
a:
  test.fail_with_changes: []
b:
  test.nop:
    - watch_in: {test: a}
    - prereq: [{test: a}]
`,
  });
  const { success, states } = await orchestrate('site');
  t.false(success);
  t.deepEqual(Object.keys(states).sort(), ['a', 'b']);
});

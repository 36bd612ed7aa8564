/** Functions of the master in orchestrations: in templates, `module.run` and `fail_function`. */

import test, { type ExecutionContext } from 'ava';
import { isWireMap, type WireMap } from '#minion-protocol';
import { layOut } from '../../helpers/file-tree.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Runs an SLS with two minions. Returns its states by id, or the errors. */
async function orchestrate(t: ExecutionContext, sls: string): Promise<Record<string, WireMap>> {
  const directory = temporaryDirectory(t);
  layOut(directory, { 'o.sls': sls, 'data.txt': 'text' });
  const { master } = await startFleet(t, {
    ids: ['m1', 'm2'],
    functions: { 'site.state': async () => ({ ok: true }), 'site.empty': async () => ({}) },
    config: { id: 'north_master', fileRoots: { base: [directory] }, pillarRoots: { base: [] } },
  });
  const { return: value } = await master.runners.run({ fun: 'state.orchestrate', arg: ['o'] });
  const states = Object(Object(Object(value).data).north_master);
  if (Array.isArray(states)) return { errors: { list: states } };
  const byId = Object.entries(states).map(([tag, state]) => [tag.split('_|-')[1], state]);
  return Object.fromEntries(byId);
}

test('a map instead of the names of SLS is refused with a reason', async (t) => {
  const { master } = await startFleet(t, { ids: [] });
  // Maps from the wire have no prototype, and so no text.
  const map: WireMap = Object.assign(Object.create(null), { a: 1 });
  for (const mods of [map, [map]]) {
    const { return: value, success } = await master.runners.run({ fun: 'state.sls', arg: [mods] });
    t.false(success);
    t.regex(String(value), /`mods` must be a name or a list of names/);
  }
});

test('templates of orchestrations call minions, runners and wheel functions', async (t) => {
  const states = await orchestrate(
    t,
    `
{% set pings = salt['saltutil.cmd']('m*', 'test.ping') %}
{% set one = salt['saltutil.cmd'](['m1'], 'test.echo', arg=[1.5], tgt_type='list') %}
{% set named = salt['saltutil.cmd']('m1,m9', 'test.ping', tgt_type='list') %}
{% set keys = salt['saltutil.wheel']('key.list_all') %}
{% do salt['log.info']('from a template') %}
minions: {test.show_notification: [{text: "{{ pings | sort | join(',') }} {{ pings.m1.ret }}"}]}
echo: {test.show_notification: [{text: "{{ one.m1.ret }} {{ one.m1.retcode }}"}]}
named: {test.show_notification: [{text: "{{ named.m1.ret }} {{ named.m9 }}"}]}
runner: {test.show_notification: [{text: "{{ salt.saltutil.runner('test.arg', arg=[1], kwarg={'a': 2}) }}"}]}
full: {test.show_notification: [{text: "{{ salt['saltutil.runner']('test.arg', full_return=True).success }}"}]}
wheel: {test.show_notification: [{text: "{{ keys.data.return.minions | join(',') }} {{ keys.tag[:11] }}"}]}
file: {test.show_notification: [{text: "{{ salt['cp.get_file_str']('salt://data.txt') }} {{ tplpath }}"}]}
`,
  );
  const texts = Object.entries(states).map(([id, { comment }]) => [id, comment]);
  t.deepEqual(Object.fromEntries(texts), {
    minions: 'm1,m2 True',
    echo: '1.5 0',
    named: "True {'failed': True}",
    runner: "{'args': [1], 'kwargs': {'a': 2}}",
    full: 'True',
    wheel: 'm1,m2 salt/wheel/',
    file: 'text o.sls',
  });
});

test('a failed call in a template is named with its reason', async (t) => {
  const reasons = [
    ["salt['saltutil.runner']('no.such')", /'no\.such' is not available/],
    [
      "salt['saltutil.runner']('net.find')",
      /net\.find .* does not serve: run the functions on minions/,
    ],
    [
      "salt['cmd.run']('id')",
      /cmd\.run is not served: templates of the master cannot run commands/,
    ],
    [
      "salt['saltutil.cmd']('*', 'test.ping', ssh=True)",
      /saltutil\.cmd does not support the argument ssh/,
    ],
  ] as const;
  for (const [call, reason] of reasons) {
    const { errors } = await orchestrate(t, `x: {test.nop: [{y: "{{ ${call} | default(1) }}"}]}`);
    t.regex(String(errors?.list), reason, call);
  }
});

test('module.run calls functions of the master, old style and new', async (t) => {
  const states = await orchestrate(
    t,
    `
new:
  module.run:
    - test.ping:
    - saltutil.cmd: [m1, test.ping]
    - test.echo: [{text: hi}]
old: {module.run: [{name: test.echo}, {text: x}]}
outside: {module.run: [{name: network.ip_in_subnet}, {ip_addr: 10.0.0.1}, {cidr: 11.0.0.0/8}]}
other: {module.run: [{pkg.install: [{name: vim}]}]}
`,
  );
  const { new: isNew, old, outside, other } = states;
  t.like(isNew, { result: true, comment: 'test.ping: True, saltutil.cmd: Success, test.echo: hi' });
  const changes = isWireMap(isNew?.changes) ? isNew.changes : {};
  t.like(changes, { 'test.ping': true, 'test.echo': 'hi' });
  t.like(Object(changes['saltutil.cmd']).m1, { ret: true, retcode: 0 });
  t.like(old, {
    result: true,
    changes: { ret: 'x' },
    comment: 'Module function test.echo executed',
  });
  t.like(outside, { result: false, changes: { ret: false } });
  t.is(other?.result, false);
  t.regex(String(other?.comment), /pkg\.install is not served on the master: it changes a machine/);
});

test('fail_function decides whether minions succeeded', async (t) => {
  const states = await orchestrate(
    t,
    `
good: {salt.function: [{name: site.state}, {tgt: 'm*'}, {fail_function: test.echo}]}
bad: {salt.function: [{name: site.empty}, {tgt: 'm*'}, {fail_function: test.echo}]}
may: {salt.function: [{name: site.empty}, {tgt: 'm*'}, {fail_function: test.echo}, {fail_minions: 'm1,m2'}]}
none: {salt.function: [{name: site.empty}, {tgt: 'm*'}, {fail_function: mine.own}]}
`,
  );
  t.like(states.good, { result: true, changes: { ret: { m1: { ok: true } } } });
  t.is(states.bad?.result, false);
  t.regex(
    String(states.bad?.comment),
    /Running function site\.empty failed on minions: m[12], m[12]/,
  );
  t.like(states.may, { result: true });
  t.is(states.none?.result, false);
  t.regex(
    String(states.none?.comment),
    /the master cannot run the function mine\.own in `fail_function`/,
  );
});

test('module.run of test.sleep runs in parallel with others, and refuses a length that is no number', async (t) => {
  const states = await orchestrate(
    t,
    `
one: {module.run: [{name: test.sleep}, {length: '1'}, {parallel: true}]}
two: {module.run: [{name: test.sleep}, {length: 0}, {parallel: true}]}
three: {module.run: [{name: test.sleep}, {length: x}]}
`,
  );
  t.like(states.one, { result: true, changes: { ret: true } });
  t.like(states.two, { result: true, changes: { ret: true } });
  t.like(states.three, { result: false });
  t.regex(String(states.three?.comment), /the argument `length` must be a number of seconds/);
});

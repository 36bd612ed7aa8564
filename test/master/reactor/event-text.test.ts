/** What events say is a value in the files of the reactor, whatever it looks like. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import type { Plan, PlannedCall } from '../../../master/reactor/reaction-planner.ts';
import type { WireMap } from '../../../minion-protocol/index.ts';
import { planFiles } from './plan-files.ts';

const tag = 'infra/deploy';

async function planOf(
  t: ExecutionContext,
  file: string,
  data: unknown,
  options: Parameters<typeof planFiles>[2] = {},
): Promise<Plan> {
  const { directory, plan } = await planFiles(t, { 'react.sls': file }, options);
  return plan(path.join(directory, 'react.sls'), eventOf(data));
}

function eventOf(data: unknown): Parameters<Awaited<ReturnType<typeof planFiles>>['plan']>[1] {
  return { tag, sender: 'jenkins1', data: undefined, body: { id: 'jenkins1', data } as WireMap };
}

function reasons({ refused }: Plan): string[] {
  return refused.map(({ reason }) => reason);
}

const hostile = [
  "x\n    - tgt: '*'",
  'x, fun: cmd.run',
  "'*'",
  '"',
  "\\'",
  '*',
  '&a',
  '!!python/object:os.system',
  '{a: b}',
  '[1, 2]',
  'a: b',
  'a # b',
  '{{ 7 * 7 }}',
  '{% raw %}',
  '\uE000x.0\uE001',
  ' x ',
  '=',
  '---',
  '%TAG',
  'a\u0085b\u2028c',
];

/** Each would be one value more if it were read as YAML in some of the places. */
const fitting = [
  'x\n          - y',
  "x'\n          - 'y",
  'x"\n          - "y',
  'x, y',
  'x]\n          - [y',
  'x}\n          - {v: y',
  'x"]\n          - ["y',
  'x"}\n          - {"v": "y',
  'x\n        more: 1',
];

const places: readonly string[] = [
  '- {{ data.data.v }}',
  "- '{{ data.data.v }}'",
  '- "{{ data.data.v }}"',
  '- [{{ data.data.v }}]',
  '- {v: {{ data.data.v }}}',
  '- {{ [data.data.v] }}',
  '- {{ {"v": data.data.v} }}',
  "- '{{ [data.data.v] }}'",
  '- {{ "%s" | format(data.data.v) }}',
  '- {% set v %}{{ data.data.v }}{% endset %}{{ v }}',
  '- {% macro m(v) %}{{ v }}{% endmacro %}{{ m(data.data.v) }}',
  '- {% call(v) wrap() %}{% endcall %}{{ data.data.v }}',
];

for (const place of places) {
  test(`an event cannot leave its place: ${place}`, (t) => staysInPlace(t, place));
}

for (const filter of ['json', 'yaml_dquote']) {
  test(`what the filter ${filter} has written stays in its place`, (t) =>
    staysInPlace(t, `- {{ data.data.v | ${filter} }}`));
}

async function staysInPlace(t: ExecutionContext, place: string): Promise<void> {
  const head = '{% macro wrap() %}{{ caller("x") }}{% endmacro %}\n';
  const file = `${head}tell:\n  local.test.arg:\n    - tgt: web1\n    - args:\n        values:\n          ${place}\n        after: 1\n`;
  const { directory, plan } = await planFiles(t, { 'react.sls': file });
  const check = async (v: string): Promise<void> => {
    const { calls } = await plan(path.join(directory, 'react.sls'), eventOf({ v }));
    // None at all is right too, for instance where a text begins with a dash.
    for (const call of calls) {
      t.like(call, { fun: 'test.arg', target: { tgt: 'web1' }, arg: [] });
      t.deepEqual(Object.keys(call.kwarg), ['values', 'after'], JSON.stringify(v));
      t.is(Array.isArray(call.kwarg.values) ? call.kwarg.values.length : 0, 1);
    }
  };
  for (const v of [...hostile, ...fitting]) await check(v);
  await fc.assert(fc.asyncProperty(fc.string({ unit: 'binary' }), check), { numRuns: 50 });
}

test('text of an event arrives as it was said', async (t) => {
  const file = 'tell:\n  local.test.arg:\n    - tgt: web1\n    - args: [{v: {{ data.data.v }}}]\n';
  const { directory, plan } = await planFiles(t, { 'react.sls': file });
  for (const v of hostile) {
    const { calls } = await plan(path.join(directory, 'react.sls'), eventOf({ v }));
    t.deepEqual(
      calls.map(({ kwarg }) => kwarg.v),
      v === '---' ? [] : [v],
    );
  }
});

test("the operator's own expressions stay what they are", async (t) => {
  const file =
    "{% set hosts = {'test': 'web* and not web9'} %}\nping:\n  local.test.ping:\n    - tgt: {{ hosts[data.data.env] }}\n    - tgt_type: compound\n";
  const { calls } = await planOf(t, file, { env: 'test' });
  t.like(calls[0], { target: { tgt: 'web* and not web9', tgtType: 'compound' } });
});

test('a target is no text of an event, except for ids in a list', async (t) => {
  const file = (type: string): string =>
    `ping:\n  local.test.ping:\n    - tgt: {{ data.data.tgt }}\n    - tgt_type: ${type}\n`;
  for (const tgt of ['*', 'web[0-9]', 'G@os:Debian or L@a', 'a,b']) {
    t.deepEqual(reasons(await planOf(t, file('glob'), { tgt })), ['pattern']);
    t.deepEqual(reasons(await planOf(t, file('compound'), { tgt })), ['pattern']);
  }
  const { calls } = await planOf(t, file('list'), { tgt: ['*', 'web1'] });
  t.like(calls[0], { target: { tgt: ['*', 'web1'], tgtType: 'list' } });
});

test('functions, and what keys are told by, are no text of an event', async (t) => {
  const fun = 'do:\n  local.{{ data.data.fun }}:\n    - tgt: web1\n';
  t.deepEqual(reasons(await planOf(t, fun, { fun: 'cmd.run ' })), ['pattern']);
  const forms = ['- match: {{ data.data.id }}', '- args: [{match: {{ data.data.id }}}]'];
  for (const form of forms) {
    const file = `accept:\n  wheel.key.accept:\n    ${form}\n`;
    t.deepEqual(reasons(await planOf(t, file, { id: '*' })), ['pattern']);
    t.is((await planOf(t, file, { id: 'web1.example.org' })).calls.length, 1);
  }
  const runner = 'up:\n  runner.manage.up:\n    - args: [{tgt: {{ data.data.id }}}]\n';
  t.deepEqual(reasons(await planOf(t, runner, { id: 'web*' })), ['pattern']);
});

test('text of an event becomes no keyword and no option of a program', async (t) => {
  const file = 'run:\n  local.cmd.run:\n    - tgt: web1\n    - arg: [{{ data.data.v }}]\n';
  t.deepEqual(reasons(await planOf(t, file, { v: 'runas=root' })), ['positional-text']);
  t.deepEqual(reasons(await planOf(t, file, { v: '--force' })), ['dash']);
  const named = "run:\n  local.cmd.run:\n    - tgt: web1\n    - arg: ['cwd={{ data.data.v }}']\n";
  const { calls } = await planOf(t, named, { v: '/srv/a b' });
  t.deepEqual(
    calls.map((call: PlannedCall) => [call.arg, call.kwarg]),
    [[[], { cwd: '/srv/a b' }]],
  );
});

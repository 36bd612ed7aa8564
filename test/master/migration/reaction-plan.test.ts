/** The rules that files of the reactor need, from what stands in them. */
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { checkMigration, type MigrationReport } from '../../../ops/index.ts';
import { configDirectory } from '../config/files.ts';

/** The report on a reactor with one file. */
async function checkFile(
  t: ExecutionContext,
  sls: string,
  more = '',
): Promise<MigrationReport['reactions']> {
  const root = configDirectory(t, { 'etc/.keep': '', 'reactor/a.sls': sls });
  const main = `root_dir: ${root}\npki_dir: pki\nfile_roots: {base: [${root}/reactor]}\npillar_roots: {}\n`;
  const reactor = `reactor: [{'my/*': ['salt://a.sls']}]\n`;
  const etc = configDirectory(t, { master: `${main}${reactor}${more}` });
  return (await checkMigration(etc)).reactions;
}

/** `action functions within`, and why others are not derived. */
async function plannedFor(
  t: ExecutionContext,
  sls: string,
  more?: string,
): Promise<readonly (readonly string[])[]> {
  const { rules, underivable } = await checkFile(t, sls, more);
  return [
    rules.map(({ action, functions, within }) =>
      [action, functions.join(','), within].filter((it) => it !== undefined).join(' '),
    ),
    underivable.map(({ reason }) => reason),
  ];
}

const derived: readonly (readonly [what: string, sls: string, rules: readonly string[]])[] = [
  [
    'a job with a literal target',
    "go:\n  local.state.apply:\n    - tgt: 'web*'\n    - args: [{mods: {{ data.mods }}}]\n",
    ['publish state.apply web*'],
  ],
  ['the older name', 'go:\n  cmd.test.ping:\n    - tgt: web1\n', ['publish test.ping web1']],
  [
    'functions in lists',
    "go:\n  local:\n    - test.ping\n    - tgt: '*'\n",
    ['publish test.ping *'],
  ],
  [
    'runners and wheel functions with values of the event',
    'a:\n  runner.state.orchestrate:\n    - args: [{mods: orch.up}, {pillar: {{ data | json }}}]\nb:\n  wheel.key.accept:\n    - match: {{ data.id }}\n',
    ['runner state.orchestrate', 'wheel key.accept'],
  ],
  [
    'each branch of a template, though an id stands in both',
    "{% if data.act == 'pend' %}\nk:\n  wheel.key.accept:\n    - match: a\n{% else %}\nk:\n  wheel.key.delete:\n    - match: a\n{%- endif %}\n",
    ['wheel key.accept,key.delete'],
  ],
  [
    'targets of every type that a rule can name',
    'a:\n  local.test.ping:\n    - tgt: [web1, web2]\n    - tgt_type: list\nb:\n  local.test.ping:\n    - tgt: web and not db\n    - tgt_type: compound\nc:\n  local.test.ping:\n    - tgt: east\n    - tgt_type: nodegroup\nd:\n  local.test.ping:\n    - tgt: web[0-9]+\n    - tgt_type: pcre\n',
    [
      'publish test.ping L@web1,web2',
      'publish test.ping web and not db',
      'publish test.ping N@east',
      'publish test.ping E@web[0-9]+',
    ],
  ],
  ['a comment of the template', '{# local.cmd.run: #}\n', []],
];

for (const [what, sls, rules] of derived) {
  test(`rules are derived of ${what}`, async (t) => {
    t.deepEqual(await plannedFor(t, sls), [rules, []]);
  });
}

const underivable: readonly (readonly [what: string, sls: string, reason: RegExp])[] = [
  [
    'a templated target',
    'go:\n  local.test.ping:\n    - tgt: {{ data.id }}\n',
    /^go: takes its target from a template$/,
  ],
  [
    'a target that is templated in part',
    "go:\n  local.test.ping:\n    - tgt: 'web-{{ data.n }}*'\n",
    /target from a template/,
  ],
  [
    'a target between branches on one line',
    'go:\n  local.test.ping:\n    - tgt: {% if data.x %}web1{% else %}*{% endif %}\n',
    /target from a template/,
  ],
  [
    'a target that branches choose',
    "go:\n  local.test.ping:\n{% if data.x %}\n    - tgt: web1\n{% else %}\n    - tgt: '*'\n{% endif %}\n",
    /target that a template chooses/,
  ],
  [
    'a templated function',
    'go:\n  local.{{ data.fun }}:\n    - tgt: web1\n',
    /function from a template|cannot be read/,
  ],
  [
    'a templated name of a function',
    'go:\n  runner.state.{{ data.fun }}:\n    - args: []\n',
    /function from a template/,
  ],
  ['a call that is wholly templated', '{{ data.calls }}\n', /cannot be read/],
  ['a file in Python', '#!py\ndef run():\n  return {}\n', /"py" is not served/],
  ['a part of another file', "{% include 'b.sls' %}\n", /other files/],
  [
    'a target by grains',
    "go:\n  local.test.ping:\n    - tgt: 'role:web'\n    - tgt_type: grain\n",
    /by grains, which give no right/,
  ],
  [
    'a nodegroup with grains',
    'go:\n  local.test.ping:\n    - tgt: west\n    - tgt_type: nodegroup\n',
    /by grains/,
  ],
  ['what this master does not serve', 'go:\n  caller.test.ping: []\n', /caller, which is not/],
];

for (const [what, sls, reason] of underivable) {
  test(`no rule is derived of ${what}, and the report says so`, async (t) => {
    const nodegroups = "nodegroups: {west: 'N@all and web*', all: 'G@os:Debian'}\n";
    const [rules, reasons] = await plannedFor(t, sls, nodegroups);
    t.deepEqual(rules, []);
    t.is(reasons?.length, 1);
    t.regex(reasons?.[0] ?? '', reason);
  });
}

test('a reactor file that is not there is told, and so is what is not derivable', async (t) => {
  const main = "reactor: [{'my/*': [/nonexistent/a.sls]}]\nfile_roots: {}\npillar_roots: {}\n";
  const etc = configDirectory(t, { master: main });
  const { findings, reactions } = await checkMigration(etc);
  t.deepEqual(reactions.underivable, [
    { reference: '/nonexistent/a.sls', file: '', reason: 'there is no such file' },
  ]);
  const found = findings.find(({ name }) => name === '/nonexistent/a.sls');
  t.like(found, { outcome: 'refused', file: path.join(etc, 'master'), line: 1 });
  const option = findings.find(({ name }) => name === 'reactor');
  t.regex(option?.meaning ?? '', /nothing without one/);
});

/** What a plan must say before anybody calls it. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import Type from '#typebox';
import {
  Catalog,
  createBridge,
  definePlan,
  loadCatalog,
  PlanCatalog,
} from '../../../heat-bridge/index.ts';
import { parseJsonPointer, valueAtPointer } from '../../../heat-bridge/plans/plan-catalog.ts';
import { parsePlanDefinition } from '../../../heat-bridge/plans/plan-definition.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { cluster, commands, user } from './cluster.ts';

const catalog = new Catalog([...commands, user]);
const { name, ...base } = cluster;
const { grant, status, follow, note } = base.steps;

function compile(body: object): PlanCatalog {
  return new PlanCatalog([parsePlanDefinition(name, body)], catalog);
}

const refused: readonly (readonly [why: string, body: object, named: RegExp])[] = [
  ['no steps', { ...base, steps: {} }, /steps/],
  ['an unknown field', { ...base, fun: 'x' }, /fun: no such field/],
  ['a function', steps({ grant: { ...grant, function: 'cmd.run' } }), /function: no such field/],
  ['a command nobody knows', steps({ grant: { ...grant, command: 'cmd.run' } }), /grant\.command/],
  [
    'a command nobody knows to take it back',
    steps({ grant: { ...grant, undo: { command: 'db.forget' } } }),
    /steps\.grant\.undo\.command: no command/,
  ],
  ['a group nobody knows', steps({ grant: { ...grant, group: 'slaves' } }), /no group slaves/],
  ['a step nobody knows', steps({ note: { ...note, needs: ['ready'] } }), /no step ready/],
  ['a circle', steps({ grant: { ...grant, needs: ['note'] } }), /in a circle/],
  ['a step that needs itself', steps({ note: { ...note, needs: ['note'] } }), /in a circle/],
  [
    'a parameter that the command does not have',
    steps({ note: { ...note, params: { user: 'user', cmd: 'user' } } }),
    /params\.cmd: db\.note has no such parameter/,
  ],
  [
    'a parameter that the plan does not have',
    steps({ note: { ...note, params: { user: 'host' } } }),
    /there is no parameter host/,
  ],
  ['a parameter that is missing', steps({ note: { ...note, params: {} } }), /user is missing/],
  [
    'a parameter that goes nowhere',
    { ...base, parameters: { type: 'object', properties: { user: {}, host: {} } } },
    /parameters\.host: no step has it/,
  ],
  [
    'a result of a step that is not needed',
    steps({ follow: { ...follow, needs: ['grant'] } }),
    /status is no step that is needed before/,
  ],
  [
    'a result that no schema promises',
    steps({ follow: withFile({ step: 'status', path: '/fil' }) }),
    /db\.status does not say in returns/,
  ],
  [
    'a result of a command without returns',
    steps({ follow: withFile({ step: 'grant', path: '' }) }),
    /db\.grant does not say in returns/,
  ],
  [
    'what is no pointer',
    steps({ follow: withFile({ step: 'status', path: 'file' }) }),
    /no JSON pointer/,
  ],
  [
    'a result of several minions',
    steps({ status: { ...status, group: 'replicas' } }),
    /may have several minions/,
  ],
  [
    'a template',
    steps({ note: { ...note, params: { user: { template: '{{ user }}' } } } }),
    /expected the name of a parameter/,
  ],
  ['a part of nothing', groups({ first: { select: 'first' } }), /both from and select/],
  [
    'a part of no group',
    groups({ first: { from: 'nodes', select: 'first' } }),
    /there is no group nodes/,
  ],
  [
    'a part of a part',
    groups({
      a: { from: 'replicas', select: 'rest' },
      b: { from: 'a', select: 'rest' },
    }),
    /itself part of a group/,
  ],
  ['a group of less than nothing', groups({ master: { min: 2, max: 1 } }), /larger than max/],
  ['a part that is none', steps({ note: { ...note, atATime: '0%' } }), /atATime/],
  [
    'a secret that another step tells',
    steps({
      user: { command: 'db.user', group: 'master', params: { password: 'user' } },
    }),
    /parameters\.user: it is secret in one command/,
  ],
];

function steps(more: object): object {
  return { ...base, steps: { ...base.steps, ...more } };
}

function groups(more: object): object {
  return { ...base, groups: { ...base.groups, ...more } };
}

function withFile(file: object): object {
  return { ...follow, params: { ...follow?.params, file } };
}

for (const [title, body, named] of refused) {
  test(`a plan is refused with ${title}`, (t) => {
    const error = t.throws(() => compile(body), { code: 'ERR_CATALOG' });
    t.regex(error?.message ?? '', named);
    t.true(error?.message.startsWith(name));
  });
}

test('a plan that says all it must is taken, its steps after what they need', (t) => {
  const [compiled] = compile(base).list();
  t.deepEqual(
    compiled?.steps.map((it) => it.name),
    ['grant', 'status', 'follow', 'note'],
  );
  t.throws(() => compile(base).get('db.drop-cluster'), { code: 'ERR_PLAN_UNKNOWN' });
});

const yaml = `
demo.echo:
  description: Gives back a text.
  function: test.echo
  parameters: {type: object, properties: {text: {type: string}}}
plans:
  demo.twice:
    description: Says it twice.
    parameters: {type: object, properties: {text: {type: string}}}
    groups: {all: {}}
    steps:
      one: {command: demo.echo, group: all}
      two: {command: demo.echo, group: all, needs: [one], params: {text: text}}
`;

test('files have plans beside commands, of any file and of the program', async (t) => {
  const directory = temporaryDirectory(t);
  const write = (file: string, content: string) =>
    writeFileSync(path.join(directory, file), content);
  write('a.yaml', yaml);
  write(
    'b.yaml',
    'plans: {demo.other: {description: x, groups: {all: {}}, steps: {one: {command: db.unfollow, group: all}}}}',
  );
  const known = await loadCatalog([directory], commands);
  t.deepEqual(known.findings, []);
  t.deepEqual(
    known.plans.map((it) => it.name),
    ['demo.twice', 'demo.other'],
  );
  const alone = await loadCatalog([directory]);
  t.deepEqual(
    alone.findings.map(({ file, problem }) => [path.basename(file), problem]),
    [['b.yaml', 'demo.other: steps.one.command: no command of this name is in the catalog']],
  );
});

test('a program has the types of its plans', async (t) => {
  const twice = definePlan('demo.twice', {
    description: 'x',
    parameters: Type.Object({ user: Type.String() }),
    groups: { all: {}, first: { from: 'all', select: 'first' } },
    steps: { one: { command: 'db.note', group: 'first' } },
  });
  const bridge = createBridge({ commands, plans: [twice] });
  const groups = { all: 'web*' };
  const closed = bridge.plan('demo.twice', { groups, params: { user: 'x' } });
  await t.throwsAsync(closed, { code: 'ERR_BRIDGE_NOT_OPEN' });
  // @ts-expect-error: no plan of this name
  await t.throwsAsync(bridge.plan('demo.thrice', { groups }));
  // @ts-expect-error: a text is expected
  await t.throwsAsync(bridge.plan('demo.twice', { groups, params: { user: 1 } }));
  // @ts-expect-error: a group is missing
  await t.throwsAsync(bridge.plan('demo.twice', { groups: {}, params: { user: 'x' } }));
});

test('a pointer leads where its keys do, whatever is in them', (t) => {
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 4 }), fc.jsonValue(), (keys, inner) => {
      const pointer = keys
        .map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`)
        .join('');
      const value = [...keys].reverse().reduce<unknown>((it, key) => ({ [key]: it }), inner);
      const found = valueAtPointer(value as never, parseJsonPointer(pointer) ?? ['no pointer']);
      return JSON.stringify(found) === JSON.stringify(inner);
    }),
  );
  t.deepEqual(
    ['a', '/~2', '~'].map((it) => parseJsonPointer(it)),
    [undefined, undefined, undefined],
  );
});

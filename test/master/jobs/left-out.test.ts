/** Targeted names without an accepted key appear in the result for each kind of caller. */

import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '#config';
import type { JobUpdate, Master } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { collect, startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const functions = {
  'test.ping': () => true,
  'state.sls': () => ({ 'test_|-ok_|-ok_|-nop': { result: true, changes: {}, name: 'ok' } }),
  'sys.list_functions': () => ['test.ping', 'state.sls'],
};

async function start(
  t: ExecutionContext,
  { ids = ['m1'], files = {}, config = {} }: Options = {},
): Promise<Master> {
  const directory = temporaryDirectory(t);
  layOut(directory, { 'srv/empty': '', ...files });
  const { master } = await startFleet(t, {
    ids,
    functions,
    config: {
      id: 'north_master',
      fileRoots: { base: [path.join(directory, 'srv')] },
      nodegroups: { both: 'L@m1,m9' },
      timeout: 2,
      gatherJobTimeout: 2,
      ...config,
    },
  });
  return master;
}

interface Options {
  readonly ids?: readonly string[];
  readonly files?: FileTree;
  readonly config?: Partial<MasterOptions>;
}

/** Steps of an orchestration with the result, changes and comment of Salt 3007.13. */
const steps: readonly {
  readonly id: string;
  readonly call: string;
  readonly right: readonly [result: boolean, changes: WireMap, comment: string];
}[] = [
  ...['tgt: "m1,m9", tgt_type: list', 'tgt: [m1, m9], tgt_type: list, expect_minions: false'].map(
    (target, index) => ({
      id: `list${index}`,
      call: `salt.state: {${target}, sls: good}`,
      right: [
        false,
        { out: 'highstate', ret: { m9: false } },
        'Run failed on minions: m9',
      ] as const,
    }),
  ),
  ...['tgt: "m1 or L@m9", tgt_type: compound', 'tgt: both, tgt_type: nodegroup'].map(
    (target, index) => ({
      id: `compound${index}`,
      call: `salt.state: {${target}, sls: good}`,
      right: [
        false,
        { out: 'highstate', ret: { m9: false } },
        'Run failed on minions: m9',
      ] as const,
    }),
  ),
  {
    id: 'may-fail',
    call: 'salt.state: {tgt: "m1,m9", tgt_type: list, sls: good, fail_minions: m9}',
    right: [
      true,
      { out: 'highstate', ret: { m9: false } },
      'States ran successfully. Updating m9. No changes made to m1.',
    ],
  },
  {
    id: 'one-may-fail',
    call: 'salt.state: {tgt: "m1,m9", tgt_type: list, sls: good, allow_fail: 1}',
    right: [
      true,
      { out: 'highstate', ret: { m9: false } },
      'States ran successfully. Updating m9. No changes made to m1.',
    ],
  },
  {
    id: 'alone',
    call: 'salt.state: {tgt: m9, tgt_type: list, sls: good}',
    right: [false, {}, 'No minions returned'],
  },
  {
    id: 'batch',
    call: 'salt.state: {tgt: "m1,m9", tgt_type: list, sls: good, batch: 1}',
    right: [true, {}, 'States ran successfully. No changes made to m1.'],
  },
  {
    id: 'subset',
    call: 'salt.state: {tgt: "m1,m9", tgt_type: list, sls: good, subset: 2}',
    right: [true, {}, 'States ran successfully. No changes made to m1.'],
  },
  {
    id: 'function',
    call: 'salt.function: {name: test.ping, tgt: "m1,m9", tgt_type: list}',
    right: [
      false,
      { ret: { m1: true, m9: false } },
      'Running function test.ping failed on minions: m9 Function test.ping ran on m1, m9.',
    ],
  },
  {
    id: 'function-may-fail',
    call: 'salt.function: {name: test.ping, tgt: both, tgt_type: nodegroup, fail_minions: [m9]}',
    right: [
      true,
      { ret: { m1: true, m9: false } },
      'Function ran successfully. Function test.ping ran on m1, m9.',
    ],
  },
  {
    id: 'function-subset',
    call: 'salt.function: {name: test.ping, tgt: "m1,m9", tgt_type: list, subset: 2}',
    right: [
      true,
      { ret: { m1: true } },
      'Function ran successfully. Function test.ping ran on m1.',
    ],
  },
];

/** Returns the results of an orchestration's states, by id. */
function statesOf(value: WireValue): Record<string, WireMap> {
  const data = isWireMap(value) && isWireMap(value.data) ? value.data.north_master : undefined;
  return Object.fromEntries(
    Object.entries(isWireMap(data) ? data : {}).map(([tag, state]) => [
      tag.split('_|-')[1] ?? tag,
      isWireMap(state) ? state : {},
    ]),
  );
}

test('an orchestration reports names without a key as Salt does', async (t) => {
  const sls = steps
    .map(({ id, call }) => {
      const [, fun = '', body = ''] = /^(\S+): \{(.*)\}$/.exec(call) ?? [];
      return `${id}:\n  ${fun}: [${body.replaceAll(/(\w+): ("[^"]*"|\[[^\]]*\]|[^,]+)/g, '{$1: $2}')}]\n`;
    })
    .join('');
  const master = await start(t, { files: { 'srv/all.sls': sls } });
  const ran = await master.runners.run({ fun: 'state.orchestrate', arg: ['all'] });
  const states = statesOf(ran.return);
  for (const { id, right } of steps) {
    const [result, changes, comment] = right;
    t.like(states[id], { result, changes, comment }, id);
  }
  t.deepEqual(states.batch?.warnings, ['Not in the batch, because they did not answer: m9']);
  const left = ['Not in the subset, because they have no accepted key: m9'];
  t.deepEqual(states.subset?.warnings, left);
  t.deepEqual(states['function-subset']?.warnings, left);
});

test('runners that ask minions report names without a key', async (t) => {
  const master = await start(t);
  const list = ['m1,m9', 'test.ping'];
  const execute = { fun: 'salt.execute', arg: list, kwarg: { tgt_type: 'list' } };
  t.deepEqual((await master.runners.run(execute)).return, { m1: true, m9: false });
  const survey = { fun: 'survey.hash', arg: ['L@m1,m9', 'test.ping'] };
  t.deepEqual((await master.runners.run(survey)).return, [
    { pool: ['m1'], result: 'True' },
    { pool: ['m9'], result: 'False' },
  ]);
  const status = { fun: 'manage.status', kwarg: { tgt: 'm1,m9', tgt_type: 'list' } };
  t.deepEqual((await master.runners.run(status)).return, { up: ['m1'], down: ['m9'] });
});

test('a job and a batch report names without a key as silent', async (t) => {
  const master = await start(t);
  const request = { tgt: ['m1', 'm9'], tgtType: 'list', fun: 'test.ping' };
  const updates: JobUpdate[] = await collect(master.jobs.run(request));
  t.like(updates.at(-1), { type: 'finished', answered: ['m1'], silent: ['m9'] });
  const jid = updates[0]?.jid ?? '';
  const { return: job } = await master.runners.run({ fun: 'jobs.list_job', arg: [jid] });
  t.like(job, { Minions: ['m1'], Missing: ['m9'] });
  const [gathered] = await collect(master.jobs.batch({ ...request, size: 1 }));
  t.like(gathered, { type: 'gathered', minions: ['m1'], silent: ['m9'] });
});

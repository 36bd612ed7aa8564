/**
 * Plans on minions: the order of steps, results of earlier steps as parameters, and undo after a
 * failure.
 */
import { once } from 'node:events';
import test, { type ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '#acl';
import { connectExtension } from '#client';
import { resolveMasterConfig } from '#config';
import type { PlanDefinition, PlanUpdate } from '#heat-bridge';
import type { CommandTarget } from '#heat-bridge/commands/command-request.ts';
import { readAuditLog } from '#master';
import type { MinionFunction } from '#minion-protocol';
import { collect } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories } from '../../helpers/vector-master.ts';
import { acl, type BridgeStage, type StageOptions, startBridge } from '../stage.ts';
import { cluster, commands, user } from './cluster.ts';

const may = (fun: string | readonly string[]): PolicyRule =>
  allow('databases', {
    subject: { service: 'bridge' },
    action: 'command',
    resource: { fun, within: 'web*' },
  });

const status = { file: 'bin.1', at: [7] };

function start(t: ExecutionContext, options: StageOptions = {}): Promise<BridgeStage> {
  return startBridge(t, {
    commands,
    plans: [cluster],
    ids: ['web1', 'web2', 'web3', 'db1'],
    rules: [may('db.*')],
    ...options,
    functions: { 'db.status': () => status, ...options.functions },
  });
}

const groups = { master: 'web1', replicas: ['web3', 'web2'] };
const request = { groups, params: { user: 'repl' } };

function asked({ seen }: BridgeStage): string[] {
  return seen.map(({ id, fun }) => `${id} ${fun}`);
}

const fails: MinionFunction = () => {
  throw new Error('here');
};

test('steps run in the order of their dependencies, with earlier results', async (t) => {
  const stage = await start(t);
  const handle = await stage.bridge.plan('db.create-cluster', request);
  t.deepEqual(handle.groups, { master: ['web1'], replicas: ['web3', 'web2'] });
  const outcome = await handle.outcome;
  t.is(outcome.status, 'succeeded');
  t.deepEqual(
    outcome.steps.map(({ step, command, results }) => [step, command, results.length]),
    [
      ['grant', 'db.grant', 1],
      ['status', 'db.status', 1],
      ['follow', 'db.follow', 2],
      ['note', 'db.note', 2],
    ],
  );
  t.deepEqual(outcome.undone, []);
  t.deepEqual(asked(stage).slice(0, 2), ['web1 db.grant', 'web1 db.status']);
  t.deepEqual(asked(stage).slice(2, 4).sort(), ['web2 db.follow', 'web3 db.follow']);
  t.deepEqual(stage.seen[2]?.kwargs, { user: 'repl', file: 'bin.1', at: 7 });
});

test('a plan reports each step with counts, from the beginning, to every reader', async (t) => {
  const { bridge } = await start(t);
  const handle = await bridge.plan('db.create-cluster', request);
  await handle.outcome;
  const told = await collect(handle.updates());
  const short = told.map((update) =>
    update.type === 'step'
      ? [
          update.step,
          update.state,
          update.minions.succeeded,
          update.minions.all,
          update.steps.ended,
        ]
      : [update.type],
  );
  t.deepEqual(short, [
    ['grant', 'running', 0, 1, 0],
    ['result'],
    ['grant', 'succeeded', 1, 1, 1],
    ['status', 'running', 0, 1, 1],
    ['result'],
    ['status', 'succeeded', 1, 1, 2],
    ['follow', 'running', 0, 2, 2],
    ['result'],
    ['result'],
    ['follow', 'succeeded', 2, 2, 3],
    ['note', 'running', 0, 2, 3],
    ['result'],
    ['result'],
    ['note', 'succeeded', 2, 2, 4],
    ['outcome'],
  ]);
});

test('after a failed step, the completed steps are undone in reverse order', async (t) => {
  const stage = await start(t, {
    functions: {
      'db.follow': (call, context) => (context.id === 'web2' ? fails(call, context) : true),
    },
  });
  const handle = await stage.bridge.plan('db.create-cluster', request);
  const outcome = await handle.outcome;
  t.deepEqual([outcome.status, outcome.failedStep], ['failed', 'follow']);
  t.deepEqual(
    outcome.steps.map((it) => it.status),
    ['succeeded', 'succeeded', 'failed', 'skipped'],
  );
  t.deepEqual(
    outcome.undone.map(({ step, command, status, results }) => [
      step,
      command,
      status,
      results.map(({ minion }) => minion),
    ]),
    [
      ['follow', 'db.unfollow', 'succeeded', ['web3']],
      ['grant', 'db.revoke', 'succeeded', ['web1']],
    ],
  );
  t.deepEqual(asked(stage).slice(-2), ['web3 db.unfollow', 'web1 db.revoke']);
});

test('a failed step is undone too if the plan says so, and a failed undo does not hide the cause', async (t) => {
  const { follow } = cluster.steps;
  const undo = { command: 'db.unfollow', failed: true };
  const plan = changed({ follow: { command: 'db.follow', group: 'replicas', ...follow, undo } });
  const stage = await start(t, {
    plans: [plan],
    functions: { 'db.follow': fails, 'db.unfollow': fails },
  });
  const outcome = await (await stage.bridge.plan('db.create-cluster', request)).outcome;
  t.deepEqual([outcome.status, outcome.failedStep], ['failed', 'follow']);
  t.deepEqual(
    outcome.undone.map(({ step, status, results }) => [step, status, results.length]),
    [
      ['follow', 'failed', 2],
      ['grant', 'succeeded', 1],
    ],
  );
});

function changed(
  steps: PlanDefinition['steps'],
  more: Partial<PlanDefinition> = {},
): PlanDefinition {
  return { ...cluster, ...more, steps: { ...cluster.steps, ...steps } };
}

test('an optional step that fails does not end the plan, and undoes nothing', async (t) => {
  const stage = await start(t, { functions: { 'db.note': fails } });
  const outcome = await (await stage.bridge.plan('db.create-cluster', request)).outcome;
  t.is(outcome.status, 'partial');
  t.deepEqual([outcome.steps[3]?.status, outcome.undone.length], ['failed', 0]);
});

test('a step runs on a batch of minions at a time, until too many have failed', async (t) => {
  const { note } = cluster.steps;
  const roll = (maxFailures: number) =>
    changed({
      note: { command: 'db.note', group: 'replicas', ...note, batchSize: 1, maxFailures },
    });
  const bad = { 'db.note': fails };
  const none = await start(t, { plans: [roll(0)], functions: bad });
  const outcome = await (await none.bridge.plan('db.create-cluster', request)).outcome;
  t.deepEqual(
    outcome.steps[3]?.results.map(({ minion }) => minion),
    ['web3'],
  );
  t.is(outcome.steps[3]?.status, 'failed');
  const all = await start(t, { plans: [roll(2)], functions: bad });
  const tolerated = await (await all.bridge.plan('db.create-cluster', request)).outcome;
  t.deepEqual([tolerated.status, tolerated.steps[3]?.runs.length], ['succeeded', 2]);
  t.deepEqual(asked(all).slice(-2), ['web3 db.note', 'web2 db.note']);
});

test('a group may be divided into its first minion and the rest', async (t) => {
  const plan: PlanDefinition = {
    ...cluster,
    groups: {
      nodes: {},
      master: { from: 'nodes', select: 'first' },
      replicas: { from: 'nodes', select: 'rest' },
    },
  };
  const { bridge } = await start(t, { plans: [plan] });
  const nodes = ['web2', 'web1', 'web3'];
  const handle = await bridge.plan('db.create-cluster', { ...request, groups: { nodes } });
  t.like(handle.groups, { master: ['web2'], replicas: ['web1', 'web3'] });
  t.is((await handle.outcome).status, 'succeeded');
  const alone = await bridge.plan('db.create-cluster', { ...request, groups: { nodes: 'web1' } });
  const { status: one, steps } = await alone.outcome;
  t.deepEqual([one, steps[2]?.results, steps[2]?.status], ['succeeded', [], 'succeeded']);
});

const refusals = [
  ['an unknown plan', 'db.drop-cluster', request, 'ERR_PLAN_UNKNOWN'],
  ['a command', 'db.grant', request, 'ERR_PLAN_UNKNOWN'],
  [
    'a parameter more',
    'db.create-cluster',
    { ...request, params: { user: 'x', cmd: 'id' } },
    'ERR_COMMAND_PARAMETERS',
  ],
  ['no parameters', 'db.create-cluster', { groups }, 'ERR_COMMAND_PARAMETERS'],
  [
    'a text that a command refuses',
    'db.create-cluster',
    { ...request, params: { user: '-x' } },
    'ERR_COMMAND_PARAMETERS',
  ],
  [
    'a group less',
    'db.create-cluster',
    { ...request, groups: { master: 'web1' } },
    'ERR_PLAN_GROUPS',
  ],
  [
    'a group more',
    'db.create-cluster',
    { ...request, groups: { ...groups, more: 'web1' } },
    'ERR_PLAN_GROUPS',
  ],
  [
    'a group that is too large',
    'db.create-cluster',
    { ...request, groups: { ...groups, master: ['web1', 'db1'] } },
    'ERR_PLAN_GROUPS',
  ],
  [
    'no minion with a matching id',
    'db.create-cluster',
    { ...request, groups: { ...groups, master: 'mail*' } },
    'ERR_COMMAND_DENIED',
  ],
  [
    'no minion of any kind',
    'db.create-cluster',
    { ...request, groups: { ...groups, master: 'mail*' }, caller: 'local' },
    'ERR_PLAN_GROUPS',
  ],
  [
    'an unknown minion',
    'db.create-cluster',
    { ...request, groups: { ...groups, replicas: ['web2', 'web9'] } },
    'ERR_PLAN_GROUPS',
  ],
  [
    'an unknown minion, in a list as text',
    'db.create-cluster',
    { ...request, groups: { ...groups, replicas: { tgt: 'web2,web9', tgtType: 'list' } } },
    'ERR_PLAN_GROUPS',
  ],
  [
    'an unknown minion, in an expression',
    'db.create-cluster',
    {
      ...request,
      groups: { ...groups, replicas: { tgt: 'web2 or L@web9', tgtType: 'compound' } },
      caller: 'local',
    },
    'ERR_PLAN_GROUPS',
  ],
  [
    'a minion in two groups',
    'db.create-cluster',
    { ...request, groups: { ...groups, replicas: 'web*' } },
    'ERR_PLAN_GROUPS',
  ],
  [
    'a minion beyond the grant',
    'db.create-cluster',
    { ...request, groups: { ...groups, master: 'db1' } },
    'ERR_COMMAND_DENIED',
  ],
  [
    'another caller',
    'db.create-cluster',
    { ...request, caller: { kind: 'service', name: 'sahara' } },
    'ERR_PLAN_UNKNOWN',
  ],
  [
    'an unknown token',
    'db.create-cluster',
    { ...request, caller: { token: 'f'.repeat(64) } },
    'ERR_EAUTH_TOKEN',
  ],
] as const;

test('a refused call never reaches a minion, and its code gives the reason', async (t) => {
  const { bridge, master, seen } = await start(t);
  for (const [title, name, asking, code] of refusals) {
    await t.throwsAsync(bridge.plan(name, asking), { code }, title);
  }
  t.deepEqual(seen, []);
  t.deepEqual(await master.jobs.list(), []);
});

test('a group means the minions that rules name for its commands, and does not reveal others', async (t) => {
  const large = { ...cluster, groups: { master: { max: 1 }, replicas: { min: 4 } } };
  const { bridge } = await start(t, { plans: [large] });
  const refusalOf = async (replicas: CommandTarget): Promise<string> => {
    const asked = { ...request, groups: { master: 'web1', replicas } };
    const error = await t.throwsAsync(bridge.plan('db.create-cluster', asked));
    return `${error?.name}: ${error?.message}`;
  };
  for (const tgt of ['web2 or web3', '* and not web1', 'web2 or web3 or db1 or G@id:db1']) {
    const refusal = await refusalOf({ tgt, tgtType: 'compound' });
    t.regex(refusal, /the group replicas matches 2 minions, but the plan requires 4 or more/, tgt);
  }
  const nobodyLeft = await Promise.all(['db1', 'mail1', 'db*', ['db1'], ['mail1']].map(refusalOf));
  t.is(new Set(nobodyLeft).size, 1);
  t.regex(nobodyLeft[0] ?? '', /no rule permits/);
  const lists = await Promise.all([refusalOf(['web2', 'db1']), refusalOf(['web2', 'mail1'])]);
  t.is(lists[0], lists[1]);
});

test('the first and the rest of a group may have different rules', async (t) => {
  const parts: PlanDefinition = {
    name: 'db.parts',
    description: 'x',
    parameters: { type: 'object', required: ['user'], properties: { user: { type: 'string' } } },
    groups: {
      all: {},
      one: { from: 'all', select: 'first' },
      others: { from: 'all', select: 'rest' },
    },
    steps: {
      grant: { command: 'db.grant', group: 'one' },
      note: { command: 'db.note', group: 'others' },
    },
  };
  const only = (fun: string, within: string): PolicyRule =>
    allow(fun, {
      subject: { service: 'bridge' },
      action: 'command',
      resource: { fun, within },
    });
  const rules = [only('db.grant', 'web1'), only('db.note', 'web*')];
  const { bridge } = await start(t, { plans: [parts], rules });
  const { params } = request;
  const handle = await bridge.plan('db.parts', { groups: { all: '*' }, params });
  t.deepEqual(handle.groups.all, ['web1', 'web2', 'web3']);
  await handle.outcome;
  const denied = { code: 'ERR_COMMAND_DENIED' };
  await t.throwsAsync(bridge.plan('db.parts', { groups: { all: 'db1' }, params }), denied);
  // The first command of this plan cannot be granted.
  await t.throwsAsync(bridge.plan('db.parts', { groups: { all: 'web[23]' }, params }), denied);
});

test('a secret of a step is not sent to targets selected by grains', async (t) => {
  const plan: PlanDefinition = {
    name: 'db.make-user',
    description: 'x',
    parameters: { type: 'object', properties: { password: { type: 'string' } } },
    groups: { all: {} },
    steps: { user: { command: 'db.user', group: 'all' } },
  };
  const { bridge } = await start(t, { commands: [user], plans: [plan] });
  const asking = (tgt: string, caller?: 'local') => ({
    groups: { all: { tgt, tgtType: 'compound' } },
    params: { password: 'correct-horse-battery' },
    ...(caller && { caller }),
  });
  for (const caller of [undefined, 'local'] as const) {
    const problem = { code: 'ERR_BAD_TGT', message: /a minion can set freely/ };
    await t.throwsAsync(bridge.plan('db.make-user', asking('G@id:web1', caller)), problem);
  }
  t.deepEqual((await bridge.plan('db.make-user', asking('web1'))).groups, { all: ['web1'] });
});

test('a command that is not permitted refuses the whole plan before any step runs', async (t) => {
  const known = ['db.grant', 'db.status', 'db.follow', 'db.note'];
  for (const fun of [known, [...known.slice(1), 'db.revoke', 'db.unfollow']]) {
    const { bridge, seen } = await start(t, { rules: [may(fun)] });
    await t.throwsAsync(bridge.plan('db.create-cluster', request), { code: 'ERR_PLAN_UNKNOWN' });
    t.deepEqual(seen, []);
  }
});

test('a rule that depends on a result is evaluated with the result, and a denial undoes the plan', async (t) => {
  const bounded = allow('some', {
    subject: { service: 'bridge' },
    action: 'command',
    resource: { fun: 'db.follow', within: 'web*', arguments: [{ kwargs: { file: 'bin.2' } }] },
  });
  const rest = may(['db.grant', 'db.revoke', 'db.status', 'db.note', 'db.unfollow']);
  const stage = await start(t, { rules: [bounded, rest] });
  const outcome = await (await stage.bridge.plan('db.create-cluster', request)).outcome;
  t.deepEqual([outcome.status, outcome.failedStep], ['failed', 'follow']);
  t.regex(outcome.steps[2]?.reason ?? '', /ERR_COMMAND_DENIED/);
  t.deepEqual(asked(stage), ['web1 db.grant', 'web1 db.status', 'web1 db.revoke']);
});

test('the return of a minion is checked like the input of a caller', async (t) => {
  const crafted = { file: '--defaults-file=/x', at: [7] };
  const stage = await start(t, { functions: { 'db.status': () => crafted } });
  const outcome = await (await stage.bridge.plan('db.create-cluster', request)).outcome;
  t.is(outcome.status, 'failed');
  t.regex(outcome.steps[2]?.reason ?? '', /ERR_COMMAND_PARAMETERS.*must not begin with -/);
  t.false(JSON.stringify(outcome.steps[2]?.reason).includes('defaults'));
  t.false(asked(stage).some((it) => it.includes('follow')));
});

test('no command receives a return that Salt would interpret', async (t) => {
  const crafted = { file: '__slot__:salt:cmd.run(id)', at: [7] };
  const stage = await start(t, { functions: { 'db.status': () => crafted } });
  const outcome = await (await stage.bridge.plan('db.create-cluster', request)).outcome;
  t.is(outcome.status, 'failed');
  t.regex(
    outcome.steps[2]?.reason ?? '',
    /ERR_COMMAND_PARAMETERS.*file: must not contain __slot__:/,
  );
  t.false(asked(stage).some((it) => it.includes('follow')));
});

const slow: MinionFunction = async (_call, { signal }) => {
  await once(signal, 'abort');
  return true;
};

test('a cancelled plan ends its running steps, and undoes completed ones unless the request disables that', async (t) => {
  const stage = await start(t, { functions: { 'db.follow': slow } });
  for (const undo of [true, false]) {
    const handle = await stage.bridge.plan('db.create-cluster', request);
    for await (const update of handle.updates()) {
      if (update.type === 'step' && update.step === 'follow') break;
    }
    await handle.cancel({ undo });
    const { status: end, steps, undone } = await handle.outcome;
    t.is(end, 'cancelled');
    t.deepEqual(
      steps.map((it) => it.status),
      ['succeeded', 'succeeded', 'failed', 'skipped'],
    );
    t.deepEqual(
      undone.map(({ step }) => step),
      undo ? ['grant'] : [],
    );
  }
});

test('a plan ends at its deadline, and with the abort signal of its caller', async (t) => {
  const quick = { ...cluster, timeoutSeconds: 3 };
  const late = await start(t, { plans: [quick], functions: { 'db.follow': slow } });
  const outcome = await (await late.bridge.plan('db.create-cluster', request)).outcome;
  t.is(outcome.status, 'timeout');
  // The plan got this far within the time.
  const [grant] = outcome.steps;
  t.deepEqual(
    outcome.undone.map(({ step }) => step),
    grant?.status === 'succeeded' ? ['grant'] : [],
  );
  const cut = await start(t, { functions: { 'db.grant': slow } });
  const end = new AbortController();
  const more = { ...request, signal: end.signal, undoOnCancel: false };
  const handle = await cut.bridge.plan('db.create-cluster', more);
  end.abort();
  t.is((await handle.outcome).status, 'cancelled');
});

test('the same key returns the same run, and with other parameters or groups it is a conflict', async (t) => {
  const stage = await start(t);
  const keyed = { ...request, idempotencyKey: 'k1' };
  const name = 'db.create-cluster';
  const [first, again] = await Promise.all([
    stage.bridge.plan(name, keyed),
    stage.bridge.plan(name, keyed),
  ]);
  t.deepEqual([first.isRepeated, again.isRepeated, again.id === first.id], [false, true, true]);
  const outcome = await first.outcome;
  t.deepEqual(await (await stage.bridge.plan(name, keyed)).outcome, outcome);
  t.is(stage.seen.length, 6);
  const others = [{ params: { user: 'other' } }, { groups: { ...groups, replicas: ['web2'] } }];
  for (const more of others) {
    await t.throwsAsync(stage.bridge.plan(name, { ...keyed, ...more }), {
      code: 'ERR_COMMAND_KEY',
    });
  }
  // An idempotency key of a plan is not valid for its commands either.
  const own = { target: 'web1', params: { user: 'repl' }, idempotencyKey: 'k1' };
  t.false((await stage.bridge.run('db.grant', own)).isRepeated);
});

test('rights are checked again for a known key, and another caller gets no access', async (t) => {
  const { bridge, master } = await start(t);
  const keyed = { ...request, idempotencyKey: 'k1' };
  const handle = await bridge.plan('db.create-cluster', keyed);
  await handle.outcome;
  t.is((await bridge.plans.find(handle.id, { kind: 'service', name: 'bridge' })).id, handle.id);
  const other = { kind: 'service', name: 'sahara' } as const;
  await t.throwsAsync(bridge.plans.find(handle.id, other), { code: 'ERR_RUN_UNKNOWN' });
  await master.reload(resolveMasterConfig({ acl: acl([]) }));
  await t.throwsAsync(bridge.plan('db.create-cluster', keyed), { code: 'ERR_PLAN_UNKNOWN' });
});

test('a secret does not appear in any output or stored data of a plan', async (t) => {
  const password = 'correct-horse-battery';
  const { bridge, master, seen } = await start(t, {
    commands: [...commands, user],
    plans: [
      {
        name: 'db.make-user',
        description: 'x',
        parameters: { type: 'object', properties: { secret_word: { type: 'string' } } },
        groups: { all: {} },
        steps: {
          user: {
            command: 'db.user',
            group: 'all',
            params: { password: { parameter: 'secret_word' } },
          },
        },
      },
    ],
    functions: { 'state.apply': fails },
  });
  t.deepEqual(bridge.plans.show('db.make-user').secret, ['secret_word']);
  const asking = { groups: { all: 'web1' }, params: { secret_word: password } };
  const handle = await bridge.plan('db.make-user', { ...asking, idempotencyKey: 'k' });
  const outcome = await handle.outcome;
  const [run = ''] = outcome.steps[0]?.runs ?? [];
  const told = [outcome, await collect(handle.updates()), seen, await master.jobs.show(run)];
  t.true(JSON.stringify(told).includes('saltbridge_secrets'));
  t.false(JSON.stringify(told).includes(password));
});

test('the audit log records the caller of a plan, its minions and its outcome', async (t) => {
  const config = directories(temporaryDirectory(t));
  const { bridge, master } = await start(t, { config });
  const handle = await bridge.plan('db.create-cluster', request);
  await handle.outcome;
  await master.audit.flush();
  const records = await collect(readAuditLog({ stateDir: config.stateDir ?? '' }));
  const told = records.filter(({ action }) => action.startsWith('plan.'));
  const about = { what: 'db.create-cluster', jid: handle.id, on: ['web1', 'web3', 'web2'] };
  const who = { kind: 'service', name: 'bridge' } as const;
  t.is(told.length, 2);
  t.like(told[0], { ...about, who, action: 'plan.run', outcome: 'permitted' });
  t.like(told[1], { ...about, who, action: 'plan.end', outcome: 'done', detail: 'succeeded' });
});

test('the local socket runs, follows and cancels plans', async (t) => {
  const config = directories(temporaryDirectory(t));
  await start(t, { config });
  const bridge = connectExtension({ socketPath: config.socket ?? '' }, 'bridge');
  t.like(await bridge.call('plan', { name: 'db.create-cluster' }), { version: 1, secret: [] });
  t.is((await bridge.call<readonly unknown[]>('plans')).length, 1);
  t.deepEqual(await bridge.call('plans', { service: 'sahara' }), []);
  const run = { plan: 'db.create-cluster', ...request };
  const items = await collect(bridge.stream<PlanUpdate & { readonly id?: string }>('runPlan', run));
  t.deepEqual([items[0]?.type, items.at(-1)?.type].map(String), ['begun', 'outcome']);
  const id = items[0]?.id ?? '';
  t.is((await collect(bridge.stream('followPlan', { id }))).length, items.length);
  t.like(await bridge.call('cancelPlan', { id }), { status: 'succeeded' });
  const denied = bridge.stream('runPlan', { ...run, service: 'sahara' });
  await t.throwsAsync(collect(denied), { code: 'ERR_PLAN_UNKNOWN' });
});

/** Commands on minions: rights, results and errors. */

import { once } from 'node:events';
import test from 'ava';
import Type from 'typebox';
import { allow } from '#acl';
import { connectExtension } from '#client';
import { resolveMasterConfig } from '#config';
import { createBridge } from '#guests';
import { BridgeError, type CommandDefinition, type CommandUpdate } from '#heat-bridge';
import { defineCommand } from '#heat-bridge/commands/command-definition.ts';
import type { CommandCaller } from '#heat-bridge/commands/command-request.ts';
import { bridgeLimits } from '#heat-bridge/limits.ts';
import { createMemoryStore } from '#store';
import { until, within } from '../helpers/deadline.ts';
import { collect } from '../helpers/fleet.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';
import { eventually } from '../interop/eventually.ts';
import { acl, echo, grant, startBridge, twice } from './stage.ts';

test('a permitted command reaches each minion of its target, with keywords', async (t) => {
  const { bridge, seen } = await startBridge(t, {
    functions: { 'test.echo': ({ kwargs }, { id }) => `${id}: ${String(kwargs.text)}` },
  });
  const handle = await bridge.run('demo.echo', { target: 'web*', params: { text: 'hello' } });
  t.deepEqual([handle.minions, handle.isRepeated], [['web1', 'web2'], false]);
  const outcome = await handle.outcome;
  t.is(outcome.status, 'succeeded');
  t.deepEqual(outcome.jids, [handle.id]);
  t.deepEqual(
    outcome.results.map((it) => [it.minion, it.state, it.return]),
    [
      ['web1', 'succeeded', 'web1: hello'],
      ['web2', 'succeeded', 'web2: hello'],
    ],
  );
  const call = { fun: 'test.echo', args: [], kwargs: { text: 'hello' } };
  const calls = ['web1', 'web2'].map((id) => ({ id, ...call }));
  t.deepEqual(
    seen.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    calls,
  );
  const updates = await collect(handle.updates());
  t.deepEqual(
    updates.map(({ type }) => type),
    ['published', 'result', 'result', 'outcome'],
  );
});

test('a name in the target without a key is in the outcome, and fails the run', async (t) => {
  const store = createMemoryStore();
  const { bridge, master } = await startBridge(t, { store });
  const params = { text: 'x' };
  for (const target of [['web1', 'web9'], { tgt: 'web1 or L@web9', tgtType: 'compound' }]) {
    const handle = await bridge.run('demo.echo', { target, params, caller: 'local' });
    t.deepEqual([handle.minions, handle.missing], [['web1'], ['web9']]);
    const { status, results, isNarrowed } = await handle.outcome;
    t.deepEqual([status, isNarrowed], ['failed', undefined]);
    const [done, unaddressed] = results;
    t.like(done, { minion: 'web1', state: 'succeeded' });
    const reason = 'no minion with this id has an accepted key';
    t.deepEqual(unaddressed, { minion: 'web9', state: 'unaddressed', reason });
    const told = (await collect(handle.updates())).filter(({ type }) => type === 'result');
    t.deepEqual(told.length, 2);
    const { deliveries } = await master.jobs.show(handle.id);
    t.like(deliveries.at(-1), { minion: 'web9', state: 'silent', reason: 'key-not-accepted' });
  }
  const request = { target: ['web1', 'web9'], params, idempotencyKey: 'k' };
  t.is((await (await bridge.run('demo.echo', request)).outcome).status, 'failed');
  const again = await bridge.run('demo.echo', request);
  t.deepEqual([again.isRepeated, again.missing], [true, ['web9']]);
});

test('a run whose target lists very many names without a key is refused', async (t) => {
  const { bridge, seen } = await startBridge(t);
  const { total = 0 } = bridgeLimits.unaddressedNames;
  const names = Array.from({ length: total }, (_, at) => `web-${at}`);
  const run = (target: readonly string[], caller: CommandCaller = 'local') =>
    bridge.run('demo.echo', { target, params: { text: 'x' }, caller });
  const refused = { code: 'ERR_COMMAND_TARGET', message: /more than 1000 names/ };
  await t.throwsAsync(run(['web1', ...names, 'web-x']), refused);
  await t.throwsAsync(run(['web1', ...names, 'db1'], { kind: 'service', name: 'bridge' }), refused);
  await t.throwsAsync(run(['web1', ...names.map((name) => name.padEnd(65, 'x'))]), refused);
  t.is(seen.length, 0);
  const { results } = await (await run(['web1', ...names])).outcome;
  t.is(results.filter(({ state }) => state === 'unaddressed').length, total);
});

test('a name beyond the rights of a caller is reported like one without a key', async (t) => {
  const { bridge } = await startBridge(t);
  const params = { text: 'x' };
  const outcomeOf = async (name: string): Promise<unknown> => {
    const handle = await bridge.run('demo.echo', { target: ['web1', name], params });
    const { id: _id, jids: _jids, ...outcome } = await handle.outcome;
    return JSON.parse(JSON.stringify(outcome).replaceAll(name, 'NAME'));
  };
  const beyond = await outcomeOf('db1');
  t.like(beyond, { status: 'failed', isNarrowed: true });
  t.like(beyond, { results: { length: 2, 1: { minion: 'NAME', state: 'unaddressed' } } });
  t.deepEqual(beyond, await outcomeOf('db9'));
  const all = await bridge.run('demo.echo', { target: '*', params });
  t.like(await all.outcome, { status: 'succeeded', isNarrowed: true });
  const own = await bridge.run('demo.echo', { target: 'web*', params });
  t.is((await own.outcome).isNarrowed, undefined);
});

test('the job targets minions by name, and names its owner', async (t) => {
  const { bridge, master } = await startBridge(t);
  const handle = await bridge.run('demo.echo', { target: 'web*', params: { text: 'x' } });
  await handle.outcome;
  const job = await master.jobs.show(handle.id);
  t.deepEqual([job.tgtType, job.tgt, job.user], ['list', ['web1', 'web2'], 'bridge']);
});

const other = { kind: 'service', name: 'sahara' } as const;
const refusals = [
  [
    'an unknown command',
    'demo.ecko',
    { target: 'web*', params: { text: 'x' } },
    'ERR_COMMAND_UNKNOWN',
  ],
  [
    'a function in place of a name',
    'test.echo',
    { target: 'web*', params: { text: 'x' } },
    'ERR_COMMAND_DENIED',
  ],
  [
    'two names',
    'demo.echo,cmd.run',
    { target: 'web*', params: { text: 'x' } },
    'ERR_COMMAND_UNKNOWN',
  ],
  [
    'look-alike letters',
    'demo.еcho',
    { target: 'web*', params: { text: 'x' } },
    'ERR_COMMAND_UNKNOWN',
  ],
  ['a name of every object', 'constructor', { target: 'web*' }, 'ERR_COMMAND_DENIED'],
  [
    'an extra parameter',
    'demo.echo',
    { target: 'web*', params: { text: 'x', cmd: 'id' } },
    'ERR_COMMAND_PARAMETERS',
  ],
  [
    'a keyword with a dot',
    'demo.echo',
    { target: 'web*', params: { 'a.b': 'x' } },
    'ERR_COMMAND_PARAMETERS',
  ],
  [
    'a wrong parameter',
    'demo.echo',
    { target: 'web*', params: { text: ['x'] } },
    'ERR_COMMAND_PARAMETERS',
  ],
  [
    'a map of keywords',
    'demo.echo',
    { target: 'web*', params: { text: { __kwarg__: true } } },
    'ERR_COMMAND_PARAMETERS',
  ],
  [
    'a minion beyond the grant',
    'demo.echo',
    { target: 'db1', params: { text: 'x' } },
    'ERR_COMMAND_DENIED',
  ],
  [
    'a target without minions',
    'demo.echo',
    { target: 'mail*', params: { text: 'x' } },
    'ERR_COMMAND_DENIED',
  ],
  [
    'a target without minions, from the local socket',
    'demo.echo',
    { target: 'mail*', params: { text: 'x' }, caller: 'local' },
    'ERR_COMMAND_TARGET',
  ],
  [
    'another caller',
    'demo.echo',
    { target: 'web*', params: { text: 'x' }, caller: other },
    'ERR_COMMAND_DENIED',
  ],
  [
    'a minion as caller',
    'demo.echo',
    { target: 'web*', params: { text: 'x' }, caller: { kind: 'minion', id: 'web1' } },
    'ERR_COMMAND_DENIED',
  ],
  [
    'an unknown token',
    'demo.echo',
    { target: 'web*', params: { text: 'x' }, caller: { token: 'f'.repeat(64) } },
    'ERR_EAUTH_TOKEN',
  ],
] as const;

test('a refused call never reaches a minion, and its code gives the reason', async (t) => {
  const { bridge, master, seen } = await startBridge(t);
  for (const [title, name, request, code] of refusals) {
    const error = await t.throwsAsync(bridge.run(name, request), { code }, title);
    if (error instanceof BridgeError && code !== 'ERR_COMMAND_UNKNOWN')
      t.regex(error.message, /^(?:demo\.echo: |no rule permits a command with this name$)/);
  }
  t.deepEqual(seen, []);
  t.deepEqual(await master.jobs.list(), []);
});

test('a target means the minions that rules name for the command, and does not reveal others', async (t) => {
  const { bridge, seen } = await startBridge(t);
  const params = { text: 'x' };
  const { minions, outcome } = await bridge.run('demo.echo', { target: '*', params });
  t.deepEqual(minions, ['web1', 'web2']);
  await outcome;
  t.deepEqual(seen.map(({ id }) => id).sort(), ['web1', 'web2']);
  const refusal = await t.throwsAsync(bridge.run('demo.echo', { target: 'nosuch', params }));
  for (const [tgt, tgtType = 'compound'] of [
    ['db1'],
    ['mail1'],
    ['G@id:db1'],
    ['G@id:mail1'],
    ['I@a:b'],
    ['not web*'],
    ['N@nosuch'],
    ['nosuch', 'nodegroup'],
  ] as const) {
    const target = { tgt, tgtType };
    const error = await t.throwsAsync(bridge.run('demo.echo', { target, params }));
    t.deepEqual([error?.name, error?.message], [refusal?.name, refusal?.message], tgt);
  }
});

test('a caller with rights to every command everywhere learns that a target matches no minion', async (t) => {
  const all = allow('all', {
    subject: { service: 'bridge' },
    action: 'command',
    resource: { fun: '*' },
  });
  const { bridge } = await startBridge(t, { rules: [all] });
  const request = { target: 'mail*', params: { text: 'x' } };
  await t.throwsAsync(bridge.run('demo.echo', request), { code: 'ERR_COMMAND_TARGET' });
});

test('a command has its own limits for all callers', async (t) => {
  const { bridge } = await startBridge(t, { commands: [{ ...echo, within: 'web1' }] });
  const params = { text: 'x' };
  await t.throwsAsync(bridge.run('demo.echo', { target: 'web*', params, caller: 'local' }), {
    code: 'ERR_COMMAND_DENIED',
  });
  const { outcome } = await bridge.run('demo.echo', { target: 'web1', params, caller: 'local' });
  t.is((await outcome).status, 'succeeded');
});

test('rules see parameters, except secret ones', async (t) => {
  const commands = [withSecret];
  const rule = (password: string) =>
    allow('one', {
      subject: { service: 'bridge' },
      action: 'command',
      resource: { fun: 'demo.user', arguments: [{ kwargs: { name: 'app*', password } }] },
    });
  const params = { name: 'app1', password: 'hunter22' };
  const seen = await startBridge(t, { commands, rules: [rule('hunter22')] });
  await t.throwsAsync(seen.bridge.run('demo.user', { target: 'web1', params }), {
    code: 'ERR_COMMAND_DENIED',
  });
  const masked = await startBridge(t, { commands, rules: [rule('*')] });
  const bad = { ...params, name: 'root' };
  await t.throwsAsync(masked.bridge.run('demo.user', { target: 'web1', params: bad }), {
    code: 'ERR_COMMAND_DENIED',
  });
  const { outcome } = await masked.bridge.run('demo.user', { target: 'web1', params });
  t.is((await outcome).status, 'succeeded');
});

const password = 'correct-horse-battery';

const withSecret: CommandDefinition = {
  name: 'demo.user',
  description: 'x',
  state: 'user',
  reviewed: 'made for this test alone',
  parameters: {
    type: 'object',
    properties: { name: { type: 'string' }, password: { type: 'string' } },
  },
  secret: ['password'],
};

test('a secret is sent to targets selected by id, not by grain', async (t) => {
  const nodegroups = { named: 'web1', claimed: 'G@id:web1' };
  const { bridge, seen } = await startBridge(t, { commands: [withSecret], config: { nodegroups } });
  const run = (tgt: string, params: Record<string, string>, caller?: 'local') => {
    const target = { tgt, tgtType: 'compound' };
    return bridge.run('demo.user', { target, params, ...(caller && { caller }) });
  };
  for (const caller of [undefined, 'local'] as const) {
    for (const tgt of ['G@id:web1', 'web1 and not G@id:web2']) {
      const problem = { code: 'ERR_BAD_TGT', message: /G@id:web.*a minion can set freely/ };
      await t.throwsAsync(run(tgt, { password }, caller), problem, tgt);
    }
  }
  // Only callers with all rights may see the members of a group.
  const told = { code: 'ERR_BAD_TGT', message: /G@id:web.*a minion can set freely/ };
  await t.throwsAsync(run('N@claimed', { password }, 'local'), told);
  await t.throwsAsync(run('N@claimed', { password }), { code: 'ERR_COMMAND_DENIED' });
  t.deepEqual(seen, []);
  for (const tgt of ['web1', 'N@named']) {
    const { minions, outcome } = await run(tgt, { password });
    t.deepEqual(minions, ['web1'], tgt);
    t.is((await outcome).status, 'succeeded');
  }
  // Without the secret, the run is visible according to the rules.
  t.deepEqual((await run('G@id:web1', { name: 'x' })).minions, ['web1']);
});

test('a secret is only in the pillar of its minions, while the run is in progress', async (t) => {
  const commands = [withSecret];
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { bridge, master, seen } = await startBridge(t, {
    commands,
    functions: {
      'state.apply': async () => {
        await released;
        return true;
      },
    },
  });
  const end = new AbortController();
  const events = collect(await master.events.subscribe({}, end.signal));
  const handle = await bridge.run('demo.user', { target: 'web1', params: { password } });
  const updates = handle.updates()[Symbol.asyncIterator]();
  await within('the job', updates.next());
  const held = await master.pillar.show({ minion: 'web1' });
  t.true(JSON.stringify(held).includes(password));
  for (const minion of ['web2', 'db1']) {
    t.false(JSON.stringify(await master.pillar.show({ minion })).includes(password));
  }
  release();
  const outcome = await handle.outcome;
  t.is(outcome.status, 'succeeded');
  t.false(JSON.stringify(await master.pillar.show({ minion: 'web1' })).includes(password));
  end.abort();
  const told = [await events, seen, outcome, await master.jobs.show(handle.id)];
  t.true(seen.length === 1 && JSON.stringify(seen).includes('saltbridge_secrets'));
  t.false(JSON.stringify(told).includes(password));
});

test('a minion that fails, or whose return does not mean success, fails the command', async (t) => {
  const strict = {
    ...echo,
    name: 'demo.strict',
    returns: { type: 'string' },
    success: { const: 'good' },
  };
  const { bridge } = await startBridge(t, {
    commands: [strict],
    functions: {
      'test.echo': ({ kwargs }) => {
        if (kwargs.text === 'throw') throw new Error('here');
        return kwargs.text === 'number' ? 1 : (kwargs.text ?? null);
      },
    },
  });
  const cases = [
    ['good', 'succeeded', undefined],
    ['bad', 'failed', /does not match the schema in the field `success`/],
    ['number', 'failed', /does not match the schema in the field `returns`/],
    ['throw', 'failed', /retcode/],
  ] as const;
  for (const [text, status, reason] of cases) {
    const handle = await bridge.run('demo.strict', { target: 'web1', params: { text } });
    const { results, ...outcome } = await handle.outcome;
    t.is(outcome.status, status, text);
    if (reason !== undefined) t.regex(results[0]?.reason ?? '', reason);
  }
});

test('an idempotent command is repeated only on minions where it failed', async (t) => {
  const tries: string[] = [];
  const { bridge } = await startBridge(t, {
    commands: [{ ...echo, idempotent: true, retries: 2 }],
    functions: {
      'test.echo': (_call, { id }) => {
        tries.push(id);
        if (id === 'web2' && tries.filter((it) => it === 'web2').length < 3) throw new Error('x');
        return true;
      },
    },
  });
  const handle = await bridge.run('demo.echo', { target: 'web*', params: { text: 'x' } });
  const outcome = await handle.outcome;
  t.is(outcome.status, 'succeeded');
  t.is(outcome.jids.length, 3);
  t.deepEqual(tries.sort(), ['web1', 'web2', 'web2', 'web2']);
});

test('a command that is not idempotent is never repeated', async (t) => {
  const { bridge, seen } = await startBridge(t, {
    commands: [{ ...echo, retries: 2 }],
    functions: {
      'test.echo': () => {
        throw new Error('x');
      },
    },
  });
  const { outcome } = await bridge.run('demo.echo', { target: 'web1', params: { text: 'x' } });
  t.is((await outcome).status, 'failed');
  t.is(seen.length, 1);
});

const slow = {
  'test.echo': async (_call: unknown, { signal }: { readonly signal: AbortSignal }) => {
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    return true;
  },
};

test('a cancelled run ends at once, and the minion ends the job', async (t) => {
  const { bridge } = await startBridge(t, { functions: slow });
  const handle = await bridge.run('demo.echo', { target: 'web1', params: { text: 'x' } });
  const [first] = await within('the job', take(handle.updates(), 1));
  t.is(first?.type, 'published');
  await handle.cancel();
  const { status, results } = await handle.outcome;
  t.deepEqual([status, results[0]?.state], ['cancelled', 'unfinished']);
});

test('a run ends at its deadline, and with the abort signal of its caller', async (t) => {
  const { bridge } = await startBridge(t, { functions: slow });
  const params = { text: 'x' };
  const late = await bridge.run('demo.echo', { target: 'web1', params, deadline: Date.now() + 50 });
  t.is((await late.outcome).status, 'timeout');
  const end = new AbortController();
  const cut = await bridge.run('demo.echo', { target: 'web1', params, signal: end.signal });
  end.abort();
  t.is((await cut.outcome).status, 'cancelled');
});

test('the catalog limits concurrent runs, on a minion and in total', async (t) => {
  const { bridge } = await startBridge(t, {
    commands: [{ ...echo, concurrency: { perTarget: 1, total: 2 } }],
    ids: ['web1', 'web2', 'web3'],
    functions: slow,
  });
  const run = (target: string) => bridge.run('demo.echo', { target, params: { text: 'x' } });
  const first = await run('web1');
  await t.throwsAsync(run('web*'), { code: 'ERR_COMMAND_BUSY' });
  const second = await run('web2');
  await t.throwsAsync(run('web3'), { code: 'ERR_COMMAND_BUSY' });
  await first.cancel();
  const third = await run('web1');
  await Promise.all([second.cancel(), third.cancel()]);
});

test('runs beyond the limit wait up to the size in the catalog, in order for each minion', async (t) => {
  const order: unknown[] = [];
  const { bridge } = await startBridge(t, {
    commands: [{ ...echo, concurrency: { perTarget: 1, queue: 2 } }],
    functions: {
      'test.echo': async ({ kwargs }, { signal }) => {
        order.push(kwargs.text);
        if (kwargs.text === 'first') await once(signal, 'abort');
        return true;
      },
    },
  });
  const run = (target: string, text: string) =>
    bridge.run('demo.echo', { target, params: { text } });
  const first = await run('web1', 'first');
  await until('the first to be asked', () => order.length === 1);
  const both = await run('web*', 'both');
  const last = await run('web2', 'last');
  await t.throwsAsync(run('web1', 'more'), { code: 'ERR_COMMAND_BUSY' });
  // This run waits behind the run that waits for both minions.
  const other = bridge.run('demo.echo', { target: 'web2', params: { text: 'no room' } });
  await t.throwsAsync(other, { code: 'ERR_COMMAND_BUSY' });
  await first.cancel();
  t.is((await both.outcome).status, 'succeeded');
  t.is((await last.outcome).status, 'succeeded');
  t.deepEqual(order, ['first', 'both', 'both', 'last']);
});

test('a run waits for its turn only until its deadline, and then publishes nothing', async (t) => {
  const { bridge, master } = await startBridge(t, {
    commands: [{ ...echo, concurrency: { total: 1, queue: 2 } }],
    functions: slow,
  });
  const params = { text: 'x' };
  const first = await bridge.run('demo.echo', { target: 'web1', params });
  const late = await bridge.run('demo.echo', { target: 'web2', params, deadline: Date.now() + 50 });
  t.is((await late.outcome).status, 'timeout');
  const cut = await bridge.run('demo.echo', { target: 'web2', params });
  await cut.cancel();
  t.is((await cut.outcome).status, 'cancelled');
  await first.cancel();
  const jobs = await master.jobs.list();
  t.deepEqual(
    jobs.filter(({ fun }) => fun === 'test.echo').map(({ jid }) => jid),
    [first.id],
  );
});

test('rights are checked again after a run has waited', async (t) => {
  const { bridge, master, seen } = await startBridge(t, {
    commands: [{ ...echo, concurrency: { total: 1, queue: 1 } }],
    functions: slow,
  });
  const params = { text: 'x' };
  const first = await bridge.run('demo.echo', { target: 'web1', params });
  const waiting = await bridge.run('demo.echo', { target: 'web2', params });
  await master.reload(resolveMasterConfig({ acl: acl([]) }));
  await first.cancel();
  await t.throwsAsync(waiting.outcome, { code: 'ERR_COMMAND_DENIED' });
  t.true(seen.every(({ id }) => id === 'web1'));
});

test('the same key returns the same run, and with other parameters or another target it is a conflict', async (t) => {
  const { bridge, seen } = await startBridge(t);
  const request = { target: 'web1', params: { text: 'x' }, idempotencyKey: 'k1' };
  const [first, again] = await Promise.all([
    bridge.run('demo.echo', request),
    bridge.run('demo.echo', request),
  ]);
  t.deepEqual([first.isRepeated, again.isRepeated, again.id === first.id], [false, true, true]);
  const outcome = await first.outcome;
  t.deepEqual(await (await bridge.run('demo.echo', request)).outcome, outcome);
  t.is(seen.length, 1);
  for (const more of [{ params: { text: 'y' } }, { target: 'web2' }]) {
    await t.throwsAsync(bridge.run('demo.echo', { ...request, ...more }), {
      code: 'ERR_COMMAND_KEY',
    });
  }
  const elsewhere = await bridge.run('demo.echo', { ...request, project: 'p2' });
  t.false(elsewhere.isRepeated);
  for (const idempotencyKey of ['', 'x'.repeat(256)]) {
    await t.throwsAsync(bridge.run('demo.echo', { ...request, idempotencyKey }), {
      code: 'ERR_COMMAND_KEY',
    });
  }
});

test('a caller cannot reach a run with the key of another caller', async (t) => {
  const both = { ...grant, subject: { service: ['bridge', 'sahara'] } };
  const { bridge } = await startBridge(t, { rules: [both] });
  const request = { target: 'web1', params: { text: 'x' }, idempotencyKey: 'k1' };
  const first = await bridge.run('demo.echo', request);
  const theirs = await bridge.run('demo.echo', { ...request, caller: other });
  t.false(theirs.isRepeated);
  t.not(theirs.id, first.id);
  await t.throwsAsync(bridge.find(first.id, other), { code: 'ERR_RUN_UNKNOWN' });
  t.is((await bridge.find(theirs.id, other)).id, theirs.id);
});

test('rights are checked again for a known key', async (t) => {
  const { bridge, master } = await startBridge(t);
  const request = { target: 'web1', params: { text: 'x' }, idempotencyKey: 'k1' };
  await (await bridge.run('demo.echo', request)).outcome;
  const rule = allow('others', {
    subject: { service: 'bridge' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'db*' },
  });
  await master.reload(resolveMasterConfig({ acl: acl([rule]) }));
  await t.throwsAsync(bridge.run('demo.echo', request), { code: 'ERR_COMMAND_DENIED' });
});

test('a key is stored for the next master, with the result of its run', async (t) => {
  const store = createMemoryStore();
  const config = directories(temporaryDirectory(t));
  const first = await startBridge(t, { store, config });
  const request = { target: 'web1', params: { text: 'x' }, idempotencyKey: 'k1' };
  const handle = await first.bridge.run('demo.echo', request);
  const outcome = await handle.outcome;
  await Promise.all([...first.minions.values()].map((minion) => minion.stop()));
  await first.master.close();
  const fresh = directories(temporaryDirectory(t));
  const { stateDir = '' } = config;
  const second = await startBridge(t, { store, config: { ...fresh, stateDir } });
  const again = await second.bridge.run('demo.echo', request);
  t.true(again.isRepeated);
  t.deepEqual(await again.outcome, outcome);
  t.is(second.seen.length, 0);
});

test('if a master closes, the next one continues runs with a key, and runs without one end', async (t) => {
  const store = createMemoryStore();
  const config = directories(temporaryDirectory(t));
  const ended: unknown[] = [];
  const first = await startBridge(t, {
    store,
    config,
    functions: {
      'test.echo': async ({ kwargs }, { signal }) => {
        await once(signal, 'abort');
        ended.push(kwargs.text);
        return true;
      },
    },
  });
  const kept = { target: 'web1', params: { text: 'kept' }, idempotencyKey: 'k1' };
  const keyed = await first.bridge.run('demo.echo', kept);
  const plain = await first.bridge.run('demo.echo', { target: 'web1', params: { text: 'plain' } });
  for (const run of [keyed, plain]) await within('the job', take(run.updates(), 1));
  await first.master.close();
  t.is((await keyed.outcome).status, 'interrupted');
  t.is((await plain.outcome).status, 'cancelled');
  t.false(ended.includes('kept'));
  await Promise.all([...first.minions.values()].map((minion) => minion.stop()));
  const { stateDir = '', pkiDir = '' } = config;
  const fresh = directories(temporaryDirectory(t));
  const second = await startBridge(t, { store, config: { ...fresh, stateDir, pkiDir } });
  const again = await second.bridge.run('demo.echo', kept);
  const [published] = await within('the same job', take(again.updates(), 1));
  t.like(published, { type: 'published', jid: keyed.id });
  await again.cancel();
  t.is((await again.outcome).status, 'cancelled');
  t.deepEqual(second.seen, []);
});

test('the local socket runs commands with the rights of its user or of a service', async (t) => {
  const config = directories(temporaryDirectory(t));
  await startBridge(t, { config });
  const bridge = connectExtension({ socketPath: config.socket ?? '' }, 'bridge');
  t.like(await bridge.call('command', { name: 'demo.echo' }), { name: 'demo.echo', version: 1 });
  t.is((await bridge.call<readonly unknown[]>('commands')).length, 1);
  // A service sees the commands that rules may permit it.
  t.deepEqual(await bridge.call('commands', { service: 'sahara' }), []);
  t.is((await bridge.call<readonly unknown[]>('commands', { service: 'bridge' })).length, 1);
  const run = { command: 'demo.echo', tgt: 'db1', params: { text: 'x' } };
  const items = await collect(bridge.stream<CommandUpdate>('run', run));
  t.deepEqual(
    items.map(({ type }) => String(type)),
    ['begun', 'published', 'result', 'outcome'],
  );
  await t.throwsAsync(collect(bridge.stream('run', { ...run, service: 'bridge' })), {
    code: 'ERR_COMMAND_DENIED',
  });
});

test('a program has the types of its commands', async (t) => {
  const greet = defineCommand('demo.greet', {
    description: 'Greets.',
    function: 'test.echo',
    parameters: Type.Object({ text: Type.String() }),
  });
  const bridge = createBridge({ commands: [greet] });
  const error = await t.throwsAsync(
    bridge.run('demo.greet', { target: 'web1', params: { text: 'x' } }),
  );
  t.like(error, { code: 'ERR_BRIDGE_NOT_OPEN' });
  // @ts-expect-error: no command of this name
  await t.throwsAsync(bridge.run('demo.other', { target: 'web1' }));
  // @ts-expect-error: a text is expected
  await t.throwsAsync(bridge.run('demo.greet', { target: 'web1', params: { text: 1 } }));
});

async function take<T>(items: AsyncIterable<T>, count: number): Promise<T[]> {
  const taken: T[] = [];
  for await (const item of items) {
    taken.push(item);
    if (taken.length === count) break;
  }
  return taken;
}

// Limits for the runs in progress of each caller, and for finished runs that can be read.

const heat: CommandCaller = { kind: 'service', name: 'heat' };
const params = { text: 'x' };
const rules = [
  grant,
  allow('heat', {
    subject: { service: 'heat' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
  }),
];
const wait = async (_call: unknown, { signal }: { readonly signal: AbortSignal }) => {
  await once(signal, 'abort');
  return true;
};

test('concurrent runs of a caller are limited, and more are refused before any job is published', async (t) => {
  const { bridge, master } = await startBridge(t, {
    rules,
    functions: { 'test.echo': wait },
    config: { bridge: { runs: { active_per_caller: 2, active: 3 } } },
  });
  const run = (caller?: CommandCaller) =>
    bridge.run('demo.echo', {
      target: 'web1',
      params,
      ...(caller === undefined ? {} : { caller }),
    });
  const [first, second] = [await run(), await run()];
  await t.throwsAsync(run(), { code: 'ERR_COMMAND_BUSY' });
  const third = await run(heat);
  await t.throwsAsync(run(heat), { code: 'ERR_COMMAND_BUSY' });
  await eventually('three jobs', async () => (await master.jobs.list()).length === 3);
  await first.cancel();
  await third.cancel();
  const fourth = await run();
  await Promise.all([second.cancel(), fourth.cancel()]);
});

test('a plan counts as a run of its caller, but its steps do not', async (t) => {
  const { bridge } = await startBridge(t, {
    plans: [twice],
    config: { bridge: { runs: { active_per_caller: 1 } } },
  });
  const request = { groups: { all: ['web1'] }, params };
  const handle = await bridge.plan('demo.twice', request);
  await t.throwsAsync(bridge.plan('demo.twice', request), { code: 'ERR_COMMAND_BUSY' });
  t.is((await handle.outcome).status, 'succeeded');
});

test('finished runs of others do not evict those of a caller', async (t) => {
  const { bridge } = await startBridge(t, {
    rules,
    config: { bridge: { runs: { ended_per_caller: 3, ended: 4 } } },
  });
  const run = async (caller: CommandCaller): Promise<string> => {
    const { id, outcome } = await bridge.run('demo.echo', { target: 'web1', params, caller });
    await outcome;
    return id;
  };
  const service: CommandCaller = { kind: 'service', name: 'bridge' };
  const own = await run(heat);
  const others: string[] = [];
  for (let count = 0; count < 8; count += 1) others.push(await run(service));
  t.is((await bridge.find(own, heat)).id, own);
  const isKept = async (id: string, caller: CommandCaller): Promise<boolean> =>
    bridge.find(id, caller).then(
      () => true,
      () => false,
    );
  const kept = await Promise.all(others.map((id) => isKept(id, service)));
  t.deepEqual(kept, [false, false, false, false, false, true, true, true]);
  // If the total exceeds the limit, the caller with the most runs loses its oldest run.
  const more = await run(heat);
  t.deepEqual(await Promise.all([own, more].map((id) => isKept(id, heat))), [true, true]);
  t.deepEqual(await Promise.all(others.slice(5).map((id) => isKept(id, service))), [
    false,
    true,
    true,
  ]);
});

test('invalid quotas are refused with their key', async (t) => {
  await t.throwsAsync(startBridge(t, { config: { bridge: { runs: { active: 0 } } } }), {
    message: /saltbridge:bridge:runs:active: /,
  });
});

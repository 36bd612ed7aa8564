/** Execution plans that exceed a limit: of their number, or of nesting. */
import test from 'ava';
import { resolveMasterConfig } from '#config';
import { parseExecutionPlan } from '#guests/murano/execution-plan.ts';
import { MuranoCatalog } from '#guests/murano/murano-catalog.ts';
import { type MuranoDeps, type MuranoService, openMurano } from '#guests/murano/open-murano.ts';
import { BridgeError, Catalog, type CommandHandle, type CommandOutcome } from '#heat-bridge';
import { readingSteps } from '#runtime';
import { twoMembers } from '../cluster.ts';
import { memoryState } from '../signals/open-signals.ts';

const plan = {
  FormatVersion: '2.0.0',
  Scripts: { go: { Type: 'Application', EntryPoint: 'f' } },
  Files: { f: { Name: 'go.sh', Body: '' } },
  Body: 'return go()',
};

function createCatalog(): MuranoCatalog {
  const commands = new Catalog([
    {
      ...{ name: 'demo.go', description: 'x', function: 'site.go', reviewed: 'made for this test' },
      parameters: { type: 'object', properties: { text: { type: 'string' } } },
      arguments: { text: { parameter: 'text' } },
    },
  ]);
  return new MuranoCatalog(
    [
      {
        ...{ name: 'demo.entry', description: 'x', command: 'demo.go' },
        type: 'Application',
        entry_point: 'go.sh',
        argument: 'text',
      },
    ],
    commands,
  );
}

/** Opens the service on one member, with this runner of commands. */
function open(commands: MuranoDeps['commands']): ReturnType<typeof openMurano> {
  return openMurano(
    {
      config: resolveMasterConfig({}),
      now: Date.now,
      shared: memoryState(),
      closing: new AbortController().signal,
    },
    { section: { unsigned: true }, catalog: createCatalog(), commands },
  );
}

/** Returns a request for an execution plan. */
function requestOf(owner: string, more: object = {}): Parameters<MuranoService['execute']>[1] {
  return {
    text: JSON.stringify({ ...plan, ...more }),
    signature: undefined,
    messageId: 'plan',
    caller: { kind: 'service', name: owner },
    mayCall: () => true,
    owner,
    project: 'default',
  };
}

/** Runner whose runs never end. `started` lists the runs by guest. */
function endless(check: MuranoDeps['commands']['check'] = async () => {}) {
  const started: unknown[] = [];
  const run: MuranoDeps['commands']['run'] = (_name, { target }) => {
    started.push(target);
    return new Promise(() => {});
  };
  return { started, commands: { check, run } };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const busy = { code: 'ERR_COMMAND_BUSY' };

test('execution plans of one caller for many guests leave places for other callers', async (t) => {
  const { commands, started } = endless();
  const murano = open(commands);
  for (let at = 0; at < 2000; at += 1) void murano.execute(`web${at}`, requestOf('stranger'));
  await t.throwsAsync(murano.execute('other', requestOf('stranger')), busy);
  void murano.execute('db1', requestOf('owner'));
  await settled();
  t.is(started.length, 2001);
  t.deepEqual(started.at(-1), ['db1']);
});

test('execution plans of one caller wait with a limited number of bytes', async (t) => {
  const { commands, started } = endless();
  const murano = open(commands);
  const large = { Parameters: { a: 'x'.repeat(1_000_000) } };
  for (let at = 0; at < 67; at += 1) void murano.execute(`web${at}`, requestOf('stranger', large));
  await t.throwsAsync(murano.execute('other', requestOf('stranger', large)), busy);
  void murano.execute('db1', requestOf('owner', large));
  while (started.length < 68) await settled();
  t.pass();
});

test('an execution plan with many values is refused, and read in steps', async (t) => {
  const { commands, started } = endless();
  const murano = open(commands);
  const many = { Parameters: { a: Array.from({ length: 10_000 }, () => []) } };
  const code = 'ERR_COMMAND_PARAMETERS';
  const sizes: number[] = [];
  const note = (step: unknown): unknown => sizes.push(Object(step).values);
  readingSteps.subscribe(note);
  t.teardown(() => readingSteps.unsubscribe(note));
  await t.throwsAsync(murano.execute('web1', requestOf('owner', many)), {
    code,
    message: /more than 10000 values/,
  });
  t.true(sizes.length > 5 && sizes.every((values) => values <= 1000));
  t.deepEqual(started, []);
});

test('an execution plan that repeats a long parameter very often is refused', async (t) => {
  const given: unknown[] = [];
  const check: MuranoDeps['commands']['check'] = async (_name, { params }) => {
    given.push(params);
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits it');
  };
  const murano = open({ check, run: async () => t.fail() });
  const send = (count: number, length: number): ReturnType<typeof murano.execute> => {
    const Body = `return go('${'{0}'.repeat(count)}'.format(args.a))`;
    const Parameters = { a: 'x'.repeat(length) };
    return murano.execute('web1', requestOf('owner', { Body, Parameters }));
  };
  const refused = await send(1_365, 390_000);
  t.is(refused.ErrorCode, 2);
  t.regex(JSON.stringify(refused), /would have 532350000 characters, more than 65536/);
  t.deepEqual(given, []);
  await send(1_024, 64);
  t.like(given, [{ text: 'x'.repeat(65_536) }]);
});

test('a caller without rights on a guest does not wait for its execution plans', async (t) => {
  const { commands, started } = endless(async (_name, { caller }) => {
    if (JSON.stringify(caller).includes('owner')) return;
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits it');
  });
  const murano = open(commands);
  void murano.execute('web1', requestOf('owner'));
  while (started.length === 0) await settled();
  t.like(await murano.execute('web1', requestOf('stranger')), { ErrorCode: 2 });
  const empty = requestOf('stranger', { Body: 'return', Scripts: {}, Files: {} });
  t.like(await murano.execute('web1', empty), { ErrorCode: 0, Body: null });
});

test('execution plans of one caller that wait for a guest do not block other callers', async (t) => {
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const outcome = finished.then((): CommandOutcome => {
    const results = [{ minion: 'web1', state: 'succeeded', return: 'done', retcode: 0 } as const];
    return { id: '1', command: 'demo.go', status: 'succeeded', results, jids: [] };
  });
  const handle: CommandHandle = {
    ...{ id: '1', command: 'demo.go', minions: ['web1'], missing: [], isRepeated: false, outcome },
    updates: async function* () {},
    cancel: async () => {},
  };
  const murano = open({ check: async () => {}, run: async () => handle });
  const send = (owner: string): ReturnType<typeof murano.execute> =>
    murano.execute('web1', requestOf(owner));
  const strangers = Array.from({ length: 64 }, () => send('stranger'));
  await t.throwsAsync(send('stranger'), { code: 'ERR_COMMAND_BUSY' });
  const own = send('owner');
  finish();
  t.like(await own, { ErrorCode: 0, Body: { exitCode: 0, stdout: 'done' } });
  await Promise.all(strangers);
  t.like(await send('stranger'), { ErrorCode: 0 });
});

test('a stamp accepted by one member of a cluster is refused by the others', async (t) => {
  const [one, two] = await twoMembers(t);
  const results = [{ minion: 'web1', state: 'succeeded', return: 'done', retcode: 0 } as const];
  const outcome: CommandOutcome = {
    ...{ id: '1', command: 'demo.go', status: 'succeeded', results, jids: [] },
  };
  const [a, b] = [one, two].map(({ area }) =>
    openMurano(
      {
        config: resolveMasterConfig({}),
        now: Date.now,
        shared: area,
        closing: new AbortController().signal,
      },
      {
        section: { unsigned: true },
        catalog: createCatalog(),
        commands: {
          check: async () => {},
          run: async (_name, _request, options) => {
            await options?.permitted?.();
            return {
              ...{ id: '1', command: 'demo.go', minions: ['web1'], missing: [], isRepeated: false },
              outcome: Promise.resolve(outcome),
              updates: async function* () {},
              cancel: async () => {},
            };
          },
        },
      },
    ),
  );
  if (a === undefined || b === undefined) return t.fail();
  const send = async (to: typeof a, messageId: string, Stamp: number): Promise<number> => {
    const request = { ...requestOf('owner', { Stamp }), messageId };
    const { ErrorCode } = await to.execute('web1', request);
    return ErrorCode;
  };
  // The later plan is kept, regardless of the order of the writes.
  t.deepEqual(await Promise.all([send(a, 'one', 7), send(b, 'two', 6)]), [0, 0]);
  await Promise.all([one.applied(), two.applied()]);
  t.deepEqual(await Promise.all([send(a, 'three', 7), send(b, 'four', 7)]), [2, 2]);
  t.is(await send(b, 'one', 7), 0);
});

test('an endlessly nested execution plan is malformed', (t) => {
  const endless = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  for (const more of [{ FormatVersion: endless }, { Parameters: { a: endless } }]) {
    t.throws(() => parseExecutionPlan('one', { ...plan, ...more }), {
      message: 'the execution plan has more than 64 levels',
    });
  }
});

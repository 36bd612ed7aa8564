/** Execution plans that exceed a limit: of their number, or of nesting. */
import test from 'ava';
import { resolveMasterConfig } from '#config';
import { parseExecutionPlan } from '#guests/murano/execution-plan.ts';
import { MuranoCatalog } from '#guests/murano/murano-catalog.ts';
import { openMurano } from '#guests/murano/open-murano.ts';
import { Catalog, type CommandHandle, type CommandOutcome } from '#heat-bridge';
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
    { name: 'demo.go', description: 'x', function: 'site.go', reviewed: 'made for this test' },
  ]);
  return new MuranoCatalog(
    [
      {
        ...{ name: 'demo.entry', description: 'x', command: 'demo.go' },
        type: 'Application',
        entry_point: 'go.sh',
      },
    ],
    commands,
  );
}

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
  const murano = openMurano(
    {
      config: resolveMasterConfig({}),
      now: Date.now,
      shared: memoryState(),
      closing: new AbortController().signal,
    },
    {
      section: { unsigned: true },
      catalog: createCatalog(),
      commands: { run: async () => handle },
    },
  );
  const send = (owner: string): ReturnType<typeof murano.execute> =>
    murano.execute('web1', {
      text: JSON.stringify(plan),
      signature: undefined,
      messageId: 'plan',
      caller: { kind: 'service', name: owner },
      mayCall: () => true,
      owner,
      project: 'default',
    });
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
    const { ErrorCode } = await to.execute('web1', {
      text: JSON.stringify({ ...plan, Stamp }),
      signature: undefined,
      messageId,
      caller: { kind: 'service', name: 'owner' },
      mayCall: () => true,
      owner: 'owner',
      project: 'default',
    });
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

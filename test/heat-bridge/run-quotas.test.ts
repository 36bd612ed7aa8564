/** How many runs of each caller go on, and how many that are over can be read. */
import { once } from 'node:events';
import test from 'ava';
import { allow } from '../../acl/index.ts';
import type { CommandCaller } from '../../heat-bridge/index.ts';
import { grant, startBridge, twice } from './stage.ts';

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

test('a caller has so many runs at a time, and is told before anything is published', async (t) => {
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
  t.is((await master.jobs.list()).length, 3);
  await first.cancel();
  await third.cancel();
  const fourth = await run();
  await Promise.all([second.cancel(), fourth.cancel()]);
});

test('a plan is a run of its caller, and its steps are not', async (t) => {
  const { bridge } = await startBridge(t, {
    plans: [twice],
    config: { bridge: { runs: { active_per_caller: 1 } } },
  });
  const request = { groups: { all: ['web1'] }, params };
  const handle = await bridge.plan('demo.twice', request);
  await t.throwsAsync(bridge.plan('demo.twice', request), { code: 'ERR_COMMAND_BUSY' });
  t.is((await handle.outcome).status, 'succeeded');
});

test('runs of others that are over do not make those of a caller forgotten', async (t) => {
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
  // Beyond what all have together, whoever has most of them loses the oldest.
  const more = await run(heat);
  t.deepEqual(await Promise.all([own, more].map((id) => isKept(id, heat))), [true, true]);
  t.deepEqual(await Promise.all(others.slice(5).map((id) => isKept(id, service))), [
    false,
    true,
    true,
  ]);
});

test('quotas that are none are refused with their key', async (t) => {
  await t.throwsAsync(startBridge(t, { config: { bridge: { runs: { active: 0 } } } }), {
    message: /saltbridge:bridge:runs:active: /,
  });
});

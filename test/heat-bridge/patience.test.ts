/** A command waits for its minions up to its own time limit, whatever they answer meanwhile. */

import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import type { MinionFunction } from '#minion-protocol';
import { echo, startBridge, twice } from './stage.ts';

const config = { timeout: 1, gatherJobTimeout: 1 };
const slow: MinionFunction = async ({ kwargs }) => {
  await sleep(5_000);
  return kwargs.text ?? null;
};
const silence = new Promise<never>(() => {});
const request = { target: 'web1', params: { text: 'x' } };

for (const [title, findJob] of [
  ['does not answer', () => silence],
  // Salt's minions do this while they repeat a return.
  ['says that it does not run the job', () => ({})],
] as const) {
  test(`a command waits for a minion that ${title} until it returns`, async (t) => {
    const functions = { 'test.echo': slow, 'saltutil.find_job': findJob };
    const { bridge } = await startBridge(t, { functions, ids: ['web1'], config });
    const { outcome } = await bridge.run('demo.echo', request);
    t.like(await outcome, { status: 'succeeded' });
  });
}

test('a step of a plan waits for a minion that does not say that it runs the job', async (t) => {
  const functions = { 'test.echo': slow, 'saltutil.find_job': () => silence };
  const { bridge } = await startBridge(t, { functions, plans: [twice], ids: ['web1'], config });
  const { outcome } = await bridge.plan('demo.twice', {
    groups: { all: 'web1' },
    params: { text: 'x' },
  });
  t.like(await outcome, { status: 'succeeded' });
});

test('at the deadline of a command, a silent minion is named', async (t) => {
  const functions = { 'test.echo': () => silence, 'saltutil.find_job': () => silence };
  const commands = [{ ...echo, timeoutSeconds: 5 }];
  const { bridge } = await startBridge(t, { commands, functions, ids: ['web1'], config });
  const begin = performance.now();
  const { outcome } = await bridge.run('demo.echo', request);
  const reason = 'the minion did not return before the deadline of the run';
  const { status, results } = await outcome;
  t.deepEqual([status, results], ['timeout', [{ minion: 'web1', state: 'unfinished', reason }]]);
  t.true(performance.now() - begin > 4_900);
});

test('a repeatable command is repeated if a minion is silent', async (t) => {
  let calls = 0;
  const functions = {
    'test.echo': () => {
      calls += 1;
      return calls === 1 ? silence : 'x';
    },
    'saltutil.find_job': () => silence,
  };
  const commands = [{ ...echo, idempotent: true, retries: 1 }];
  const { bridge } = await startBridge(t, { commands, functions, ids: ['web1'], config });
  const { outcome } = await bridge.run('demo.echo', request);
  t.like(await outcome, { status: 'succeeded', jids: { length: 2 } });
});

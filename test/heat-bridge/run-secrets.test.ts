/** Secrets of active runs in pillars, and limits on the parameters of active runs. */

import test from 'ava';
import type { CommandDefinition } from '#heat-bridge';
import type { CommandRun } from '#heat-bridge/commands/command-run.ts';
import { type StoredRun, storedRunRow, withoutReturns } from '#heat-bridge/commands/recover-run.ts';
import { Releases } from '#heat-bridge/commands/releases.ts';
import { parseRunQuotas } from '#heat-bridge/commands/run-quotas.ts';
import { RunSecrets } from '#heat-bridge/commands/run-secrets.ts';
import { StoredRuns } from '#heat-bridge/commands/stored-runs.ts';
import type { ExtensionHost } from '#master';
import { memoryState } from './signals/open-signals.ts';
import { startBridge } from './stage.ts';

const unused = (): never => {
  throw new Error('this test does not use it');
};
const busy = { code: 'ERR_COMMAND_BUSY' };

test('the secrets of the runs of one caller leave room in the pillar of a minion for others', (t) => {
  const secrets = new RunSecrets();
  const secret = { password: 'x'.repeat(1_000_000) };
  const reserve = (caller: string, minions: readonly string[], isResumed = false) =>
    secrets.reserve(secret, { caller, minions, isResumed });
  const leases = Array.from({ length: 6 }, () => reserve('a', ['web1']));
  t.throws(() => reserve('a', ['web2', 'web1']), busy);
  for (let count = 0; count < 6; count += 1) reserve('a', ['web2']);
  reserve('b', ['web1']);
  reserve('b', ['web1']);
  t.throws(() => reserve('c', ['web1']), busy);
  // A run that an earlier process admitted is not rejected.
  t.notThrows(() => reserve('a', ['web1'], true));
  for (const lease of leases) lease.forget();
  t.notThrows(() => reserve('a', ['web1']));
  t.throws(
    () =>
      secrets.reserve(
        { password: 'x'.repeat(7_000_000) },
        {
          caller: 'd',
          minions: ['db1'],
          isResumed: false,
        },
      ),
    busy,
  );
});

test('the parameters of the active runs of one caller have a limited size', (t) => {
  const runs = new StoredRuns<StoredRun, never, CommandRun>({
    // Only the shared area is used.
    host: { shared: memoryState() } as unknown as ExtensionHost,
    quotas: parseRunQuotas(undefined),
    storedRow: storedRunRow,
    carriedRow: { version: 1, encode: unused, decode: unused },
    shorten: withoutReturns,
    follow: unused,
    lostOutcome: () => ({ status: 'interrupted' }),
  });
  const parameters = { text: 'x'.repeat(33_000_000) };
  const releases = new Releases();
  for (let count = 0; count < 4; count += 1) runs.holdParameters('a', parameters, releases);
  t.throws(() => runs.holdParameters('a', parameters, releases), busy);
  t.notThrows(() => runs.holdParameters('b', parameters, releases));
  releases.release();
  t.notThrows(() => runs.holdParameters('a', parameters, releases));
});

const withSecret: CommandDefinition = {
  name: 'demo.user',
  description: 'Creates a user.',
  state: 'mysql.user',
  reviewed: 'made for this test',
  concurrency: { perTarget: 1, queue: 5 },
  parameters: { type: 'object', properties: { password: { type: 'string' } } },
  secret: ['password'],
};

test('the secret of a run that waits is not in the pillar', async (t) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { bridge, master } = await startBridge(t, {
    commands: [withSecret],
    functions: {
      'state.apply': async () => {
        await released;
        return true;
      },
    },
  });
  const run = (password: string) =>
    bridge.run('demo.user', { target: 'web1', params: { password } });
  const first = await run('hunter2');
  const updates = first.updates()[Symbol.asyncIterator]();
  await updates.next();
  const second = await run('hunter3');
  const pillar = async (): Promise<string> =>
    JSON.stringify(await master.pillar.show({ minion: 'web1' }));
  const during = await pillar();
  t.true(during.includes('hunter2'));
  t.false(during.includes('hunter3'));
  release();
  t.is((await second.outcome).status, 'succeeded');
  t.false((await pillar()).includes('hunter'));
});

test('the secrets of a run leave the pillar of a minion whose key is deleted', async (t) => {
  const { bridge, master, minions, seen } = await startBridge(t, {
    commands: [withSecret],
    functions: { 'state.apply': () => new Promise<boolean>(() => {}) },
  });
  const run = (password: string) =>
    bridge.run('demo.user', { target: 'web1', params: { password }, caller: 'local' });
  const first = await run('hunter2');
  await first.updates()[Symbol.asyncIterator]().next();
  const second = await run('hunter3');
  const pillar = async (): Promise<string> =>
    JSON.stringify(await master.pillar.show({ minion: 'web1' }));
  t.true((await pillar()).includes('hunter2'));
  await minions.get('web1')?.stop();
  await master.keys.delete({ match: 'web1' });
  t.false((await pillar()).includes('hunter'));
  await first.cancel();
  t.like(await second.outcome, { status: 'failed', jids: [], results: [{ state: 'silent' }] });
  t.is(seen.length, 1);
});

test('a run that waits shows its secrets only to minions whose keys have not ended', async (t) => {
  const secrets = new RunSecrets();
  const owner = { caller: 'a', minions: ['web1', 'web2'], isResumed: false };
  const lease = secrets.reserve({ password: 'hunter2' }, owner);
  lease.show('reference', new Set(['web1']));
  const shown = (id: string) =>
    secrets.pillar.provide({ id, saltenv: undefined, pillarenv: undefined });
  t.is(await shown('web1'), undefined);
  t.deepEqual(await shown('web2'), {
    saltbridge: { secrets: { reference: { password: 'hunter2' } } },
  });
  lease.forget();
});

/** Owners of stacks share the reads of metadata and the slots of deployments. */

import test from 'ava';
import pino from 'pino';
import type { DeploymentRecord } from '#guests/deployments/deployment-records.ts';
import { DeploymentRuns } from '#guests/deployments/deployment-runs.ts';
import { Pacer } from '#guests/deployments/request-pacer.ts';
import type { CommandHandle, CommandOutcome } from '#heat-bridge';
import { sleepUntilAborted } from '#runtime';
import { until } from '../../helpers/deadline.ts';

test('the servers of one stack delay the reads of another owner by one turn', async (t) => {
  const pacer = new Pacer(100);
  const { signal } = new AbortController();
  const order: string[] = [];
  const turn = (owner: string): Promise<void> =>
    pacer.turn(owner, signal).then(() => void order.push(owner));
  const many = Array.from({ length: 20 }, () => turn('a'));
  await turn('b');
  t.true(order.length <= 3);
  await Promise.all(many);
  t.is(order.length, 21);
});

test('ten thousand servers that wait for their turns end with their stack', async (t) => {
  const pacer = new Pacer(1);
  const ending = new AbortController();
  const before = process.threadCpuUsage();
  const turns = Array.from({ length: 40_000 }, () => pacer.turn('a', ending.signal));
  const sleeps = Array.from({ length: 40_000 }, () => sleepUntilAborted(60_000, ending.signal));
  ending.abort();
  await Promise.all([...turns, ...sleeps]);
  const { user, system } = process.threadCpuUsage(before);
  // A search through all listeners of the signal takes most of a minute of the processor.
  t.true(user + system < 10_000_000);
});

test('deployments on a silent minion leave slots to other owners', async (t) => {
  const call = { kind: 'command', command: 'demo.echo', params: {} } as const;
  const begun: string[] = [];
  const handle = (minion: string): CommandHandle => ({
    ...{ id: '1', command: 'demo.echo', minions: [minion], missing: [], isRepeated: false },
    outcome: new Promise<CommandOutcome>(() => {}),
    updates: async function* () {},
    cancel: async () => {},
  });
  const runner = {
    run: async (_name: string, { target }: { readonly target?: unknown }) => {
      const [minion = ''] = [target].flat().map(String);
      begun.push(minion);
      return handle(minion);
    },
  };
  const runs = new DeploymentRuns({
    host: {
      closing: new AbortController().signal,
      logger: pino({ enabled: false }),
      now: () => 0,
    },
    runners: { command: runner, code: runner },
    records: { storedPartsOf: async () => ({ call }) },
    maxRunning: 8,
  });
  const record = (minion: string, id: number): DeploymentRecord => ({
    ...{ stack: 'r', server: `s${id}`, id: `${id}`, name: 'one', action: 'CREATE', minion },
    ...{ state: 'running', begunAt: 0 },
    target: { outputs: [], signal: { transport: 'NO_SIGNAL' }, serverId: 's' },
  });
  for (let id = 0; id < 20; id += 1) {
    void runs.run(record('silent', id), { kind: 'service', name: 'one' }, false);
  }
  void runs.run(record('other', 99), { kind: 'service', name: 'two' }, false);
  await until('the other owner', () => begun.includes('other'));
  t.is(begun.filter((it) => it === 'silent').length, 7);
});

/** Runs the campaign `cluster` for a short time, with a fixed seed. */
import test from 'ava';
import { runClusterFaults } from '../campaigns/cluster.ts';
import { hasNatsServer } from '../helpers/nats-server.ts';
import { testWhere } from '../helpers/needs.ts';

const clusterTest = testWhere(hasNatsServer, 'nats-server of Debian', test);

clusterTest(
  'acknowledged work reaches every master, whichever masters, servers and links fail',
  async (t) => {
    t.timeout(600_000);
    const { problems, ...figures } = await runClusterFaults(
      {
        seed: 20_261_123,
        faults: 4,
        kinds: ['clock step', 'master hears nothing', 'master killed', 'server killed'],
        paceMs: 5000,
        minions: 6,
        measuresDeath: false,
        heardMs: 9000,
        rates: { jobs: 6, puts: 10, keys: 0.5, tokens: 0.5, runs: 0.5 },
        signalsPerSecond: 4,
        ends: ['store altered'],
      },
      (line) => t.log(line),
    );
    t.log(figures);
    t.deepEqual(problems, []);
    t.true(figures.jobs > 0 && figures.returns > 0 && figures.signals > 0);
    t.true(figures.keyChanges > 0 && figures.revocations > 0 && figures.runs > 0);
  },
);

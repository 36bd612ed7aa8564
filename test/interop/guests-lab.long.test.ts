/**
 * Runs `npm run example -- guests` and `gossip`: two networks with the same addresses, and a
 * cluster.
 */
import test from 'ava';
import { gossip } from '../../examples/gossip/gossip.example.ts';
import { guests } from '../../examples/guests/guests.example.ts';
import { stepsOf, whereRunnable } from '../helpers/examples.ts';

test('the examples name their requirements and where to get them', (t) => {
  const needs = [...guests.needs(), ...gossip.needs()];
  for (const name of ['haproxy', 'serf']) {
    const found = needs.find((it) => it.name === `program ${name}`);
    t.is(found?.remedy, `Debian: ${name}`);
  }
});

whereRunnable(guests, test.serial)(
  'each step of examples/guests shows what it should',
  async (t) => {
    t.timeout(300_000);
    const titles = await stepsOf(guests);
    t.true(titles.includes('if a machine sends a PROXY header, only its own connection is closed'));
  },
);

whereRunnable(gossip, test.serial)(
  'twenty guests form one cluster by their peers alone',
  async (t) => {
    t.timeout(300_000);
    const titles = await stepsOf(gossip);
    t.true(titles.includes('each guest lists all 20 as members: they form one cluster'));
    t.true(titles.includes('the guest starts again, and rejoins through its peers'));
  },
);

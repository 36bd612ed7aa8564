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
    t.true(titles.includes('a PROXY header of a machine ends its connection, and nothing else'));
  },
);

whereRunnable(gossip, test.serial)(
  'twenty guests form one cluster by their peers alone',
  async (t) => {
    t.timeout(300_000);
    const titles = await stepsOf(gossip);
    t.true(titles.includes('each of them knows all 20 as members: they are one cluster'));
    t.true(titles.includes('it starts again, and is a member by its peers alone'));
  },
);

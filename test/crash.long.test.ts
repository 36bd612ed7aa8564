import test from 'ava';
import { benchCrash } from '../bench/crash/crash.ts';

test('a master killed under load keeps what it acknowledged, and no minion signs in again', async (t) => {
  t.timeout(180_000);
  const figures = await benchCrash({ kills: 3, seed: 20_261_121, minions: 10 });
  t.like(figures, { kills: 3, lost: 0, signIns: 0, problems: 0 });
  t.true(figures.acknowledged > 0, 'there was no load');
});

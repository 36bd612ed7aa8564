import test from 'ava';
import { RandomPool } from '../../minion-protocol/crypticle.ts';

test('a pool gives no bytes twice, over several of its pages', (t) => {
  const pool = new RandomPool();
  const seen = new Set<string>();
  for (let count = 0; count < 1000; count += 1) seen.add(pool.take(16).toString('hex'));
  t.is(seen.size, 1000);
});

test('what was given out does not change when more is taken', (t) => {
  const pool = new RandomPool();
  const first = pool.take(16);
  const before = first.toString('hex');
  for (let count = 0; count < 1000; count += 1) pool.take(24);
  t.is(first.toString('hex'), before);
  t.is(pool.take(24).length, 24);
});

/** Leases: only one process at a time has one, and writes of an earlier one are rejected. */
import test from 'ava';
import { Lease } from '#cluster/lease.ts';
import { StoreError } from '#store';
import { TestCluster } from '../store-suite/cluster.ts';

const key = ['leases', 'sweep'];
const refused = { instanceOf: StoreError, code: 'ERR_REVISION' };

test('a lease is held by one member, passes on when it expires, and fences its former holder', async (t) => {
  const cluster = new TestCluster(t);
  const clock = { now: 1_000_000 };
  const now = (): number => clock.now;
  await cluster.found(now);
  const a = await cluster.open('a', { now });
  const b = await cluster.open('b', { now });
  const taken = (holder: string) => ({ key, holder, ttlMs: 30_000, now });
  const first = await Lease.acquire(a, taken('a'));
  await t.throwsAsync(Lease.acquire(b, taken('b')), refused);
  const put = { op: 'put', key: ['done'], value: Buffer.from('a') } as const;
  clock.now += 20_000;
  await Promise.all([first.write([put]), first.renew(), first.write([put])]);
  clock.now += 20_000;
  await t.throwsAsync(Lease.acquire(b, taken('b')), refused);
  clock.now += 10_000;
  const second = await Lease.acquire(b, taken('b'));
  await t.throwsAsync(first.write([put]), refused);
  await t.throwsAsync(first.renew(), refused);
  await first.release();
  await second.write([put]);
  await second.release();
  await t.notThrowsAsync(Lease.acquire(a, taken('a')));
});

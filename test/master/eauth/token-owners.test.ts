/** Tables of users evict rows of the user that holds most, never those of others. */

import test from 'ava';
import { OwnJobs } from '#master/users/own-jobs.ts';
import { TokenTable } from '#master/users/tokens.ts';
import { MemorySessions } from '#salt-api/sessions.ts';
import { createMemoryStore } from '#store';
import { testLimit } from '../../helpers/limits.ts';

const honest = { eauth: 'pam', user: 'honest' };
const other = { eauth: 'pam', user: 'other' };

test("the sessions of a user outlast another user's 50,011 log-ins", async (t) => {
  let clock = 0;
  const sessions = new MemorySessions({ idleMs: 1000, now: () => clock });
  const kept = await sessions.open('token of the honest user', honest);
  for (let n = 0; n < 50_011; n += 1) await sessions.open('token', other);
  t.deepEqual(sessions.find(kept), { token: 'token of the honest user' });
  t.is(sessions.size, 50_000);
  clock = 1000;
  t.is(sessions.find(kept), undefined);
});

test("the tokens of a user outlast another user's log-ins", async (t) => {
  const clocks = { now: () => 1000, monotonic: () => 0 };
  const table = await TokenTable.open(
    createMemoryStore(),
    clocks,
    undefined,
    testLimit({ total: 100 }),
  );
  const record = { groups: [], start: 1000, expire: 10_000_000 };
  const { secret } = await table.create({ ...record, ...honest });
  for (let n = 0; n < 300; n += 1) await table.create({ ...record, ...other });
  t.is(table.find(secret)?.user, 'honest');
  t.is(table.list().length, 100);
  const third = { ...record, eauth: 'pam', user: 'third' };
  t.is(table.find((await table.create(third)).secret)?.user, 'third');
});

test("the jobs of a user remain its own after another user's 10,000 jobs", (t) => {
  const jobs = new OwnJobs(() => '');
  jobs.begin({ kind: 'user', eauth: 'pam', name: 'honest', groups: [] }, 'first');
  for (let n = 0; n < 20_000; n += 1) {
    jobs.begin({ kind: 'user', eauth: 'pam', name: 'other', groups: [] }, `${n}`);
  }
  t.true(jobs.isOf('first', { kind: 'user', eauth: 'pam', name: 'honest', groups: [] }));
});

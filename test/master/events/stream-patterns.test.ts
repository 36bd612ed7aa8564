/** Patterns of the users' event streams: the work of each user is limited. */

import test from 'ava';
import { StreamPatterns } from '#master/users/stream-patterns.ts';
import { LimitExceeded } from '#runtime';

const user = (name: string, eauth = 'pam') => ({ kind: 'user', name, eauth, groups: [] }) as const;

test('expensive patterns end the streams of their user, and not those of others', (t) => {
  let now = 0;
  const patterns = new StreamPatterns(() => now);
  const expensive = Array.from({ length: 64 }, (_, at) => `*${'[!~]'.repeat(100)}~${at}*`);
  const streams = Array.from({ length: 8 }, () => patterns.testOf(expensive, user('eve')));
  const other = patterns.testOf(['salt/job/*', 'x*'], user('bob'));
  const tag = `salt/job/20260101000000000000/ret/${'x'.repeat(200)}`;
  let events = 0;
  t.throws(
    () => {
      for (; events < 10_000; events += 1) for (const stream of streams) stream(tag);
    },
    { instanceOf: LimitExceeded, code: 'ERR_LIMIT' },
  );
  t.true(events < 100, `${events}`);
  for (const each of [user('eve', 'ldap'), user('bob')]) {
    t.true(patterns.testOf(['*/ret/*'], each)(tag));
  }
  for (let count = 0; count < 10_000; count += 1) t.true(other(tag));
  t.throws(() => patterns.testOf(['*/ret/*'], user('eve')), { code: 'ERR_LIMIT' });
  now += 60_000;
  t.true(patterns.testOf(['*/ret/*'], user('eve'))(tag));
});

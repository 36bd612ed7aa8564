/** Key pairs that callers request are generated in threads of their own. */

import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import test from 'ava';
import { KeyGenerator, keyOwner } from '#master/auth/key-generator.ts';

const user = (name: string) => keyOwner({ who: { kind: 'user', name }, rule: 'all' });

test('one caller has one pair at a time, and another caller does not wait for the others', async (t) => {
  const keys = new KeyGenerator(4096);
  t.teardown(() => keys.close());
  const order: string[] = [];
  const make = async (name: string) => {
    await keys.generateFor(user(name), 2048);
    order.push(name);
  };
  // The time for one pair varies, so a turn is proved only by many pairs.
  await Promise.all([...Array.from({ length: 16 }, () => 'a'), 'b'].map(make));
  t.true(order.indexOf('b') < 12, order.join(''));
});

test("the pairs of a caller do not take the threads of libuv's pool", async (t) => {
  const keys = new KeyGenerator(4096);
  t.teardown(() => keys.close());
  let made = 0;
  const flood = Array.from({ length: 12 }, async (_, n) => {
    await keys.generateFor(user(`${n}`), 3072);
    made += 1;
  });
  await promisify(randomBytes)(16);
  t.is(made, 0);
  await Promise.all(flood);
});

test('a caller gets no larger key than key_bits, and few may wait', async (t) => {
  const keys = new KeyGenerator(4096);
  await t.throwsAsync(keys.generateFor(user('a'), 8192), { code: 'ERR_ARGS', message: /key_bits/ });
  const flood = Promise.allSettled(
    Array.from({ length: 18 }, () => keys.generateFor(user('a'), 4096)),
  );
  await t.throwsAsync(keys.generateFor(user('a'), 2048), { code: 'ERR_LIMIT' });
  await keys.close();
  const codes = (await flood).map((it) => (it.status === 'rejected' ? it.reason.code : undefined));
  t.is(codes.filter((code) => code === 'ERR_LIMIT').length, 1);
  t.is(codes.filter((code) => code === 'ERR_MASTER_STOPPED').length, 17);
});

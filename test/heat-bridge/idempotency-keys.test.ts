/** The bytes of runs under idempotency keys are limited for each caller. */
import test from 'ava';
import Type from 'typebox';
import { IdempotencyKeys } from '#heat-bridge/commands/idempotency-keys.ts';
import type { SharedArea, StateOperation } from '#master';
import { TokenBuckets } from '#runtime';
import { createMemoryStore, defineRow } from '#store';
import { testLimit } from '../helpers/limits.ts';

const row = defineRow({
  name: 'run',
  schema: Type.Object({ digest: Type.String(), text: Type.String() }),
});

function keysWith(burst: number): IdempotencyKeys<{ digest: string; text: string }> {
  const store = createMemoryStore();
  const area = {
    get: (key: readonly string[]) => store.get(key),
    write: (operations: readonly StateOperation[]) => store.write(operations),
    seal: (bytes: Uint8Array) => bytes,
    unseal: (bytes: Uint8Array) => bytes,
    cluster: undefined,
  };
  const limit = testLimit({ rate: { perSecond: 0.001, burst } });
  const shorten = ({ digest }: { digest: string }) => ({ digest, text: '' });
  // The other members of the area are not used.
  return new IdempotencyKeys(area as unknown as SharedArea, row, shorten, new TokenBuckets(limit));
}

test('runs under idempotency keys of one caller store a limited number of bytes', async (t) => {
  const keys = keysWith(10_000);
  const owner = (caller: string, key: string) => ({ caller, project: '', command: 'c', key });
  const long = { digest: 'd', text: 'x'.repeat(6_000) };
  await keys.keepFirst(owner('ann', '1'), long, Date.now());
  await keys.keepFirst(owner('ann', '2'), long, Date.now());
  await t.throwsAsync(keys.keepFirst(owner('ann', '3'), { ...long, text: '' }, Date.now()), {
    code: 'ERR_LIMIT',
    message: /^bridge\.keyBytes: /,
  });
  await keys.keep(owner('ann', '2'), { ...long, digest: 'end' }, Date.now());
  t.deepEqual(await keys.get(owner('ann', '2')), { digest: 'end', text: '' });
  await keys.keepFirst(owner('ben', '3'), long, Date.now());
  t.deepEqual(await keys.get(owner('ben', '3')), long);
});

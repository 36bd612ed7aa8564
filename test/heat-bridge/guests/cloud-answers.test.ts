/** Responses of Nova that are too large, or that are not a list of instances. */

import test from 'ava';
import { CloudReader } from '#guests/cloud/cloud-reader.ts';
import type { HttpResult } from '#runtime';
import { readingSteps } from '#runtime/step-scheduler.ts';

type Answer = Extract<HttpResult, { readonly kind: 'answer' }>;

/** Returns a reader of a cloud whose Nova sends this answer. */
function readerOf(answer: Pick<Answer, 'body' | 'isCut'>): CloudReader {
  return new CloudReader({
    keystone: { url: 'http://k/v3', user: { id: 'u', password: 'p' }, project: { id: 'p' } },
    ...{ compute: 'http://nova', network: 'http://neutron', pageSize: 500 },
    ask: async ({ url }) => {
      const headers = { 'x-subject-token': 't' };
      if (!url.endsWith('/auth/tokens'))
        return { kind: 'answer', status: 200, headers: {}, ...answer };
      return { kind: 'answer', status: 201, headers, body: '{"token":{"catalog":[]}}' };
    },
  });
}

// Serial, because it counts the steps of this process.
test.serial('a large response is read in steps', async (t) => {
  const servers = Array.from({ length: 20_000 }, (_, at) => ({ id: `i${at}`, tenant_id: 'p' }));
  let steps = 0;
  const count = (): void => {
    steps += 1;
  };
  readingSteps.subscribe(count);
  t.teardown(() => readingSteps.unsubscribe(count));
  const body = JSON.stringify({ servers });
  t.is((await readerOf({ body }).servers()).length, servers.length);
  t.true(steps > 20, `${steps} steps`);
});

test('a nested response, and one that exceeds the size, are refused', async (t) => {
  const nested = readerOf({ body: '['.repeat(8_000_000) }).servers();
  await t.throwsAsync(nested, { message: /is not JSON: more than 100 levels/ });
  const cut = readerOf({ body: '{"servers":[]}', isCut: true }).servers();
  await t.throwsAsync(cut, { message: /exceeds 33554432 bytes/ });
});

/** Pillar requests of a minion that has many in progress. */

import test from 'ava';
import type { Reply } from '#master';
import type { VerifiedRequest } from '#master/auth/request-checks.ts';
import type { WireMap } from '#minion-protocol';
import { pillarRequest } from '#salt/pillar/pillar-request.ts';

type Provide = Parameters<typeof pillarRequest>[0]['provide'];

/** Returns a function that sends a request of a minion, with the given data as `pillar=`. */
function openRequests(
  provide: Provide,
  counted: string[],
  isKeyCurrent: () => boolean = () => true,
  kept: string[] = [],
) {
  const type = pillarRequest(
    { provide },
    {
      maxGrainsBytes: 1_000_000,
      modules: new Set(),
      merge: { strategy: 'smart', mergeLists: false },
      keepFacts: async ({ id }) => void kept.push(id),
      gate: { decide: () => ({ effect: 'deny', reason: 'none', rule: 'none' }) },
      counters: { count: (name: string) => void counted.push(name) },
      log: { error: () => {} },
    },
  );
  return async (minionId: string, override: WireMap = {}): Promise<Reply> => {
    const request: VerifiedRequest = {
      ...{
        minionId,
        isProven: true,
        isKeyCurrent,
        version: 3,
        nonce: undefined,
        ts: undefined,
      },
      ...{ address: '192.0.2.1', bytes: 100, mac: Buffer.alloc(0), packed: Buffer.alloc(0) },
      load: { cmd: '_pillar', id: minionId, grains: {}, pillar_override: override },
      encAlgo: 'OAEP-SHA1',
      sigAlgo: 'PKCS1v15-SHA1',
    };
    return type.handler(request);
  };
}

test('a minion has 4 pillar requests in progress, 64 may wait, and further ones get an error', async (t) => {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const counted: string[] = [];
  const provide = async ({ id }: { readonly id: string }) => {
    begun.push(id);
    await new Promise<void>((resolve) => ends.push(resolve));
    return { pillar: { id }, proven: {} };
  };
  const ask = openRequests(provide, counted);
  const served = Array.from({ length: 68 }, () => ask('greedy'));
  const refused = await Promise.race([ask('greedy'), new Promise(setImmediate)]);
  t.like(refused, { kind: 'private' });
  t.regex(JSON.stringify(refused), /salt\.pillarRequests: too many pillar requests/);
  t.deepEqual(counted, ['pillar-requests']);
  const other = ask('web1');
  await new Promise(setImmediate);
  t.deepEqual(begun, ['greedy', 'greedy', 'greedy', 'greedy', 'web1']);
  for (let next = 0; next < 69; next += 1) {
    ends[next]?.();
    await new Promise(setImmediate);
  }
  t.like(await other, { pillar: { id: 'web1' } });
  t.is((await Promise.all(served)).length, 68);
});

test('minions take turns when their pillar= is merged', async (t) => {
  const ask = openRequests(async ({ id }) => ({ pillar: { id }, proven: {} }), []);
  const replied: string[] = [];
  const ids = ['greedy', 'greedy', 'greedy', 'web1'];
  await Promise.all(
    ids.map(async (id) => {
      t.like(await ask(id, { tier: 'core' }), { pillar: { id, tier: 'core' } });
      replied.push(id);
    }),
  );
  t.deepEqual(replied, ['greedy', 'web1', 'greedy', 'greedy']);
});

test('a request is in progress until its pillar= is merged', async (t) => {
  let replied = 0;
  const repliedBefore: number[] = [];
  const ask = openRequests(async ({ id }) => {
    repliedBefore.push(replied);
    return { pillar: { id }, proven: {} };
  }, []);
  const count = async (): Promise<void> => {
    await ask('web1', { tier: 'core' });
    replied += 1;
  };
  await Promise.all(Array.from({ length: 8 }, count));
  t.deepEqual(repliedBefore.slice(0, 4), [0, 0, 0, 0]);
  t.true((repliedBefore.at(-1) ?? 0) > 0, `${repliedBefore}`);
});

test('a minion whose key is deleted while its pillar is compiled gets no pillar', async (t) => {
  let isAccepted = true;
  const kept: string[] = [];
  const provide = async () => {
    isAccepted = false;
    return { pillar: { secret: 1 }, proven: {} };
  };
  const ask = openRequests(provide, [], () => isAccepted, kept);
  const errors = ['The key of this minion is not accepted any more.'];
  t.deepEqual(await ask('web1'), { kind: 'private', pillar: { _errors: errors } });
  t.deepEqual(kept, []);
});

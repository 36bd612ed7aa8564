/** The way of facts: from a recorded pillar request to the minions that a target means. */
import test from 'ava';
import type { TargetPlan } from '../../../master/index.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { base64, keys } from '../../helpers/vectors.ts';

const request = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
const pillar = async (): Promise<{ role: string }> => ({ role: 'web' });
const refreshed = `minion/refresh/${keys.minionId}`;

/** The recorded request with these grains. */
function withGrains(grains: Record<string, string>): Buffer {
  return altered(request, { load: { grains, nonce: freshNonce() } });
}

async function reasonOf({ master }: VectorMaster, tgt: string, tgtType: string): Promise<string> {
  const { minions }: TargetPlan = await master.jobs.plan({ tgt, tgtType });
  return minions[0]?.reason ?? 'not meant';
}

test('what a minion says of itself, and the pillar that it gets, decide targets', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  t.is(await reasonOf(vector, 'os:Debian', 'grain'), 'facts-unknown');
  await vector.ask(withGrains({ os: 'Debian' }));
  t.is(await reasonOf(vector, 'os:Debian', 'grain'), 'matched');
  t.is(await reasonOf(vector, 'os:RedHat', 'grain'), 'not meant');
  t.is(await reasonOf(vector, 'role:web', 'pillar'), 'matched');
  t.is(await reasonOf(vector, 'role:w', 'pillar_exact'), 'not meant');
});

test('the id among the grains is the verified one', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  await vector.ask(withGrains({ id: 'other' }));
  t.is(await reasonOf(vector, 'id:other', 'grain'), 'not meant');
  t.is(await reasonOf(vector, `id:${keys.minionId}`, 'grain'), 'matched');
});

test('each pillar request tells that the facts are fresh, as a real master does', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  const events = await vector.eventsDuring(() => vector.ask(base64(request.request_b64)));
  t.like(events[0], { tag: refreshed, data: { 'Minion data cache refresh': keys.minionId } });
  t.is(events.length, 1);
});

test('minion_data_cache_events switches the event off, and the facts are kept', async (t) => {
  const config = { minionDataCacheEvents: false };
  const vector = await startVectorMaster(t, { pillar, config });
  const events = await vector.eventsDuring(() => vector.ask(withGrains({ os: 'Debian' })));
  t.deepEqual(events, []);
  t.is(await reasonOf(vector, 'os:Debian', 'grain'), 'matched');
});

test('without minion_data_cache nothing is known, and everybody may be meant', async (t) => {
  const vector = await startVectorMaster(t, { pillar, config: { minionDataCache: false } });
  const events = await vector.eventsDuring(() => vector.ask(withGrains({ os: 'Debian' })));
  t.deepEqual(events, []);
  t.is(await reasonOf(vector, 'os:RedHat', 'grain'), 'facts-unknown');
});

test('facts outlive the master', async (t) => {
  const first = await startVectorMaster(t, { pillar });
  await first.ask(withGrains({ os: 'Debian' }));
  await first.master.close();
  const { directory, store } = first;
  const second = await startVectorMaster(t, { directory, store });
  t.is(await reasonOf(second, 'os:Debian', 'grain'), 'matched');
});

async function afterDeletion(vector: VectorMaster): Promise<string[]> {
  await vector.ask(withGrains({ os: 'Debian' }));
  await vector.master.keys.delete({ match: keys.minionId });
  await vector.master.close();
  const kept: string[] = [];
  for await (const { key } of vector.store.list(['minion-data'])) kept.push(key.at(-1) ?? '');
  return kept;
}

test('facts are forgotten with the key', async (t) => {
  t.deepEqual(await afterDeletion(await startVectorMaster(t, { pillar })), []);
});

test('preserve_minion_cache keeps facts when the key is deleted', async (t) => {
  const vector = await startVectorMaster(t, { pillar, config: { preserveMinionCache: true } });
  t.deepEqual(await afterDeletion(vector), [keys.minionId]);
});

test('a pillar that cannot be kept is given to the minion all the same', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  const reply = await vector.ask(withGrains({ os: 'Debian' }));
  await vector.store.close();
  const again = await vector.ask(withGrains({ os: 'RedHat' }));
  t.true(again.length > reply.length / 2 && again.includes('pillar'));
});

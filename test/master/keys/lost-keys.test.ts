/** Keys that changed while no master ran: what the old ones could do ends at the next start. */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { openOfflineKeys, resolveMasterConfig } from '../../../master/index.ts';
import { isHeard, refusedAs } from '../../helpers/genuine-minion.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, recorded } from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const publishKey = ['secrets', 'publish-key'];

/** A master that knows the minion's version and session, stopped. */
async function runOnce(t: ExecutionContext): Promise<VectorMaster> {
  const first = await startVectorMaster(t);
  await isHeard(t, first);
  await first.master.close();
  return first;
}

async function publishKeyOf({ store }: VectorMaster): Promise<number | undefined> {
  return (await store.get(publishKey))?.revision;
}

test('nothing ends when no key was lost', async (t) => {
  const first = await runOnce(t);
  const before = await publishKeyOf(first);
  const second = await startVectorMaster(t, first);
  t.is(await publishKeyOf(first), before);
  await isHeard(t, second);
  const [info] = await second.master.keys.list();
  t.is(info?.protocol, 3);
});

test('a key deleted without a master loses its session and pin, and the publish key goes', async (t) => {
  const first = await runOnce(t);
  const before = await publishKeyOf(first);
  const offline = await openOfflineKeys(resolveMasterConfig(directories(first.directory)));
  t.deepEqual(await offline.keys.delete({ match: keys.minionId }), [
    { id: keys.minionId, from: 'accepted' },
  ]);
  await offline.close();
  const second = await startVectorMaster(t, first);
  t.not(await publishKeyOf(first), before);
  t.is(await refusedAs(second, altered(startEvent, {})), 'no-session');
  const pinned: unknown[] = [];
  for await (const entry of first.store.list(['pins'])) pinned.push(entry);
  t.deepEqual(pinned, []);
});

test('the session of a key does not serve another key under the same id', async (t) => {
  const first = await runOnce(t);
  const file = path.join(first.directory, 'pki', 'minions', keys.minionId);
  rmSync(file);
  writeFileSync(file, pem('minion2').publicPem);
  const before = await publishKeyOf(first);
  const second = await startVectorMaster(t, first);
  t.not(await publishKeyOf(first), before);
  t.is(await refusedAs(second, altered(startEvent, {})), 'no-session');
});

test('a loss ends something once: the start after the next one rotates nothing', async (t) => {
  const first = await runOnce(t);
  rmSync(path.join(first.directory, 'pki', 'minions', keys.minionId));
  const second = await startVectorMaster(t, first);
  await second.master.close();
  const before = await publishKeyOf(first);
  await startVectorMaster(t, first);
  t.is(await publishKeyOf(first), before);
});

test('with rotate_aes_key off the publish key stays', async (t) => {
  const first = await runOnce(t);
  rmSync(path.join(first.directory, 'pki', 'minions', keys.minionId));
  const before = await publishKeyOf(first);
  await startVectorMaster(t, { ...first, config: { rotateAesKey: false } });
  t.is(await publishKeyOf(first), before);
});

test('a denied key that takes the place of the accepted one ends its session', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions_denied', id: keys.minionId, publicPem: pem('minion2').publicPem },
    ],
  });
  await isHeard(t, master);
  await master.master.keys.accept({ match: keys.minionId, include: ['denied'] });
  t.is(await refusedAs(master, altered(startEvent, {})), 'no-session');
});

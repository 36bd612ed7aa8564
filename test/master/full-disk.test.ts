/**
 * A master with a full disk: it refuses what it cannot store, and continues with everything else.
 */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { resolveMasterConfig } from '#config';
import type { MasterEvent } from '#master';
import { createMinion, dialZeromq } from '#minion-protocol';
import { createMaster } from '#server';
import { until, within } from '../helpers/deadline.ts';
import { collect } from '../helpers/fleet.ts';
import { testWhere } from '../helpers/needs.ts';
import { layMasterKey, minionKeys } from '../helpers/rsa-keys.ts';
import { canMount, mountSmallDisk } from '../helpers/small-disk.ts';
import { directories } from '../helpers/vector-master.ts';

const onSmallDisk = testWhere(canMount, 'root, who may mount a tmpfs');

onSmallDisk(
  'a master with a full disk refuses writes, still serves, reports the cause, and recovers',
  async (t) => {
    const disk = mountSmallDisk(t, 4);
    const config = resolveMasterConfig({
      ...directories(disk.directory),
      interface: '127.0.0.1',
      retPort: 0,
      publishPort: 0,
      timeout: 30,
      limits: { authsPerSecond: 0 },
    });
    layMasterKey(config.pkiDir);
    const master = createMaster({ config });
    t.teardown(() => master.close());
    await master.start();
    const { requestPort } = await master.status();
    const dial = (): ReturnType<typeof dialZeromq> =>
      dialZeromq({ host: '127.0.0.1', requestPort });
    const keys = minionKeys(0);
    const pendingKeys = (): string[] => readdirSync(path.join(config.pkiDir, 'minions_pre'));
    const minion = createMinion({ id: 'm1', keys, transport: dial(), acceptanceWaitMs: 300 });
    t.teardown(() => minion.stop());
    const started = minion.start();
    while ((await master.keys.accept({ match: 'm1' })).length === 0) await sleep(5);
    await within('the first minion', started);
    const events: MasterEvent[] = [];
    const end = new AbortController();
    const following = (async (): Promise<void> => {
      for await (const event of await master.events.subscribe(
        { match: 'saltbridge/store/*' },
        end.signal,
      )) {
        events.push(event);
      }
    })();

    disk.fill();
    const ping = { tgt: 'm1', fun: 'test.ping' };
    await t.throwsAsync(master.jobs.publish(ping), { code: 'ERR_STORE_FULL' });
    await t.throwsAsync(master.jobs.publish(ping), { code: 'ERR_STORE_FULL' });
    t.deepEqual(await master.jobs.list(), []);
    t.true((await master.status()).storeFull);

    const other = createMinion({
      id: 'm2',
      keys: minionKeys(1),
      transport: dial(),
      acceptanceWaitMs: 300,
    });
    t.teardown(() => other.stop());
    const pending = other.start();
    pending.catch(() => {
      // The minion is stopped at the end of the test at the latest.
    });
    while (((await master.status()).counters.failed ?? 0) === 0) await sleep(5);
    t.deepEqual(pendingKeys(), []);
    // A known minion can sign in, because nothing has to be stored.
    const again = createMinion({ id: 'm1', keys, transport: dial() });
    t.teardown(() => again.stop());
    await within('a known minion to sign in', again.start());

    disk.free();
    await until('room', () => events.length === 2);
    t.deepEqual(
      events.map(({ tag }) => tag),
      ['saltbridge/store/full', 'saltbridge/store/room'],
    );
    const updates = await collect(master.jobs.run(ping));
    t.true(updates.some((update) => update.type === 'return' && update.minion === 'm1'));
    await until('the key of the newcomer', () => pendingKeys().includes('m2'));
    end.abort();
    await following;
  },
);

onSmallDisk(
  'a key that is deleted while the disk is full is revoked when space is available',
  async (t) => {
    const disk = mountSmallDisk(t, 4);
    const config = resolveMasterConfig({
      ...directories(disk.directory),
      interface: '127.0.0.1',
      retPort: 0,
      publishPort: 0,
      autoAccept: true,
    });
    layMasterKey(config.pkiDir);
    const master = createMaster({ config });
    t.teardown(() => master.close());
    await master.start();
    const { requestPort } = await master.status();
    const transport = dialZeromq({ host: '127.0.0.1', requestPort });
    const minion = createMinion({ id: 'm1', keys: minionKeys(0), transport });
    t.teardown(() => minion.stop());
    await minion.start();
    const tags: string[] = [];
    const end = new AbortController();
    const following = (async (): Promise<void> => {
      for await (const { tag } of await master.events.subscribe({ match: '*' }, end.signal))
        tags.push(tag);
    })();
    disk.fill();
    await t.throwsAsync(master.jobs.publish({ tgt: 'm1', fun: 'test.ping' }));
    await master.keys.delete({ match: 'm1' });
    await until('the key to be deleted', () => tags.includes('salt/key'));
    t.false(tags.includes('key'), 'the publish key cannot have been changed');
    disk.free();
    await until('another publish key', () => tags.includes('key'));
    end.abort();
    await following;
  },
);

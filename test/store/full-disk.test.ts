import { readdirSync } from 'node:fs';
import path from 'node:path';
import { openEmbeddedStore, StoreError } from '#store';
import { until } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { canMount, mountSmallDisk } from '../helpers/small-disk.ts';

const onSmallDisk = testWhere(canMount, 'root, who may mount a tmpfs');
const full = { instanceOf: StoreError, code: 'ERR_STORE_FULL' };
const value = Buffer.alloc(20_000, 1);

onSmallDisk('a full disk refuses writes, preserves data, and is reported once', async (t) => {
  const disk = mountSmallDisk(t, 4);
  const directory = path.join(disk.directory, 'store');
  const told: boolean[] = [];
  const store = await openEmbeddedStore({ directory, onFull: (isFull) => told.push(isFull) });
  t.teardown(() => store.close());
  const kept: string[] = [];
  const writeUntilFull = async (): Promise<void> => {
    for (let i = 0; ; i += 1) {
      await store.write([{ op: 'put', key: ['k', String(i)], value }]);
      kept.push(String(i));
    }
  };
  await t.throwsAsync(writeUntilFull(), full);
  const burst = Array.from({ length: 100 }, (_, i) =>
    store.write([{ op: 'put', key: ['burst', String(i)], value }]),
  );
  const outcomes = await Promise.allSettled(burst);
  t.true(outcomes.every(({ status }) => status === 'rejected'));
  t.true(store.isFull);
  t.deepEqual(told, [true]);
  for (const name of kept) t.truthy(await store.get(['k', name]), name);
  t.is(await store.get(['burst', '0']), undefined);
});

onSmallDisk('a store detects by itself that space is available again', async (t) => {
  const disk = mountSmallDisk(t, 4);
  const directory = path.join(disk.directory, 'store');
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  disk.fill();
  await t.throwsAsync(store.write([{ op: 'put', key: ['k'], value }]), full);
  disk.free();
  await until('room', () => !store.isFull);
  await t.notThrowsAsync(store.write([{ op: 'put', key: ['k'], value }]));
});

onSmallDisk('a backup without enough space is refused and leaves no file', async (t) => {
  const disk = mountSmallDisk(t, 4);
  const store = await openEmbeddedStore({ directory: path.join(disk.directory, 'store') });
  t.teardown(() => store.close());
  for (let i = 0; i < 20; i += 1) await store.write([{ op: 'put', key: ['k', `${i}`], value }]);
  disk.fill();
  await t.throwsAsync(store.backup(path.join(disk.directory, 'b.mdb')), full);
  t.deepEqual(readdirSync(disk.directory).sort(), ['ballast', 'store']);
  t.false(store.isFull);
});

onSmallDisk('on a full disk no store is created, and the process continues', async (t) => {
  const disk = mountSmallDisk(t, 1);
  const directory = path.join(disk.directory, 'store');
  disk.fill();
  await t.throwsAsync(openEmbeddedStore({ directory }), full);
  disk.free();
  await t.notThrowsAsync(openEmbeddedStore({ directory }).then((store) => store.close()));
});

onSmallDisk('an existing store opens on a full disk', async (t) => {
  const disk = mountSmallDisk(t, 1);
  const directory = path.join(disk.directory, 'store');
  const before = await openEmbeddedStore({ directory });
  await before.write([{ op: 'put', key: ['k'], value }]);
  await before.close();
  disk.fill();
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  t.truthy(await store.get(['k']));
});

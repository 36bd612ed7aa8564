import test from 'ava';
import { encodeKey } from '../../store/encoding.ts';
import { openLmdbTables } from '../../store/lmdb-tables.ts';
import { sweepExpired, TableStore } from '../../store/table-store.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

test('expired entries are swept in bounded steps, and only they', async (t) => {
  const tables = openLmdbTables(temporaryDirectory(t));
  const store = new TableStore(tables, () => 0);
  t.teardown(() => store.close());
  const value = Buffer.from('value');
  const puts = Array.from({ length: 1500 }, (_, i) => ({
    op: 'put' as const,
    key: ['n', String(i)],
    value,
    expiresAt: 10,
  }));
  await store.write(puts);
  await store.write([
    { op: 'put', key: ['n', '0'], value, expiresAt: 30 },
    { op: 'put', key: ['n', '1'], value },
    { op: 'delete', key: ['n', '2'] },
    { op: 'put', key: ['n', '2'], value, expiresAt: 21 },
  ]);
  t.is(await sweepExpired(tables, 20), 1000);
  t.is(await sweepExpired(tables, 20), 497);
  t.is(await sweepExpired(tables, 20), 0);
  t.truthy(tables.entries.get(encodeKey(['n', '0'])));
  t.truthy(tables.entries.get(encodeKey(['n', '1'])));
  t.is(await sweepExpired(tables, 22), 1);
  t.is(tables.entries.get(encodeKey(['n', '2'])), undefined);
  t.is(await sweepExpired(tables, 31), 1);
  const rest = tables.entries.range({ from: Buffer.alloc(0), to: Buffer.of(0xff) });
  t.deepEqual(
    rest.map(({ key }) => key),
    [encodeKey(['n', '1'])],
  );
});

/**
 * A program that creates backups of the store in the first directory until it is killed. They are
 * written to the second directory.
 */
import path from 'node:path';
import { openEmbeddedStore } from '#store';

const [directory = '', backups = ''] = process.argv.slice(2);
const store = await openEmbeddedStore({ directory });
for (let i = 0; i < 200; i += 1) {
  await store.write([{ op: 'put', key: ['k', String(i)], value: Buffer.alloc(50_000, i) }]);
}
for (let i = 0; ; i += 1) {
  await store.backup(path.join(backups, `${i}.mdb`));
  if (i === 3) process.send?.(i);
}

/** Writes without end to the store in the directory given, and tells its parent what is safe. */
import { openEmbeddedStore } from '#store';

const store = await openEmbeddedStore({ directory: process.argv[2] ?? '' });
for (let i = 0; ; i++) {
  await store.write([{ op: 'put', key: ['k', String(i)], value: Buffer.from('value') }]);
  process.send?.(i);
}

/**
 * A program that writes to the store in the given directory until it is killed, and reports each
 * durable write to its parent.
 */
import { openEmbeddedStore } from '#store';

const store = await openEmbeddedStore({ directory: process.argv[2] ?? '' });
for (let i = 0; ; i++) {
  await store.write([{ op: 'put', key: ['k', String(i)], value: Buffer.from('value') }]);
  process.send?.(i);
}

import { performance } from 'node:perf_hooks';
import type { Store } from '../../store/index.ts';
import type { Meter } from './meter.ts';

/** The same store; how long single reads and writes take is noted. */
export function meteredStore(store: Store, { storeReads, storeWrites }: Meter): Store {
  return {
    get: async (key) => {
      const begin = performance.now();
      try {
        return await store.get(key);
      } finally {
        storeReads.observe((performance.now() - begin) / 1000);
      }
    },
    write: async (operations) => {
      const begin = performance.now();
      try {
        return await store.write(operations);
      } finally {
        storeWrites.observe((performance.now() - begin) / 1000);
      }
    },
    list: (prefix, options) => store.list(prefix, options),
    watch: (prefix, signal) => store.watch(prefix, signal),
    stream: (name) => store.stream(name),
    close: () => store.close(),
  };
}

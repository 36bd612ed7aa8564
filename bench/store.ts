import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openEmbeddedStore, type Store } from '#store';

/** Result of {@link benchStore} for one number of concurrent writes. */
export interface StoreBenchResult {
  /** Number of concurrent writes. */
  readonly inFlight: number;
  readonly durableWritesPerSecond: number;
}

const measuredMs = 1500;

/**
 * Measures the durable writes of 200 bytes per second in the embedded store, with 1, 64 and 1,000
 * concurrent writes.
 * @param parent - directory in which a temporary store is created. The result depends on its disk
 */
export async function benchStore(parent: string = tmpdir()): Promise<StoreBenchResult[]> {
  const directory = await mkdtemp(path.join(parent, 'saltbridge-bench-'));
  const store = await openEmbeddedStore({ directory });
  try {
    const results: StoreBenchResult[] = [];
    for (const inFlight of [1, 64, 1000]) {
      results.push({ inFlight, durableWritesPerSecond: await measure(store, inFlight) });
    }
    return results;
  } finally {
    await store.close();
    await rm(directory, { recursive: true, force: true });
  }
}

async function measure(store: Store, inFlight: number): Promise<number> {
  const value = Buffer.alloc(200);
  const end = performance.now() + measuredMs;
  let written = 0;
  const writer = async (): Promise<void> => {
    while (performance.now() < end) {
      await store.write([{ op: 'put', key: ['bench', String(written++)], value }]);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, writer));
  return Math.round((written / measuredMs) * 1000);
}

import { keyOfExpiry, packNumber } from './row-layout.ts';
import type { RowTables, Tables } from './tables.ts';

const rowsPerSweep = 1000;

/**
 * Removes at most a thousand expired entries in a transaction. Resolves with the number of removed
 * entries.
 */
export async function sweepExpired(tables: Tables, now: number): Promise<number> {
  const range = { from: Buffer.alloc(0), to: packNumber(now), limit: rowsPerSweep };
  // This check runs outside a transaction, so that an idle store writes nothing.
  if (tables.expiries.range({ ...range, limit: 1 }).length === 0) return 0;
  return await tables.transaction(() => removeExpired(tables, now));
}

/**
 * Removes at most a thousand expired entries. Call it only inside a transaction. Returns the number
 * of removed entries.
 */
export function removeExpired(tables: RowTables, now: number): number {
  const range = { from: Buffer.alloc(0), to: packNumber(now), limit: rowsPerSweep };
  const rows = tables.expiries.range(range);
  for (const { key } of rows) {
    tables.entries.remove(keyOfExpiry(key));
    tables.expiries.remove(key);
  }
  return rows.length;
}

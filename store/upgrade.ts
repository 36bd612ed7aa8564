import { rm } from 'node:fs/promises';
import { type BackupReceipt, writeBackup } from './backup.ts';
import type { LmdbTables } from './lmdb-tables.ts';
import { layoutKey, layoutVersion, packNumber, readLayout } from './row-layout.ts';
import type { Table, Tables } from './tables.ts';

/** A store of an older layout was brought to the present one. */
export interface StoreUpgrade {
  readonly from: number;
  readonly to: number;
  /** The store as it was before, as a backup; it is kept until somebody removes it. */
  readonly old: BackupReceipt;
}

/**
 * Brings the tables to the present layout. The old store is kept as a backup beside the directory
 * (`<directory>-layout-<n>.mdb`) before the first change.
 * @returns what was done; `undefined` if there was nothing to do, or the store is a new one
 * @throws StoreError ERR_STORE_VERSION for a layout of a later version, ERR_STORE_FULL
 */
export async function upgradeTables(
  tables: LmdbTables,
  directory: string,
  now: Date,
): Promise<StoreUpgrade | undefined> {
  const layout = readLayout(tables, directory);
  if (layout === layoutVersion) return undefined;
  const old = isEmpty(tables)
    ? undefined
    : await backUpBeforeUpgrade(tables, directory, layout, now);
  // The rows are the same in all layouts. Programs of layout 1 do not know that another process may
  // have taken the directory over, and would write beside it: the number keeps them out.
  await tables.transaction(() => tables.meta.put(layoutKey, packNumber(layoutVersion)));
  return old === undefined ? undefined : { from: layout, to: layoutVersion, old };
}

/** An upgrade that was cut short left a copy of the same store: it is made again. */
async function backUpBeforeUpgrade(
  tables: LmdbTables,
  directory: string,
  layout: number,
  now: Date,
): Promise<BackupReceipt> {
  const file = `${directory}-layout-${layout}.mdb`;
  await rm(file, { force: true });
  return writeBackup((partial) => tables.copyTo(partial), file, now);
}

function isEmpty(tables: Tables): boolean {
  return [tables.entries, tables.expiries, tables.records, tables.meta].every(hasNoRows);
}

function hasNoRows(table: Table): boolean {
  const everything = { from: Buffer.alloc(0), to: Buffer.of(0xff) };
  return table.range({ ...everything, limit: 1 }).length === 0;
}

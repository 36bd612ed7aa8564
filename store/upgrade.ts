import { rm } from 'node:fs/promises';
import { type BackupReceipt, writeBackup } from './backup.ts';
import type { LmdbTables } from './lmdb-tables.ts';
import { layoutKey, layoutVersion, packNumber, readLayout } from './row-layout.ts';
import type { Table, Tables } from './tables.ts';

/** Result of upgrading a store of an older layout. */
export interface StoreUpgrade {
  readonly from: number;
  readonly to: number;
  /** Backup of the store before the upgrade. It is never deleted automatically. */
  readonly old: BackupReceipt;
}

/**
 * Upgrades the tables to the current layout. Before the first change it writes a backup of the old
 * store beside the directory (`<directory>-layout-<n>.mdb`).
 * @returns the result of the upgrade, or `undefined` if the layout is current or the store is new
 * @throws StoreError ERR_STORE_VERSION for a later layout, ERR_STORE_FULL
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
  // The rows are the same in all layouts. But programs that use layout 1 do not detect that another
  // process has taken over the directory, and would write at the same time. The new layout number
  // prevents them from opening the store.
  await tables.transaction(() => tables.meta.put(layoutKey, packNumber(layoutVersion)));
  return old === undefined ? undefined : { from: layout, to: layoutVersion, old };
}

/**
 * Writes a backup of the old store beside its directory. Replaces a backup that an interrupted
 * upgrade has left.
 */
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

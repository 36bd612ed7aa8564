/** Upgrades rows of the outbox that earlier versions wrote. */

import type { StateArea, StateOperation } from '#master';
import { isConflict } from '#store';
import { deadRow, outboxRow } from './outbox-records.ts';

const formKey = ['signals', 'form'];

/**
 * Converts records of an earlier version to the current format, once and in one transaction.
 * Earlier records are one line of JSON, or have no owner. Each record gets the owner of its handle,
 * so that this owner can see the record.
 */
export async function upgradeRecords(
  state: StateArea,
  ownerOf: (handle: string) => string | undefined,
): Promise<void> {
  if ((await state.get(formKey)) !== undefined) return;
  const operations: StateOperation[] = [
    { op: 'put', key: formKey, value: Buffer.from('2'), ifRevision: 0 },
  ];
  for (const part of ['outbox', 'dead']) {
    for await (const { key, value, expiresAt } of state.list(['signals', part])) {
      const row = part === 'dead' ? deadRow : outboxRow;
      const old = row.decode({ key, value });
      const owner = old.owner ?? (old.handle === undefined ? undefined : ownerOf(old.handle));
      const put = {
        op: 'put',
        key,
        value: row.encode(owner === undefined ? old : { ...old, owner }),
      } as const;
      operations.push(expiresAt === undefined ? put : { ...put, expiresAt });
    }
  }
  try {
    await state.write(operations);
  } catch (error) {
    // Another member of the cluster has already upgraded the records.
    if (!isConflict(error)) throw error;
  }
}

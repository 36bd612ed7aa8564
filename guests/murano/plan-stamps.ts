/** Stamp of the latest execution plan of each guest. It never decreases. */

import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { defineRow, fromJson, type RowOf, StoreError } from '#store';

/** Rows `murano/stamps/<guest>`. */
const stampRow = defineRow({
  name: 'stamp',
  schema: Type.Object({
    stamp: Type.Number(),
    /** Id of the execution plan, which may be sent again. */
    id: Type.String(),
  }),
  unversioned: fromJson,
});

type StoredStamp = RowOf<typeof stampRow>;

function stampKey(guest: string): readonly string[] {
  return ['murano', 'stamps', guest];
}

export async function lastStamp(
  { shared }: Pick<ExtensionHost, 'shared'>,
  guest: string,
): Promise<(StoredStamp & { readonly revision: number }) | undefined> {
  const row = await shared.get(stampKey(guest));
  if (row === undefined) return undefined;
  return { ...stampRow.decode(row), revision: row.revision };
}

/** Stores a stamp, unless a later one is stored. Resolves when it is durable. */
export async function storeStamp(
  host: Pick<ExtensionHost, 'shared'>,
  guest: string,
  stamp: StoredStamp,
): Promise<void> {
  const value = stampRow.encode(stamp);
  for (;;) {
    const last = await lastStamp(host, guest);
    if (last !== undefined && last.stamp >= stamp.stamp) return;
    const ifRevision = last?.revision ?? 0;
    try {
      await host.shared.write([{ op: 'put', key: stampKey(guest), value, ifRevision }]);
      return;
    } catch (error) {
      // Another member of the cluster has stored a stamp for the guest meanwhile.
      if (!(error instanceof StoreError && error.code === 'ERR_REVISION')) throw error;
    }
  }
}

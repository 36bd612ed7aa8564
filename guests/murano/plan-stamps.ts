/**
 * Stamps of execution plans: increasing numbers that prevent a replay. For each guest and project,
 * the latest stamp is stored until the guest is retired.
 */

import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { defineRow, fromJson, type RowOf, tryToWrite } from '#store';

/**
 * Rows `murano/stamps/<guest>/<project>` with the stamp of the latest execution plan: an increasing
 * number that prevents a replay. Each project has its own stamps.
 */
const stampRow = defineRow({
  name: 'stamp',
  schema: Type.Object({
    stamp: Type.Number(),
    /** Id of the execution plan. The same plan may be sent again. */
    id: Type.String(),
  }),
  unversioned: fromJson,
});

type StoredStamp = RowOf<typeof stampRow>;

const prefix = ['murano', 'stamps'];

/** Guest that runs execution plans, and the project that sends them. */
interface StampOwner {
  readonly guest: string;
  readonly project: string;
}

/** Stamps are counted in units of 0.1 milliseconds since 1970 [murano engine/system/agent.py]. */
const unitsPerMs = 10;
/**
 * Maximum time by which the stamp of an execution plan may be ahead of the clock, in milliseconds.
 */
const maxAheadMs = 86_400_000;

/**
 * Whether a stamp is too far in the future. If it were accepted, later execution plans of the guest
 * would be rejected.
 * @param now - milliseconds since 1970
 */
export function isTooFarAhead(stamp: number, now: number): boolean {
  return stamp > (now + maxAheadMs) * unitsPerMs;
}

/** Deletes the stamps of a retired guest. */
export async function forgetStamps(
  { shared }: Pick<ExtensionHost, 'shared'>,
  guest: string,
): Promise<void> {
  await shared.write([{ op: 'delete-prefix', prefix: [...prefix, guest] }]);
}

function stampKey({ guest, project }: StampOwner): readonly string[] {
  return [...prefix, guest, project];
}

export async function lastStamp(
  { shared }: Pick<ExtensionHost, 'shared'>,
  whose: StampOwner,
): Promise<(StoredStamp & { readonly revision: number }) | undefined> {
  const row = await shared.get(stampKey(whose));
  if (row === undefined) return undefined;
  return { ...stampRow.decode(row), revision: row.revision };
}

/** Stores a stamp, unless a later one is stored. Resolves when it is durable. */
export async function storeStamp(
  host: Pick<ExtensionHost, 'shared'>,
  whose: StampOwner,
  stamp: StoredStamp,
): Promise<void> {
  const value = stampRow.encode(stamp);
  for (;;) {
    const last = await lastStamp(host, whose);
    if (last !== undefined && last.stamp >= stamp.stamp) return;
    const ifRevision = last?.revision ?? 0;
    const put = { op: 'put', key: stampKey(whose), value, ifRevision } as const;
    // Fails if another cluster member has stored a stamp for the guest in the meantime.
    if (await tryToWrite(host.shared, [put])) return;
  }
}

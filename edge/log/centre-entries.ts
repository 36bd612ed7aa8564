/**
 * Stores returns, events and audit records of sites at the centre, and publishes them on the event
 * bus. Only the latest entries of each site remain stored.
 */

import Type, { type Static } from 'typebox';
import { type ExtensionHost, extensionMethod, type StateArea, type StateOperation } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { Bytes, defineRow, type Key, retryConflicts } from '#store';
import { hasEnded, siteRow, sitesPrefix } from '../identity/site-rows.ts';
import { edgeLimits } from '../limits.ts';
import type { CentreContext, CentrePartContribution } from '../parts.ts';
import type { LogClass, LogEntry, LogEntryHandler } from './log.ts';
import { decodeValue, stepsOfByte } from './log-codec.ts';

/** Classes of log entries that the centre stores and publishes. */
const classes = ['alarm', 'return'] as const;

/**
 * Maximum number of stored entries for each site and class. `maxBytes` is their maximum total size
 * in bytes.
 */
const { perOwner: maxEntries = 0 } = edgeLimits.keptEntries;
const { perOwner: maxBytes = 0 } = edgeLimits.keptEntryBytes;

/** Number of steps that a {@link WorkBudget} counts for encoding a row, in addition to its bytes. */
const stepsOfRow = 500;

/** Maximum number of entries that one write deletes. */
const maxDeleted = 2048;

/** Maximum number of attempts to delete entries while other members change the same rows. */
const maxAttempts = 16;

const entryRow = defineRow({
  name: 'entry of a site',
  schema: Type.Object({
    sequence: Type.Integer({ minimum: 1 }),
    kind: Type.String(),
    ms: Type.Integer({ minimum: 0 }),
    count: Type.Integer({ minimum: 0 }),
    receivedAt: Type.Integer({ minimum: 0 }),
    value: Bytes,
  }),
});

const Kept = Type.Object({
  /**
   * Number of the next entry that the centre stores. The centre assigns these numbers itself; they
   * are not the sequence numbers of the site.
   */
  next: Type.Integer({ minimum: 1 }),
  entries: Type.Integer({ minimum: 0 }),
  /** Total size of the rows of all stored entries, in bytes. */
  bytes: Type.Integer({ minimum: 0 }),
});

const keptPrefix = ['centre', 'kept'];

/**
 * Encodes and decodes the row `['centre', 'kept', site, class]`. It contains the number and total
 * size of the stored entries of this site and log class.
 */
const keptRow = defineRow({ name: 'number of stored entries of a site', schema: Kept });

/** Entry of a site's log, in the form in which RPC methods of the centre return it. */
export interface StoredEntry {
  readonly site: string;
  readonly class: LogClass;
  readonly sequence: number;
  readonly kind: string;
  /** Time of the entry in milliseconds since 1970, by the clock of the site. */
  readonly at: number;
  readonly receivedAt: number;
  /** Whether the site was revoked after the centre had received the entry. Otherwise absent. */
  readonly isBeforeRevocation?: true;
  readonly value: WireMap;
}

const EntryQuery = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 63 }),
    kind: Type.Optional(Type.String({ maxLength: 64 })),
    jid: Type.Optional(Type.String({ maxLength: 64 })),
    minion: Type.Optional(Type.String({ maxLength: 256 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: maxEntries })),
  },
  { additionalProperties: false },
);
type EntryQuery = Static<typeof EntryQuery>;

/**
 * Part of the extension `site-centre`. It stores and publishes returns, events and audit records of
 * sites.
 */
export function openEntries({ host, ingest, claims }: CentreContext): CentrePartContribution {
  const handler: LogEntryHandler = {
    batchOperations: (entries) => keep(host, entries),
    applied: (entry) => publish(host, entry),
  };
  for (const kind of ['event', 'audit']) ingest.on(kind, handler);
  ingest.on('return', {
    ...handler,
    operations: ({ site, value }) => {
      if (typeof value.minion === 'string') claims.requireFree(site, value.minion);
      return [];
    },
  });
  return {
    forget: (site) => forgetEntries(host.shared, site),
    rpc: {
      entries: extensionMethod({
        parameters: EntryQuery,
        call: (_api, query) => findEntries(host.shared, query),
      }),
    },
  };
}

/** Returns the latest stored entries of a site that match the query, latest first. */
export async function findEntries(
  { get, list }: Pick<StateArea, 'get' | 'list'>,
  { name, kind, jid, minion, limit = 100 }: EntryQuery,
): Promise<readonly StoredEntry[]> {
  const site = await get([...sitesPrefix, name]);
  const revokedAt = (site && siteRow.decode(site).revokedAt) ?? -Infinity;
  const found: StoredEntry[] = [];
  const budget = new WorkBudget(unlimitedSteps);
  for (const each of classes) {
    let count = 0;
    for await (const { key, value } of list(entriesOf(name, each), { reverse: true })) {
      await budget.giveWayAfter(value.length * stepsOfByte);
      const row = entryRow.decode({ key, value });
      if (kind !== undefined && row.kind !== kind) continue;
      const content = decodeValue(row.value);
      if (jid !== undefined && content.jid !== jid) continue;
      if (minion !== undefined && content.minion !== minion) continue;
      found.push({
        site: name,
        class: each,
        sequence: row.sequence,
        kind: row.kind,
        at: row.ms,
        receivedAt: row.receivedAt,
        ...(row.receivedAt <= revokedAt ? { isBeforeRevocation: true } : {}),
        value: content,
      });
      count += 1;
      if (count === limit) break;
    }
  }
  return found.sort((a, b) => b.at - a.at).slice(0, limit);
}

/** Returns the names of the sites of which the centre stores entries. */
export async function sitesWithEntries({
  list,
}: Pick<StateArea, 'list'>): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const { key } of list(keptPrefix)) names.add(key.at(-2) ?? '');
  return names;
}

/**
 * Deletes the entries of a site that was revoked or has left this centre, in several writes. Stops
 * if the site has joined again meanwhile.
 */
async function forgetEntries(shared: StateArea, site: string): Promise<void> {
  for (const name of classes) {
    let isLeft = true;
    while (isLeft) {
      isLeft = await retryConflicts(() => forgetOldest(shared, site, name), maxAttempts);
    }
  }
}

/**
 * Deletes the oldest entries of a site and class. Each write also changes the stored number of
 * entries, so that a crash between two writes leaves a correct number.
 * @returns whether further entries must be deleted
 */
async function forgetOldest(shared: StateArea, site: string, name: LogClass): Promise<boolean> {
  const siteKey = [...sitesPrefix, site];
  const siteEntry = await shared.get(siteKey);
  const key = [...keptPrefix, site, name];
  const stored = await shared.get(key);
  const isEnded = siteEntry !== undefined && hasEnded(siteRow.decode(siteEntry));
  if (!isEnded || stored === undefined) return false;
  const all = { entries: Infinity, bytes: Infinity };
  const { keys, bytes } = await oldestOf(shared, entriesOf(site, name), all);
  const isLeft = keys.length === maxDeleted;
  const { revision: ifRevision } = stored;
  const kept = keptRow.decode(stored);
  const left = { ...kept, entries: kept.entries - keys.length, bytes: kept.bytes - bytes };
  await shared.write([
    { op: 'require', key: siteKey, ifRevision: siteEntry.revision },
    ...keys.map((each): StateOperation => ({ op: 'delete', key: each })),
    isLeft
      ? { op: 'put', key, value: keptRow.encode(left), ifRevision }
      : { op: 'delete', key, ifRevision },
  ]);
  return isLeft;
}

/** Returns the key prefix of the log entries of a site and class. */
function entriesOf(site: string, name: LogClass): Key {
  return ['centre', 'entry', site, name];
}

/**
 * Returns operations that store entries of a site and class, and delete the oldest entries if a
 * limit would be exceeded. Numbers the stored entries in the order of their arrival. The sequence
 * numbers of the site are unsuitable, because they may have gaps, and a new log may begin with any
 * number.
 */
async function keep(
  { shared, now }: Pick<ExtensionHost, 'now' | 'shared'>,
  entries: readonly LogEntry[],
): Promise<readonly StateOperation[]> {
  const [first] = entries;
  if (first === undefined) return [];
  const { site, class: name } = first;
  const rows: Uint8Array[] = [];
  const budget = new WorkBudget(unlimitedSteps);
  for (const { sequence, kind, at, packed } of entries) {
    await budget.giveWayAfter(stepsOfRow + packed.length);
    rows.push(entryRow.encode({ sequence, kind, ...at, receivedAt: now(), value: packed }));
  }
  const newBytes = rows.reduce((sum, row) => sum + row.length, 0);
  const key = [...keptPrefix, site, name];
  const stored = await shared.get(key);
  let ifRevision = stored?.revision ?? 0;
  let kept = stored === undefined ? { next: 1, entries: 0, bytes: 0 } : keptRow.decode(stored);
  for (;;) {
    const excess = {
      entries: kept.entries + rows.length - maxEntries,
      bytes: kept.bytes + newBytes - maxBytes,
    };
    const oldest = await oldestOf(shared, entriesOf(site, name), excess);
    kept = {
      next: kept.next,
      entries: kept.entries - oldest.keys.length,
      bytes: kept.bytes - oldest.bytes,
    };
    const deletions = oldest.keys.map((each): StateOperation => ({ op: 'delete', key: each }));
    if (deletions.length < maxDeleted) {
      const puts = rows.map((value, index): StateOperation => {
        const place = String(kept.next + index).padStart(16, '0');
        return { op: 'put', key: [...entriesOf(site, name), place], value };
      });
      const value = keptRow.encode({
        next: kept.next + rows.length,
        entries: kept.entries + rows.length,
        bytes: kept.bytes + newBytes,
      });
      return [...deletions, ...puts, { op: 'put', key, value, ifRevision }];
    }
    const value = keptRow.encode(kept);
    ifRevision = await shared.write([...deletions, { op: 'put', key, value, ifRevision }]);
  }
}

/**
 * Returns the keys and the total size of the oldest entries that must be deleted to comply with the
 * limits. Returns at most {@link maxDeleted} keys.
 * @param excess - number of entries and bytes above the limits
 */
async function oldestOf(
  { list }: Pick<StateArea, 'list'>,
  prefix: Key,
  excess: { readonly entries: number; readonly bytes: number },
): Promise<{ readonly keys: readonly Key[]; readonly bytes: number }> {
  const keys: Key[] = [];
  let bytes = 0;
  if (excess.entries <= 0 && excess.bytes <= 0) return { keys, bytes };
  for await (const { key, value } of list(prefix, { limit: maxDeleted })) {
    if (keys.length >= excess.entries && bytes >= excess.bytes) break;
    keys.push(key);
    bytes += value.length;
  }
  return { keys, bytes };
}

/**
 * Publishes an entry as an event of this centre. The tag of the event is `saltbridge/site/<name>/`,
 * followed by the tag that the event has at the site. Reactions to it count for the site.
 */
function publish({ fire }: Pick<ExtensionHost, 'fire'>, { site, kind, value }: LogEntry): void {
  // Ids of minions contain no slash, so that no minion is the same owner.
  const owner = `site/${site}`;
  if (kind === 'event') {
    fire(`${site}/${textOf(value.tag)}`, { ...mapOf(value.data), site }, owner);
    return;
  }
  const place =
    kind === 'return'
      ? `salt/job/${textOf(value.jid)}/ret/${textOf(value.minion)}`
      : `audit/${textOf(value.action)}`;
  fire(`${site}/${place}`, { ...value, site }, owner);
}

function textOf(value: WireValue | undefined): string {
  return typeof value === 'string' ? value.slice(0, 1024) : '';
}

function mapOf(value: WireValue | undefined): WireMap {
  return isWireMap(value) ? value : {};
}

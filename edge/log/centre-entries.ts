/**
 * Stores returns, events and audit records of sites at the centre, and publishes them on the event
 * bus. Only the latest entries of each site remain stored.
 */

import Type from 'typebox';
import { type ExtensionHost, extensionMethod, type StateOperation } from '#master';
import { isWireMap, packLocal, type WireMap, type WireValue } from '#minion-protocol';
import { Bytes, defineRow, type Key } from '#store';
import type { CentreContext, CentrePartContribution } from '../parts.ts';
import type { LogClass, LogEntry } from './log.ts';
import { decodeValue } from './log-codec.ts';

/** Maximum number of stored entries for each site and class. */
const keptEntries = 10_000;

/** Number of entries of a site and class between two deletions of old entries. */
const entriesOfTrim = 64;

/**
 * Maximum number of entries that one deletion removes from each end. It exceeds
 * {@link entriesOfTrim}, so that entries are deleted faster than a site adds them.
 */
const maxTrimmed = 256;

/**
 * Age at which an entry of a former log is deleted, in milliseconds. Another member of the cluster
 * may have just stored an entry with a higher number.
 */
const formerLogMs = 60_000;

const entryRow = defineRow({
  name: 'entry of a site',
  schema: Type.Object({
    kind: Type.String(),
    ms: Type.Integer({ minimum: 0 }),
    count: Type.Integer({ minimum: 0 }),
    receivedAt: Type.Integer({ minimum: 0 }),
    value: Bytes,
  }),
});

/** Entry of a site, as RPC methods of the centre return it. */
export interface StoredEntry {
  readonly site: string;
  readonly class: LogClass;
  readonly sequence: number;
  readonly kind: string;
  /** Time of the entry in milliseconds since 1970, by the clock of the site. */
  readonly at: number;
  readonly receivedAt: number;
  readonly value: WireMap;
}

const Query = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 63 }),
    kind: Type.Optional(Type.String({ maxLength: 64 })),
    jid: Type.Optional(Type.String({ maxLength: 64 })),
    minion: Type.Optional(Type.String({ maxLength: 256 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: keptEntries })),
  },
  { additionalProperties: false },
);

/** Classes of the entries that are stored and published. */
const classes = ['alarm', 'return'] as const;

/**
 * Part of the extension `site-centre`. It stores and publishes returns, events and audit records of
 * sites.
 */
export function openEntries({ host, ingest }: CentreContext): CentrePartContribution {
  const trimmer = new EntryTrimmer(host);
  for (const kind of ['return', 'event', 'audit']) {
    ingest.on(kind, {
      operations: (entry) => [storing(host, entry)],
      applied: async (entry) => {
        publish(host, entry.site, kind, entry.value);
        await trimmer.note(entry);
      },
    });
  }
  return {
    rpc: {
      entries: extensionMethod({
        parameters: Query,
        call: async (_api, { name, kind, jid, minion, limit = 100 }) => {
          const found: StoredEntry[] = [];
          for (const each of classes) {
            const rows = host.shared.list(['centre', 'entry', name, each], { reverse: true });
            let count = 0;
            for await (const { key, value } of rows) {
              const row = entryRow.decode({ key, value });
              if (kind !== undefined && row.kind !== kind) continue;
              const content = decodeValue(row.value);
              if (jid !== undefined && content.jid !== jid) continue;
              if (minion !== undefined && content.minion !== minion) continue;
              found.push({
                site: name,
                class: each,
                sequence: Number(key.at(-1)),
                kind: row.kind,
                at: row.ms,
                receivedAt: row.receivedAt,
                value: content,
              });
              count += 1;
              if (count === limit) break;
            }
          }
          return found.sort((a, b) => b.at - a.at).slice(0, limit);
        },
      }),
    },
  };
}

/** Returns the store operation that stores an entry. */
function storing(
  { now }: Pick<ExtensionHost, 'now'>,
  { site, class: name, sequence, kind, at, value }: LogEntry,
): StateOperation {
  const row = { kind, ...at, receivedAt: now(), value: packLocal(value) };
  return { op: 'put', key: keyOf(site, name, sequence), value: entryRow.encode(row) };
}

/**
 * Deletes entries that are not among the latest. A site may skip sequence numbers, or begin a new
 * log with any number, so old entries are searched for at both ends.
 */
class EntryTrimmer {
  readonly #host: Pick<ExtensionHost, 'now' | 'shared'>;
  /** Number of entries since the last deletion, by site and class. */
  readonly #counts = new Map<string, number>();

  constructor(host: Pick<ExtensionHost, 'now' | 'shared'>) {
    this.#host = host;
  }

  async note({ site, class: name, sequence }: LogEntry): Promise<void> {
    const place = `${site} ${name}`;
    const count = (this.#counts.get(place) ?? 0) + 1;
    this.#counts.set(place, count % entriesOfTrim);
    if (count < entriesOfTrim) return;
    const prefix = ['centre', 'entry', site, name];
    const keys: Key[] = [];
    for await (const { key } of this.#host.shared.list(prefix)) {
      if (keys.length === maxTrimmed || Number(key.at(-1)) > sequence - keptEntries) break;
      keys.push(key);
    }
    const oldest = keys.length;
    const before = this.#host.now() - formerLogMs;
    for await (const entry of this.#host.shared.list(prefix, { reverse: true })) {
      const isFull = keys.length === oldest + maxTrimmed;
      if (isFull || Number(entry.key.at(-1)) <= sequence) break;
      if (entryRow.decode(entry).receivedAt >= before) break;
      keys.push(entry.key);
    }
    if (keys.length === 0) return;
    await this.#host.shared.write(keys.map((key) => ({ op: 'delete', key })));
  }
}

function keyOf(site: string, name: LogClass, sequence: number): readonly string[] {
  return ['centre', 'entry', site, name, String(sequence).padStart(16, '0')];
}

/**
 * Publishes an entry as an event of this centre. The tag of the event is `saltbridge/site/<name>/`,
 * followed by the tag that it has at the site.
 */
function publish(
  { fire }: Pick<ExtensionHost, 'fire'>,
  site: string,
  kind: string,
  value: WireMap,
): void {
  if (kind === 'event') {
    fire(`${site}/${textOf(value.tag)}`, { ...mapOf(value.data), site });
    return;
  }
  const place =
    kind === 'return'
      ? `salt/job/${textOf(value.jid)}/ret/${textOf(value.minion)}`
      : `audit/${textOf(value.action)}`;
  fire(`${site}/${place}`, { ...value, site });
}

function textOf(value: WireValue | undefined): string {
  return typeof value === 'string' ? value.slice(0, 1024) : '';
}

function mapOf(value: WireValue | undefined): WireMap {
  return isWireMap(value) ? value : {};
}

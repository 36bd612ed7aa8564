/**
 * Stores returns, events and audit records of sites at the centre, and publishes them on the event
 * bus. Only the latest entries of each site remain stored.
 */

import Type from 'typebox';
import { type ExtensionHost, extensionMethod, type StateOperation } from '#master';
import { isWireMap, packLocal, type WireMap, type WireValue } from '#minion-protocol';
import { Bytes, defineRow } from '#store';
import type { CentreContext, CentrePartContribution } from '../parts.ts';
import type { LogClass, LogEntry } from './log.ts';
import { decodeValue } from './log-codec.ts';

/** Maximum number of stored entries for each site and class. */
const keptEntries = 10_000;

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
  for (const kind of ['return', 'event', 'audit']) {
    ingest.on(kind, {
      operations: (entry) => storing(host, entry),
      applied: ({ site, value }) => publish(host, site, kind, value),
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

/**
 * Returns store operations that store an entry. If there are more than {@link keptEntries} entries
 * then, they also delete the oldest one.
 */
function storing(
  { now }: Pick<ExtensionHost, 'now'>,
  { site, class: name, sequence, kind, at, value }: LogEntry,
): readonly StateOperation[] {
  const row = { kind, ...at, receivedAt: now(), value: packLocal(value) };
  const put = { op: 'put', key: keyOf(site, name, sequence), value: entryRow.encode(row) } as const;
  if (sequence <= keptEntries) return [put];
  return [put, { op: 'delete', key: keyOf(site, name, sequence - keptEntries) }];
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
    fire(`${site}/${textOf(value.tag)}`, { site, ...mapOf(value.data) });
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

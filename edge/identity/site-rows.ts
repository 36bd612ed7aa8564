/** Stored rows of the centre about its sites. */

import Type from 'typebox';
import { Bytes, defineRow, type RowOf } from '#store';

const Time = Type.Integer({ minimum: 0 });

/**
 * States of a site. `invited`: has a ticket, but has not joined yet. `expected`: imported from
 * another centre, and not connected yet. `rehomed`: has another centre now.
 */
export type SiteState = 'invited' | 'joined' | 'revoked' | 'expected' | 'rehomed';

const Site = Type.Object({
  name: Type.String(),
  state: Type.Unsafe<SiteState>(Type.String()),
  /** Public key of the site. */
  key: Type.Optional(Bytes),
  /**
   * Key that the site has offered as its next key. The offered key replaces `key` when the site
   * first connects with it.
   */
  nextKey: Type.Optional(Bytes),
  joinedAt: Type.Optional(Time),
  /** Time of the latest revocation. The site may have joined again since then. */
  revokedAt: Type.Optional(Time),
  /**
   * Former centre of an imported site. `at` is the time at which the site first connected to the
   * centre that imported it.
   */
  from: Type.Optional(Type.Object({ centre: Type.String(), at: Type.Optional(Time) })),
  /** Next centre of a site in the state `rehomed`, and the time of the change. */
  to: Type.Optional(Type.Object({ centre: Type.String(), at: Time })),
  /** Latest ticket of the site. `usedBy` is the public key of the site that has joined with it. */
  ticket: Type.Optional(
    Type.Object({
      id: Type.String(),
      expiresAt: Time,
      usedBy: Type.Optional(Bytes),
    }),
  ),
});

/** Prefix of the keys of {@link siteRow}. */
export const sitesPrefix = ['centre', 'site'] as const;

/** Encodes and decodes the row about a site. The key of the row is `['centre', 'site', name]`. */
export const siteRow = defineRow({ name: 'site', schema: Site });
export type SiteRow = RowOf<typeof siteRow>;

/** Whether a site was revoked, or has left this centre. */
export function hasEnded({ state }: Pick<SiteRow, 'state'>): boolean {
  return state === 'revoked' || state === 'rehomed';
}

/**
 * Prefix of the rows `['centre', 'ended', name]`. Such a row exists while data of a site must still
 * be deleted because the site was revoked or has left this centre. Its value is empty.
 */
export const endedPrefix = ['centre', 'ended'] as const;

const Contact = Type.Object({
  at: Time,
  version: Type.String(),
  address: Type.String(),
  /** Clock of the site minus clock of the centre, in milliseconds. */
  clockDifferenceMs: Type.Number(),
});

/**
 * Encodes and decodes the last contact of a site. The key of the row is
 * `['centre', 'contact', name]`.
 */
export const contactRow = defineRow({ name: 'contact of a site', schema: Contact });
export type SiteContact = RowOf<typeof contactRow>;

const Position = Type.Object({
  /**
   * Id of the site's log. If the id changes, the centre accepts the entries of the new log from any
   * sequence number.
   */
  log: Type.String(),
  /** Sequence number of the last entry that the centre has applied. */
  sequence: Type.Integer({ minimum: 0 }),
  /** Time of the last applied entry, in milliseconds since 1970 by the clock of the site. */
  ms: Type.Number(),
  /** Number of entries that the site dropped because the log of the site was full. */
  dropped: Type.Integer({ minimum: 0 }),
  /** Number of entries that the centre refused. */
  refused: Type.Integer({ minimum: 0 }),
});

/**
 * Encodes and decodes the position up to which the centre has applied a site's log. The key of the
 * row is `['centre', 'position', name, class]`.
 */
export const positionRow = defineRow({ name: 'log position of a site', schema: Position });
export type LogPosition = RowOf<typeof positionRow>;

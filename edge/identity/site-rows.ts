/** Rows of the centre about its sites. */

import Type from 'typebox';
import { Bytes, defineRow, type RowOf } from '#store';

const Time = Type.Integer({ minimum: 0 });

const Site = Type.Object({
  name: Type.String(),
  state: Type.Unsafe<'invited' | 'joined' | 'revoked'>(Type.String()),
  /** Public key of the site. */
  key: Type.Optional(Bytes),
  /** Key that the site has offered. It becomes the key when the site first uses it. */
  nextKey: Type.Optional(Bytes),
  joinedAt: Type.Optional(Time),
  revokedAt: Type.Optional(Time),
  /** Ticket that was issued last. `usedBy` is the key that has joined with it. */
  ticket: Type.Optional(
    Type.Object({
      id: Type.String(),
      expiresAt: Time,
      usedBy: Type.Optional(Bytes),
    }),
  ),
});

/** Codec of the identity of a site: `['centre', 'site', name]`. */
export const siteRow = defineRow({ name: 'site', schema: Site });
export type SiteRow = RowOf<typeof siteRow>;

const Contact = Type.Object({
  at: Time,
  version: Type.String(),
  address: Type.String(),
  /** Clock of the site minus clock of the centre, in milliseconds. */
  clockDifferenceMs: Type.Number(),
});

/** Codec of the last contact of a site: `['centre', 'contact', name]`. */
export const contactRow = defineRow({ name: 'contact of a site', schema: Contact });
export type SiteContact = RowOf<typeof contactRow>;

const Position = Type.Object({
  /** Id of the log. If the site creates its log again, the sequences begin again. */
  log: Type.String(),
  /** Sequence of the last entry that was applied. */
  sequence: Type.Integer({ minimum: 0 }),
  /** Time of that entry by the clock of the site, in milliseconds since 1970. */
  ms: Type.Number(),
  /** Entries that the site dropped because its log was full. */
  dropped: Type.Integer({ minimum: 0 }),
  /** Entries that the centre refused. */
  refused: Type.Integer({ minimum: 0 }),
});

/** Codec of the position of a site and class: `['centre', 'position', name, class]`. */
export const positionRow = defineRow({ name: 'log position of a site', schema: Position });
export type LogPosition = RowOf<typeof positionRow>;

/** The stored row of a job, and the publications that brought the job to its minions. */

import Type from 'typebox';
import { localField, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { defineRow, type RowOf, Texts } from '#store';
import type { PublicationId } from './publication-log.ts';

/** A publication that brought a job to some of its minions. */
interface JobPublication extends PublicationId {
  /** How many: the next ones in the list of the job's minions. */
  readonly minions: number;
}

const fields = {
  jid: Type.String(),
  /** A list: several functions in one job. */
  fun: Type.Union([Type.String(), Texts]),
  /**
   * Positional values, keywords last as a map with `__kwarg__` [WIRE 11.5]. For several functions
   * such a list for each.
   */
  arg: Type.Unsafe<readonly WireValue[]>(Type.Array(Type.Unknown())),
  tgt: Type.Union([Type.String(), Texts]),
  tgtType: Type.String(),
  user: Type.String(),
  /** Ids that it was published to. */
  minions: Texts,
  /** Names in the target that it was not published to. */
  missing: Texts,
  /** Present if the rights of the user limited the target. */
  isNarrowed: Type.Optional(Type.Literal(true)),
  /** Milliseconds since 1970. */
  publishedAt: Type.Number(),
  /** Whether a minion started it itself (`jid: req`). */
  selfMade: Type.Boolean(),
  /** Subscribers that were passed over because their queue was full. Absent: none. */
  skipped: Type.Optional(Type.Number()),
  /** Which minions it was published to together, in their order. Absent: not known. */
  publications: Type.Optional(
    Type.Unsafe<readonly JobPublication[]>(
      Type.Array(
        Type.Object({ process: Type.String(), number: Type.Number(), minions: Type.Number() }),
      ),
    ),
  ),
  /** As it was published with the job. */
  metadata: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
  /** The minion that asked for it. Absent: an operator, or a service. */
  requestedBy: Type.Optional(Type.String()),
};

/** Rows `jobs/<jid>` [WIRE 15.4]. */
export const jobRow = defineRow({
  name: 'job',
  schema: Type.Object(fields),
  packed: { arg: localField, metadata: localField },
  unversioned: unpackLocal,
});

/** A published job, as it is stored. */
export type JobRecord = RowOf<typeof jobRow>;

interface Slice {
  readonly publication: JobPublication;
  readonly minions: readonly string[];
}

/** The minions of those publications of a job for which `isMeant` is true. */
export function minionsOfPublications(
  record: JobRecord,
  isMeant: (publication: PublicationId) => boolean,
): ReadonlySet<string> {
  const meant = slicesOf(record).filter(({ publication }) => isMeant(publication));
  return new Set(meant.flatMap(({ minions }) => minions));
}

/** The job with one more slice, whose minions are in no other one then. */
export function withSlice(kept: JobRecord, slice: JobRecord): JobRecord {
  const added = new Set(slice.minions);
  const isLeft = (id: string): boolean => !added.has(id);
  const minions = [...kept.minions.filter(isLeft), ...slice.minions];
  const left = slicesOf(kept).map((it) => ({
    ...it.publication,
    minions: it.minions.filter(isLeft).length,
  }));
  const publications = [...left, ...(slice.publications ?? [])].filter((it) => it.minions > 0);
  return {
    ...kept,
    minions,
    missing: [...new Set([...kept.missing, ...slice.missing])],
    tgt: minions,
    tgtType: 'list',
    ...(kept.publications === undefined ? {} : { publications }),
  };
}

function slicesOf({ minions, publications = [] }: JobRecord): readonly Slice[] {
  let end = 0;
  return publications.map((publication) => {
    const start = end;
    end += publication.minions;
    return { publication, minions: minions.slice(start, end) };
  });
}

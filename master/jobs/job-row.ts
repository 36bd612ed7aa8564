import Type from 'typebox';
import { localField, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { defineRow, type RowOf, Texts } from '#store';
import type { PublicationId } from './publication-log.ts';

/** Publication that sent a job to some of its minions (a slice). */
interface JobPublication extends PublicationId {
  /**
   * Number of minions of this publication. The minion list of the job contains the minions of its
   * publications one after the other, so these numbers divide the list.
   */
  readonly minions: number;
}

const fields = {
  jid: Type.String(),
  /** Function, or a list of several functions in one job. */
  fun: Type.Union([Type.String(), Texts]),
  /**
   * Positional values, followed by the keyword arguments as a map with `__kwarg__` [WIRE 11.5]. If
   * the job has several functions, one list of arguments for each function.
   */
  arg: Type.Unsafe<readonly WireValue[]>(Type.Array(Type.Unknown())),
  tgt: Type.Union([Type.String(), Texts]),
  tgtType: Type.String(),
  /**
   * User as shown in lists. Never decide about rights or limits by this name: a minion can choose
   * it for a job that it starts itself, and it does not include the back end of the user.
   */
  user: Type.String(),
  /** Ids to which the job was published. */
  minions: Texts,
  /** Ids that the caller listed in the target, but to which the job was not published. */
  missing: Texts,
  /** Present if the user's rights reduced the target to a list of minions. */
  isNarrowed: Type.Optional(Type.Literal(true)),
  /** Time of the publication, in milliseconds since 1970. */
  publishedAt: Type.Number(),
  /** Whether the minion itself started the job (`jid: req`). */
  selfMade: Type.Boolean(),
  /**
   * Number of subscribers that did not receive the job because their queues were full. Default: 0.
   */
  skipped: Type.Optional(Type.Number()),
  /**
   * Publications that sent the job. The first one sent it to the first minions in `minions`, the
   * second one to the minions after them, and so on. Absent if unknown.
   */
  publications: Type.Optional(
    Type.Unsafe<readonly JobPublication[]>(
      Type.Array(
        Type.Object({ process: Type.String(), number: Type.Number(), minions: Type.Number() }),
      ),
    ),
  ),
  /** Metadata that was published with the job. */
  metadata: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
  /**
   * Name under which limits count the returns of the job. Absent for jobs of operators and
   * services.
   */
  limitOwner: Type.Optional(Type.String()),
  /** Minion that requested the job. Absent for jobs of operators and services. */
  requestedBy: Type.Optional(Type.String()),
};

/** Codec of the rows `jobs/<jid>` [WIRE 15.4]. */
export const jobRow = defineRow({
  name: 'job',
  schema: Type.Object(fields),
  packed: { arg: localField, metadata: localField },
  unversioned: unpackLocal,
});

/** Stored record of a published job. */
export type JobRecord = RowOf<typeof jobRow>;

interface Slice {
  readonly publication: JobPublication;
  readonly minions: readonly string[];
}

/**
 * Returns the minions that received the job by one of the selected publications.
 * @param isMeant - returns whether a publication is selected
 */
export function minionsOfPublications(
  record: JobRecord,
  isMeant: (publication: PublicationId) => boolean,
): ReadonlySet<string> {
  const meant = slicesOf(record).filter(({ publication }) => isMeant(publication));
  return new Set(meant.flatMap(({ minions }) => minions));
}

/**
 * Returns a copy of the stored record with the minions of a further publication (a slice) of the
 * job. A minion that is already in the record is moved from its earlier publication to the new one.
 * Ids without an accepted key that only the new publication names are not added, because a user may
 * extend a job as often as it likes.
 */
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

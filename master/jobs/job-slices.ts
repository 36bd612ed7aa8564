/** The slices of a stored job: minions that it was published to together. */

import type { JobPublication, JobRecord } from './job.ts';
import type { PublicationId } from './publication-log.ts';

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

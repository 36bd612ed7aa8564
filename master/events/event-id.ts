/**
 * Ids of events. An id contains the position of the event in the order of the master that emitted
 * it. In a cluster it also contains the last position of each other member that a reader has seen
 * by then. An id is therefore valid at every member, although each member receives the events of
 * the others in its own order.
 */

import { createHash, randomBytes } from 'node:crypto';

/** Position of an event in the order of the master that emitted it. */
export interface EventPlace {
  /** Identifier of one run of that master. Numbers start at 1 in each run. */
  readonly run: string;
  readonly number: number;
}

const placeForm = /^([0-9a-f]{8,16})-([1-9]\d{0,14})$/;
/** Maximum number of positions in an id: cluster members, and runs before they joined. */
const maxPlaces = 64;
const markLength = 8;
const clusterRunLength = 16;

/**
 * Creates the identifier of a new run.
 * @param member name of the cluster member; default: a single master
 */
export function createRun(member: string | undefined): string {
  if (member === undefined) return randomBytes(6).toString('hex');
  const mark = createHash('sha256').update(member).digest('hex').slice(0, markLength);
  return mark + randomBytes((clusterRunLength - markLength) / 2).toString('hex');
}

/** Returns the mark of the member that a run belongs to, or an empty string for a single master. */
export function memberMark({ run }: Pick<EventPlace, 'run'>): string {
  return run.length === clusterRunLength ? run.slice(0, markLength) : '';
}

/** Formats an id. The position of the event itself is first. */
export function formatEventId(places: readonly EventPlace[]): string {
  return places.map(({ run, number }) => `${run}-${number}`).join('.');
}

/**
 * Parses an id. The position of the event itself is first. Returns an empty list if the id is
 * invalid.
 */
export function parseEventId(id: string): readonly EventPlace[] {
  const places = id.split('.', maxPlaces + 1).map((text) => {
    const [, run, digits] = placeForm.exec(text) ?? [];
    return run === undefined ? undefined : { run, number: Number(digits) };
  });
  const known = places.filter((it) => it !== undefined);
  return known.length === places.length && known.length <= maxPlaces ? known : [];
}

/**
 * Ids of events. An id contains the position of the event among all events of the master that
 * published it. In a cluster, it also contains the position of the latest event of each other
 * member. A reader can therefore continue at any member, although each member receives the events
 * of the others in a different order.
 */

import { hash, randomBytes } from 'node:crypto';

/** Position of an event among all events of the master that published it. */
export interface EventPosition {
  /** Identifier of one run of the publishing master. Positions start at 1 in each run. */
  readonly run: string;
  readonly number: number;
}

const placeForm = /^([0-9a-f]{8,16})-([1-9]\d{0,14})$/;
/**
 * Maximum number of positions in the id of an event. An id has one position for each cluster
 * member: that of the member's latest event. It has one more for the time before the master joined
 * the cluster.
 */
const maxPlaces = 64;
const markLength = 8;
const clusterRunLength = 16;

/**
 * Creates the identifier of a new run.
 * @param member - name of the cluster member, or `undefined` outside a cluster
 */
export function createRun(member: string | undefined): string {
  if (member === undefined) return randomBytes(6).toString('hex');
  const mark = hash('sha256', member).slice(0, markLength);
  return mark + randomBytes((clusterRunLength - markLength) / 2).toString('hex');
}

/**
 * Returns the part of a run's identifier that identifies the cluster member. Empty for a master
 * outside a cluster.
 */
export function memberMark({ run }: Pick<EventPosition, 'run'>): string {
  return run.length === clusterRunLength ? run.slice(0, markLength) : '';
}

/** Formats an event id from positions. The first position is the position of the event itself. */
export function formatEventId(places: readonly EventPosition[]): string {
  return places.map(({ run, number }) => `${run}-${number}`).join('.');
}

/**
 * Parses an event id into positions. The first one is the position of the event itself. The others
 * are the positions of the latest events of other cluster members. Returns an empty list if the id
 * is invalid, for example because two positions belong to the same member.
 */
export function parseEventId(id: string): readonly EventPosition[] {
  const places = id.split('.', maxPlaces + 1).map((text) => {
    const [, run, digits] = placeForm.exec(text) ?? [];
    return run === undefined ? undefined : { run, number: Number(digits) };
  });
  const known = places.filter((it) => it !== undefined);
  const isValid = known.length === places.length && known.length <= maxPlaces;
  return isValid && new Set(known.map(memberMark)).size === known.length ? known : [];
}

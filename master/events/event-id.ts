/**
 * Ids of events: where the event is in the order of the master that fired it, and in a cluster, how
 * far a reader has then read what each other member fired. So an id holds at every member, though
 * each of them hears the others in an order of its own.
 */

import { createHash, randomBytes } from 'node:crypto';

/** Where an event is in the order of the master that fired it. */
export interface EventPlace {
  /** One run of that master: numbers begin anew with each. */
  readonly run: string;
  readonly number: number;
}

const placeForm = /^([0-9a-f]{8,16})-([1-9]\d{0,14})$/;
/** Members, and what they were before they were members. */
const maxPlaces = 64;
const markLength = 8;
const clusterRunLength = 16;

/** A new run. @param member - of a cluster. Default: of a master by itself */
export function createRun(member: string | undefined): string {
  if (member === undefined) return randomBytes(6).toString('hex');
  const mark = createHash('sha256').update(member).digest('hex').slice(0, markLength);
  return mark + randomBytes((clusterRunLength - markLength) / 2).toString('hex');
}

/** Which member a run is of; empty for a master by itself. */
export function memberMark({ run }: Pick<EventPlace, 'run'>): string {
  return run.length === clusterRunLength ? run.slice(0, markLength) : '';
}

/** The place of the event first. */
export function formatEventId(places: readonly EventPlace[]): string {
  return places.map(({ run, number }) => `${run}-${number}`).join('.');
}

/** The places of an id, that of the event first; none where it is no id. */
export function parseEventId(id: string): readonly EventPlace[] {
  const places = id.split('.', maxPlaces + 1).map((text) => {
    const [, run, digits] = placeForm.exec(text) ?? [];
    return run === undefined ? undefined : { run, number: Number(digits) };
  });
  const known = places.filter((it) => it !== undefined);
  return known.length === places.length && known.length <= maxPlaces ? known : [];
}

import type { WireMap } from '#minion-protocol';

/**
 * Returns the id of the job that an event is about, or `undefined` if it is not about a job. Uses
 * the event's data and tag.
 */
export function jidOf(tag: string, data: WireMap): string | undefined {
  if (typeof data.jid === 'string') return data.jid;
  return /^salt\/(?:job|run|wheel)\/(\d{20}(?:_\w{1,64})?)\//.exec(tag)?.[1];
}

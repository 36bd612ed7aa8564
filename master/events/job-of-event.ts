import type { WireMap } from '#minion-protocol';

/** Returns the id of the job that an event reports, by its data or its tag, or `undefined`. */
export function jidOf(tag: string, data: WireMap): string | undefined {
  if (typeof data.jid === 'string') return data.jid;
  return /^salt\/(?:job|run|wheel)\/(\d{20}(?:_\w{1,64})?)\//.exec(tag)?.[1];
}

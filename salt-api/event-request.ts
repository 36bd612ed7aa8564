/** Event filters of a request: the query, and the last event id of browsers. */

import type { IncomingHttpHeaders } from 'node:http';
import type { EventsRequest } from '#master';
import { SaltApiError } from './errors.ts';

/** Globs of one reader, and characters of each. */
const maxPatterns = 64;
const maxPattern = 512;
/** Of an id: in a cluster it has a part for each member. */
const maxEventId = 2048;

/** `match`, as often as one likes; `last_event_id`, or the header. @throws SaltApiError ERR_HTTP_FIELDS */
export function eventsRequest(query: URLSearchParams, headers: IncomingHttpHeaders): EventsRequest {
  const match = query.getAll('match');
  if (match.length > maxPatterns || match.some((glob) => glob.length > maxPattern)) {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'match: too much');
  }
  const header = headers['last-event-id'];
  // Browsers send the header when they come again; what the address said is older.
  const after = typeof header === 'string' ? header : query.get('last_event_id');
  return {
    ...(match.length === 0 ? {} : { match }),
    ...(after === null || after === '' ? {} : { after: after.slice(0, maxEventId) }),
  };
}

/** The query of an address. */
export function queryOf(url: string): URLSearchParams {
  const from = url.indexOf('?');
  return new URLSearchParams(from === -1 ? '' : url.slice(from + 1));
}

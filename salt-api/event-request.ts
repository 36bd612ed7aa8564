/** Event filters of a request: the query, and the last event id that browsers send. */

import type { IncomingHttpHeaders } from 'node:http';
import type { EventsRequest } from '#master';
import { SaltApiError } from './errors.ts';

/** Maximum number of globs of one reader, and of characters in each. */
const maxPatterns = 64;
const maxPattern = 512;
/** Maximum length of an event id. In a cluster it has a part for each member. */
const maxEventId = 2048;

/**
 * Reads the filters: `match`, which may be repeated, and `last_event_id` or its header.
 * @throws SaltApiError ERR_HTTP_FIELDS
 */
export function eventsRequest(query: URLSearchParams, headers: IncomingHttpHeaders): EventsRequest {
  const match = query.getAll('match');
  if (match.length > maxPatterns || match.some((glob) => glob.length > maxPattern)) {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'match: too many or too long globs');
  }
  const header = headers['last-event-id'];
  // Browsers send the header when they reconnect. The id in the address is older.
  const after = typeof header === 'string' ? header : query.get('last_event_id');
  return {
    ...(match.length === 0 ? {} : { match }),
    ...(after === null || after === '' ? {} : { after: after.slice(0, maxEventId) }),
  };
}

/** Returns the query of an address. */
export function queryOf(url: string): URLSearchParams {
  const from = url.indexOf('?');
  return new URLSearchParams(from === -1 ? '' : url.slice(from + 1));
}

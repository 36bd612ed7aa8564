/**
 * Parses a request for events: the query, and the header with the last event id that browsers send.
 */

import type { IncomingHttpHeaders } from 'node:http';
import type { EventsRequest } from '#master';
import { SaltApiError } from './errors.ts';

/** Maximum number of globs in one request. */
const maxPatterns = 64;
/** Maximum length of a glob, in characters. */
const maxPattern = 512;
/**
 * Maximum length of an event id, in characters. In a cluster, the id has a part for each member.
 */
const maxEventId = 2048;

/**
 * Reads the requested events from `match`, which may be repeated, and from `last_event_id` or the
 * corresponding header.
 * @throws SaltApiError ERR_HTTP_FIELDS
 */
export function eventsRequest(query: URLSearchParams, headers: IncomingHttpHeaders): EventsRequest {
  const match = query.getAll('match');
  if (match.length > maxPatterns || match.some((glob) => glob.length > maxPattern)) {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'match: too many globs, or a glob is too long');
  }
  const header = headers['last-event-id'];
  // A browser sends the header when it reconnects. The id in the header is then newer than the id
  // in the URL.
  const after = typeof header === 'string' ? header : query.get('last_event_id');
  return {
    ...(match.length === 0 ? {} : { match }),
    ...(after === null || after === '' ? {} : { after: after.slice(0, maxEventId) }),
  };
}

/** Returns the query of a URL. */
export function queryOf(url: string): URLSearchParams {
  const from = url.indexOf('?');
  return new URLSearchParams(from === -1 ? '' : url.slice(from + 1));
}

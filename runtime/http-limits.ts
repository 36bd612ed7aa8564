import { defineLimits } from './limits.ts';

/**
 * Limits on what the peer of an HTTP connection can make the parser do. The parser of Node.js
 * processes everything that it has read in one step.
 */
export const httpLimits = defineLimits('http', {
  smallParts: {
    unit: 'parts, such as chunks, of the body of one HTTP request or response, in addition to one part for each 16 bytes',
    owner: 'connection',
    perOwner: 65_536,
    effect:
      'The connection ends. A client that has stopped sending gets the status 400, unless an earlier request of the connection has no response yet.',
  },
  interimResponses: {
    unit: 'responses with a status below 200 before the response to one HTTP request of the master',
    owner: 'connection',
    perOwner: 16,
    effect: 'The connection ends, and the request has failed.',
  },
  work: {
    unit: 'requests that an HTTP server reads in one turn of the event loop; 16 parts of bodies count as one request',
    owner: 'address',
    perOwner: 64,
    total: 128,
    effect: 'Further bytes wait. Addresses take turns.',
  },
  unansweredRequests: {
    unit: 'unanswered requests of a connection of the HTTP API or of the metadata agent',
    owner: 'connection',
    perOwner: 8,
    effect: 'The connection ends.',
  },
});

import { defineLimits } from './limits.ts';

/**
 * Limits on what the peer of an HTTP connection can make the parser do. The parser of Node.js
 * processes everything that it has read in one step.
 */
export const httpLimits = defineLimits('http', {
  smallParts: {
    unit: 'parts, such as chunks, of the body of an HTTP request or response, in addition to one part for each 16 bytes',
    owner: 'connection',
    perOwner: 4_096,
    effect: 'A request gets the status 400. The connection ends.',
  },
  interimResponses: {
    unit: 'responses with a status below 200 before the response to an HTTP request of the master',
    owner: 'connection',
    perOwner: 16,
    effect: 'The connection ends, and the request has failed.',
  },
  unansweredRequests: {
    unit: 'unanswered requests of a connection of the HTTP API or of the metadata agent',
    owner: 'connection',
    perOwner: 8,
    effect: 'The connection ends.',
  },
});

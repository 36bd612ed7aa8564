/** What an HTTP server gives to the routes of the bridge. */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';

/** The server's part of a request. */
export interface HttpDoors {
  /** The token that a request shows, or that stands behind its session; `undefined`: none. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Fires when the server is closed: streams end. */
  readonly closing: AbortSignal;
  /** Takes a body of JSON, within the server's limits; `undefined`: there is none. */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

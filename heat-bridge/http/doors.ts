/** What an HTTP server gives to the routes of the bridge. */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { SendPool } from '../../runtime/index.ts';

/** The server's part of a request. */
export interface HttpDoors {
  /** The token that a request shows, or that stands behind its session; `undefined`: none. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Fires when the server is closed: streams end. */
  readonly closing: AbortSignal;
  /** The places for streams. */
  readonly streams: {
    /** @returns to be called once, at the end; `undefined`: as many are open as may be */
    tryEnter(token: string): (() => void) | undefined;
  };
  /** What waits for the readers of streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /** Takes a body of JSON, within the server's limits; `undefined`: there is none. */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

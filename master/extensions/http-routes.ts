/** HTTP routes of extensions. The master collects them for the program's HTTP server. */

import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { SendPool } from '#runtime';
import type { RpcTable } from '../api/index.ts';

/** What an HTTP server provides to the routes of extensions. */
export interface HttpServerContext {
  /** Returns the master's token that a request shows or that its session has. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Fires when the server closes. Streams end then. */
  readonly closing: AbortSignal;
  /** Limits of event streams, in all and for each token. */
  readonly streams: {
    /** @returns a function to call once at the stream's end; `undefined` at the limit */
    tryEnter(token: string): (() => void) | undefined;
  };
  /** Outgoing data of all streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /** Reads a JSON body within the server's limits. Resolves to `undefined` without a body. */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

/** Routes below one path of the HTTP server. */
export interface HttpRoutes {
  /** For instance `/bridge/v1`. Each prefix belongs to one extension. */
  readonly prefix: string;
  /** Methods that the server offers among those of the master. */
  methods?(): RpcTable;
  register(app: FastifyInstance, context: HttpServerContext): void;
}

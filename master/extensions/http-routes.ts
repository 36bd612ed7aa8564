import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { SendPool } from '#runtime';
import type { RpcTable } from '../api/index.ts';

/** Services of the HTTP server for the routes of extensions. */
export interface HttpServerContext {
  /** Returns the master's token that a request or its session carries. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Fires when the server closes and streams end. */
  readonly closing: AbortSignal;
  /** Limits of event streams, in total and per token. */
  readonly streams: {
    /**
     * @returns a function to call once at the stream's end, or `undefined` if a limit is reached
     */
    tryEnter(token: string): (() => void) | undefined;
  };
  /** Outgoing data of all streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /** Reads a JSON body within the server's limits. Resolves to `undefined` without a body. */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

/** Routes of an extension below one path of the HTTP server. */
export interface HttpRoutes {
  /** Path prefix, for instance `/bridge/v1`. It belongs to one extension. */
  readonly prefix: string;
  /** Returns methods that the server offers in addition to those of the master. */
  methods?(): RpcTable;
  register(app: FastifyInstance, context: HttpServerContext): void;
}

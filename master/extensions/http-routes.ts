import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { SendPool } from '#runtime';
import type { RpcTable } from '../api/index.ts';

/** Functions of the HTTP server that routes of extensions can use. */
export interface HttpServerContext {
  /** Returns the user's token from a request or from its session. */
  readonly tokenOf: (request: FastifyRequest) => string | undefined;
  /** Aborted when the server closes and streams must end. */
  readonly closing: AbortSignal;
  /** Limits the number of event streams, in total, per user and per token. */
  readonly streams: {
    /**
     * Counts a new stream.
     * @returns a function to call once when the stream ends, or `undefined` if a limit is reached
     */
    tryEnter(owner: { readonly token: string; readonly user: string }): (() => void) | undefined;
  };
  /** Pool that limits the outgoing data of all streams. */
  readonly sendPool: Pick<SendPool, 'open'>;
  /**
   * Reads a JSON body within the server's limits. Resolves with `undefined` if there is no body.
   */
  readonly readJson: (request: FastifyRequest, payload: IncomingMessage) => Promise<unknown>;
}

/** Routes of an extension. They have a common path prefix. */
export interface HttpRoutes {
  /** Path prefix, for example `/bridge/v1`. It belongs to one extension only. */
  readonly prefix: string;
  /** Returns additional RPC methods that the HTTP server offers. */
  methods?(): RpcTable;
  register(app: FastifyInstance, context: HttpServerContext): void;
  /**
   * Handles a request for WebSocket below the prefix. It always answers the request or ends the
   * connection. Default: such requests are rejected.
   * @param path - part of the path after the prefix, such as `/link`
   */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer, path: string): void;
}

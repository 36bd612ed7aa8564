/** What an HTTP server provides to the routes of the bridge. */

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { hasRules, mayCallCommand } from '#acl';
import type { ExtensionHost } from '#master';
import type { SendPool } from '#runtime';
import { BridgeError } from '../errors.ts';

/** The server's part of a request. */
export interface HttpServerContext {
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

/** Whoever calls, by the token that a request shows. */
export interface HttpCaller {
  readonly token: string;
  /** Whether some rule may permit a command of this name, whether or not there is one. */
  mayCall(command: string): boolean;
}

/**
 * Finds who calls: whoever may log in. Every tenant of a cloud has a token of Keystone's, and only
 * those of them may whom some rule permits a command.
 * @throws AuthenticationError, BridgeError ERR_COMMAND_DENIED
 */
export function createCallerResolver(
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'holdToken'>,
): (request: FastifyRequest) => Promise<HttpCaller> {
  return async (request) => {
    const token = doors.tokenOf(request) ?? '';
    const { subject, policy, stop } = await host.holdToken(token);
    stop();
    // protection: catalog-for-projects
    if (subject.kind !== 'project' || hasRules(subject, 'command', policy)) {
      return { token, mayCall: (command) => mayCallCommand(subject, command, policy) };
    }
    throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits this project any command');
  };
}

/** Asked before the catalog, so that names and parameters are not told. @throws BridgeError ERR_COMMAND_DENIED */
export function requireCommandRule(caller: HttpCaller, command: string): void {
  if (caller.mayCall(command)) return;
  throw new BridgeError('ERR_COMMAND_DENIED', 'no rule permits a command of this name');
}

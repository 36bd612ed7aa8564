/** `/bridge/v1` over HTTP: what all its routes have. */
import type { FastifyInstance } from 'fastify';
import { writeJson } from '../../runtime/index.ts';
import type { BridgePart } from '../part.ts';
import type { HttpDoors } from './doors.ts';
import { sendBridgeError } from './errors.ts';
import { limitRefusedTokens } from './refused-tokens.ts';

/** Where the routes are, for an HTTP server such as salt-api's. */
export interface BridgePlugin {
  readonly prefix: string;
  register(app: FastifyInstance, doors: HttpDoors): void;
}

/** @param parts - asked when a server is made */
export function createPlugin(parts: () => readonly BridgePart<unknown>[]): BridgePlugin {
  return {
    prefix: '/bridge/v1',
    register: (app, doors) => {
      app.addContentTypeParser('application/json', doors.readJson);
      app.setReplySerializer((payload) => writeJson(payload));
      limitRefusedTokens(app);
      app.setErrorHandler((error, _request, reply) => sendBridgeError(error, reply));
      for (const { routes } of parts()) routes?.(app, doors);
    },
  };
}

/** The mine's requests, as a master answers them that keeps none [WIRE 9.2]. */
import { type Handler, send } from './request.ts';

export const mineRequests: Readonly<Record<string, Handler>> = {
  _mine: async () => send(true),
  _mine_get: async () => send({}),
  _mine_delete: async () => send(true),
  _mine_flush: async () => send(true),
};

/**
 * What would let a minion reach beyond itself: other minions, runners, relays, keys. Refused, in
 * the form in which Salt refuses each [WIRE 9.2].
 */
import { type Handler, send } from './request.ts';

export const peerRequests: Readonly<Record<string, Handler>> = {
  minion_pub: async () => send({}),
  minion_publish: async () => send({}),
  minion_runner: async () => send({}),
  pub_ret: async () => send({}),
  _syndic_return: async () => send(false),
};

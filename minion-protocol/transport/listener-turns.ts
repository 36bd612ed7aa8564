import { MessageTurns } from '#runtime';
import { transportLimits } from './limits.ts';

/**
 * Turns in which the connections of a listener process their messages. Verified minions and other
 * peers have separate turns.
 */
export interface ListenerTurns {
  /**
   * Turns of connections whose requests were verified. The owner of such a connection is the id of
   * the minion.
   */
  readonly minions: MessageTurns;
  /**
   * Turns of connections without a verified request. The owner of such a connection is its network
   * address.
   */
  readonly strangers: MessageTurns;
}

export function createListenerTurns(): ListenerTurns {
  const { messages, unprovenMessages } = transportLimits;
  return { minions: new MessageTurns(messages), strangers: new MessageTurns(unprovenMessages) };
}

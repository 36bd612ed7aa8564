/** Limits of the messages that wait for one subscriber, for any transport. */

import type { StreamConnection } from './stream-connection.ts';
import type { EncodedMessage } from './write-queue.ts';

export interface SubscriberQueueLimits {
  /** Maximum number of messages waiting for one subscriber (Salt's `pub_hwm`). Default: 1,000. */
  readonly maxQueuedMessages: number;
  /**
   * Maximum number of bytes waiting for one subscriber. A single message may be larger. Default: 8
   * MiB.
   */
  readonly maxQueuedBytes: number;
}

export const DEFAULT_SUBSCRIBER_QUEUE_LIMITS: SubscriberQueueLimits = {
  maxQueuedMessages: 1000,
  maxQueuedBytes: 8 * 1024 * 1024,
};

/**
 * Queues a message. Returns `false` if the queue is full. The subscriber then does not receive the
 * message.
 */
export function tryQueueMessage(
  connection: StreamConnection,
  message: EncodedMessage,
  { maxQueuedMessages, maxQueuedBytes }: SubscriberQueueLimits,
): boolean {
  const { queue } = connection;
  const isFull =
    queue.messages >= maxQueuedMessages ||
    (queue.messages > 0 && queue.bytes + message.bytes > maxQueuedBytes);
  if (!isFull) connection.send(message);
  return !isFull;
}

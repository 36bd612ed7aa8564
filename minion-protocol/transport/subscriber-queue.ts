/** Limits of the messages that wait for one subscriber, on any transport. */

import type { StreamConnection } from './stream-connection.ts';
import type { EncodedMessage } from './write-queue.ts';

export interface SubscriberQueueLimits {
  /** Salt's `pub_hwm`: messages that wait for one subscriber. Default 1000. */
  readonly maxQueuedMessages: number;
  /** Bytes that wait for one subscriber; a single message may be larger. Default 8 MiB. */
  readonly maxQueuedBytes: number;
}

export const DEFAULT_SUBSCRIBER_QUEUE_LIMITS: SubscriberQueueLimits = {
  maxQueuedMessages: 1000,
  maxQueuedBytes: 8 * 1024 * 1024,
};

/** Queues a message; false if the queue is full and this subscriber goes without. */
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

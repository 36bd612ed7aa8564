/** The master's end over ZeroMQ: ROUTER and PUB, spoken by `zmtp.ts` over `node:net`. */
import { DEFAULT_ZMTP_LIMITS } from '../zmtp.ts';
import { createPort } from './admitted-socket.ts';
import { createListener, type ListenerOptions } from './stream-listener.ts';
import type { MasterTransport } from './transport.ts';
import { zeromqProtocol } from './zeromq-connection.ts';
import { DEFAULT_PUBLISHER_OPTIONS, Publisher, type PublisherOptions } from './zeromq-publisher.ts';
import { RequestSession } from './zeromq-router.ts';

/** What {@link createZeromqListener} needs to know; everything has a default. */
export interface ZeromqListenerOptions extends ListenerOptions, Partial<PublisherOptions> {}

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
export function createZeromqListener(options: ZeromqListenerOptions = {}): MasterTransport {
  const publisherOptions = { ...DEFAULT_PUBLISHER_OPTIONS, ...options };
  const publisher = new Publisher(publisherOptions);
  return createListener(
    {
      name: 'zeromq',
      publisher,
      requests: (service, { maxMessageBytes }) =>
        createPort(
          { awaitsRequest: true, hasHandshake: true, keepsStalled: false },
          zeromqProtocol(
            'ROUTER',
            { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes },
            (connection) => new RequestSession(connection, service),
          ),
        ),
      publications: () => createPublishPort(publisher, publisherOptions),
    },
    options,
  );
}

function createPublishPort(publisher: Publisher, { maxTopicBytes }: PublisherOptions) {
  return createPort(
    { awaitsRequest: false, hasHandshake: true, keepsStalled: false },
    zeromqProtocol(
      'PUB',
      // A peer of PUB has nothing to say but subscriptions: one byte and the topic.
      { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1 + maxTopicBytes, maxTopicBytes },
      (connection) => publisher.openSession(connection),
    ),
  );
}

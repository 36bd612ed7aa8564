/** The master's end of ZeroMQ: ROUTER and PUB sockets, implemented by `zmtp.ts` over `node:net`. */

import type { RequestService } from './request-queue.ts';
import {
  type ConnectionLimits,
  createListener,
  createPortProtocol,
  type ListenerOptions,
  type PortProtocol,
} from './stream-listener.ts';
import type { MasterTransport } from './transport.ts';
import { zeromqProtocol } from './zeromq-peer.ts';
import {
  DEFAULT_ZEROMQ_PUBLISHER_OPTIONS,
  ZeromqPublisher,
  type ZeromqPublisherOptions,
} from './zeromq-publisher.ts';
import { requestHandlers } from './zeromq-requests.ts';
import { DEFAULT_ZMTP_LIMITS } from './zmtp.ts';

/** Options of {@link createZeromqListener}. Each has a default. */
export interface ZeromqListenerOptions extends ListenerOptions, Partial<ZeromqPublisherOptions> {}

/** Creates a listener. Call {@link MasterTransport.listen} to bind its ports. */
export function createZeromqListener(options: ZeromqListenerOptions = {}): MasterTransport {
  const publisherOptions = { ...DEFAULT_ZEROMQ_PUBLISHER_OPTIONS, ...options };
  const publisher = new ZeromqPublisher(publisherOptions);
  return createListener(
    {
      name: 'zeromq',
      publisher,
      requests: createRequestPort,
      publications: (_announce, _publishPort, pingMs) =>
        createPublishPort(publisher, publisherOptions, pingMs),
    },
    options,
  );
}

/** Creates a listener with a request port only, for programs on the master's host. */
export function createZeromqRequestListener(
  options: Omit<ListenerOptions, 'publishPort'>,
): MasterTransport {
  const publisher = { publish: () => ({ queued: 0, skipped: 0 }), subscribers: () => [] };
  return createListener({ name: 'zeromq', publisher, requests: createRequestPort }, options);
}

function createRequestPort(
  service: RequestService,
  { maxMessageBytes }: Pick<ConnectionLimits, 'maxMessageBytes'>,
): PortProtocol {
  return createPortProtocol(
    { awaitsRequest: true, hasHandshake: true, keepsStalled: false },
    zeromqProtocol('ROUTER', { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes }, requestHandlers(service)),
  );
}

function createPublishPort(
  publisher: ZeromqPublisher,
  { maxTopicBytes }: ZeromqPublisherOptions,
  pingMs: number | undefined,
): PortProtocol {
  return createPortProtocol(
    { awaitsRequest: false, hasHandshake: true, keepsStalled: false },
    zeromqProtocol(
      'PUB',
      // A peer of PUB sends only subscriptions: one byte and the topic.
      { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1 + maxTopicBytes, maxTopicBytes },
      {
        openSession: (connection) => publisher.openSession(connection, pingMs),
        onSubscription: (topic, isWanted, session) => session.onSubscription(topic, isWanted),
      },
    ),
  );
}

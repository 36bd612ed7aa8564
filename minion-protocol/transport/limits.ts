import { defineLimits } from '#runtime';

/** Limits of the transports. */
export const transportLimits = defineLimits('transport', {
  dialerSockets: {
    unit: 'ZeroMQ sockets that an embedded minion uses for requests',
    owner: 'none',
    total: 16,
    effect: 'Further requests wait.',
  },
  awaitedHeaders: {
    unit: 'relayed connections whose PROXY header has not arrived',
    owner: 'none',
    total: 1000,
    effect: 'Further connections are closed.',
  },
  keptConnections: {
    unit: 'connections of an address with a verified minion that a listener never ends in favour of other addresses',
    owner: 'address',
    perOwner: 16,
    effect:
      'If a listener has its maximum of connections, and all are of such addresses, a new connection ends one of the address with the most, if this address has more than this number. A new connection of another such address may end one as long as its address has fewer. Otherwise an address with more than this number replaces one of its own.',
  },
  handshakes: {
    unit: 'TLS handshakes that a listener or the HTTP API starts in one turn of the event loop (separate limits for addresses with and without a verified minion)',
    owner: 'address',
    total: 4,
    waiting: { perOwner: 16_384, total: 65_536 },
    effect:
      'Further handshakes wait, and addresses take turns. Then further connections are closed. While connections arrive, handshakes of addresses without a verified minion use at most half of the time.',
  },
  helloRecords: {
    unit: 'records of the first message of a TLS client (ClientHello)',
    owner: 'connection',
    perOwner: 64,
    effect: 'The connection is closed.',
  },
  messages: {
    unit: 'messages of one minion that a listener handles in one turn of the event loop',
    owner: 'minion',
    perOwner: 64,
    effect: 'Further messages wait for the next turn.',
  },
  unprovenMessages: {
    unit: 'messages that a listener handles in one turn, on connections without a verified request',
    owner: 'address',
    perOwner: 128,
    total: 256,
    effect: 'Further messages wait. Addresses take turns.',
  },
  refusedRequests: {
    unit: 'refused requests of a connection, minus its verified requests',
    owner: 'connection',
    perOwner: 256,
    effect: 'The connection ends.',
  },
  unreadReplies: {
    unit: 'bytes of replies that wait for sending, over all connections of a minion',
    owner: 'minion',
    perOwner: 128 * 1024 * 1024,
    effect: 'The connection with the next reply ends, unless it is the only reply that waits.',
  },
  activeRequests: {
    unit: 'requests that a listener is processing',
    owner: 'connection',
    total: 256,
    effect: 'Further requests are not read yet. Connections take turns.',
  },
});

import { defineLimits, unlimitedWaiting } from '#runtime';

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
  messages: {
    unit: 'messages of one minion that a listener handles in one turn of the event loop',
    owner: 'minion',
    perOwner: 64,
    effect: 'Further messages wait for the next turn.',
  },
  unprovenMessages: {
    unit: 'messages that a listener handles in one turn, on connections without a verified request',
    owner: 'address',
    perOwner: 32,
    total: 256,
    effect: 'Further messages wait. Addresses take turns.',
  },
  refusedRequests: {
    unit: 'refused requests of a connection, minus its verified requests',
    owner: 'connection',
    perOwner: 256,
    effect: 'The connection ends.',
  },
  handshakes: {
    unit: 'TLS handshakes on the ports of minions, of addresses without a verified minion; one counts until a minion is verified, at most 1 s',
    owner: 'address',
    total: 100,
    reserved: 20,
    waiting: { perOwner: 1_000, total: 20_000 },
    effect:
      'Further handshakes wait, and addresses take turns. Then further connections are closed.',
  },
  knownHandshakes: {
    unit: 'TLS handshakes on the ports of minions, of addresses with a verified minion; one counts until a minion is verified, at most 1 s',
    owner: 'address',
    total: 200,
    reserved: 40,
    waiting: unlimitedWaiting,
    effect: 'Further handshakes wait, and addresses take turns.',
  },
  activeRequests: {
    unit: 'requests that a listener is processing',
    owner: 'connection',
    total: 256,
    effect: 'Further requests are not read yet. Connections take turns.',
  },
});

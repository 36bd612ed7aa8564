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
  activeRequests: {
    unit: 'requests that a listener is processing',
    owner: 'connection',
    total: 256,
    effect: 'Further requests are not read yet. Connections take turns.',
  },
});

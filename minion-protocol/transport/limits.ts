import { defineLimits } from '#runtime';

/** Limits of the transports. */
export const transportLimits = defineLimits('transport', {
  dialerSockets: {
    unit: 'ZeroMQ sockets of an embedded minion for requests',
    owner: 'none',
    total: 16,
    effect: 'Further requests wait.',
  },
  awaitedHeaders: {
    unit: 'relayed connections whose PROXY header is incomplete',
    owner: 'none',
    total: 1000,
    effect: 'Further connections end.',
  },
  activeRequests: {
    unit: 'requests that a listener processes at a time',
    owner: 'connection',
    total: 256,
    effect: 'Further requests stay in the sockets. Connections take turns.',
  },
});

import { defineLimits } from '#runtime';

/** Limits of the local socket. */
export const rpcLimits = defineLimits('rpc', {
  streamBytes: {
    unit: 'bytes that wait for readers',
    owner: 'none',
    total: 256 * 1024 * 1024,
    effect: 'The slowest readers are disconnected first.',
  },
});

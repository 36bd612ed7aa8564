import { defineLimits, unlimitedWaiting } from '#runtime';

/** Limits of sites and of their centre. */
export const edgeLimits = defineLimits('edge', {
  openHandshakes: {
    unit: 'connections of sites that are not authenticated yet',
    owner: 'address',
    perOwner: 128,
    total: 512,
    effect: 'The connection is rejected. The site retries later.',
  },
  refusedHandshakes: {
    unit: 'rejected handshakes and tickets of sites',
    owner: 'address',
    rate: { perSecond: 1, burst: 60 },
    effect: 'Further connections and tickets of the address are rejected without being read.',
    code: 'ERR_LIMIT',
  },
  openRequests: {
    unit: 'unanswered requests of a site',
    owner: 'connection',
    perOwner: 32,
    effect: 'The connection ends.',
  },
  openRequestBytes: {
    unit: 'bytes of the unanswered requests of a site',
    owner: 'connection',
    perOwner: 1_048_576,
    effect: 'The connection ends.',
  },
  waitingCalls: {
    unit: 'requests that wait for sending over the connection of a site',
    owner: 'connection',
    perOwner: 1024,
    effect: 'The request is rejected.',
    code: 'ERR_LIMIT',
  },
  frames: {
    unit: 'messages of a site',
    owner: 'connection',
    rate: { perSecond: 500, burst: 2000 },
    effect: 'The centre stops reading from the connection until the rate permits it.',
  },
  heartbeats: {
    unit: 'heartbeats of a connection of a site',
    owner: 'connection',
    rate: { perSecond: 1, burst: 10 },
    effect: 'The connection ends.',
  },
  runningOrders: {
    unit: 'running orders of the centre at a site',
    owner: 'user',
    total: 64,
    reserved: 8,
    waiting: { perOwner: 1000, total: 10_000 },
    effect: 'Further orders wait for their turn.',
    code: 'ERR_LIMIT',
  },
  waitingOrders: {
    unit: 'orders that wait for a site',
    owner: 'site',
    perOwner: 1000,
    effect: 'The order is rejected.',
    code: 'ERR_LIMIT',
  },
  minions: {
    unit: 'minions of a site',
    owner: 'connection',
    perOwner: 10_000,
    effect: 'Facts and signals of further minions are refused.',
    code: 'ERR_SITE_MESSAGE',
  },
  describedPacks: {
    unit: 'packs of releases whose digests are in memory',
    owner: 'none',
    total: 256,
    effect: 'The digests of the least recently used pack are computed again.',
  },
  metadataBodies: {
    unit: 'compressed metadata of releases in memory',
    owner: 'none',
    total: 64,
    effect: 'The metadata of the least recently used versions are compressed again.',
  },
  sendingSites: {
    unit: 'sites that send returns and facts at a time',
    owner: 'none',
    amounts: '`parallel_sites`',
    option: 'saltbridge:sites:parallel_sites',
    total: 32,
    waiting: unlimitedWaiting,
    effect: 'Further sites wait for their turn.',
  },
});

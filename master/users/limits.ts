import { defineLimits } from '#runtime';

/** Limits of users. */
export const userLimits = defineLimits('users', {
  activeLogins: {
    unit: 'log-ins in progress, for addresses with and without an earlier log-in each',
    owner: 'address',
    perOwner: 16,
    total: 256,
    effect: 'Further log-ins are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  backendRequests: {
    unit: 'requests to one backend at a time, for addresses with and without an earlier log-in each',
    owner: 'none',
    perOwner: 8,
    effect: 'Further log-ins wait.',
  },
  knownAddresses: {
    unit: 'addresses with an earlier log-in',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
  bcryptThreads: {
    unit: 'bcrypt comparisons in a thread',
    owner: 'none',
    total: 1,
    effect: 'Further log-ins wait.',
  },
  keystoneTokens: {
    unit: 'Keystone tokens of logged-in users',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted. The user is not revalidated.',
  },
  userStatus: {
    unit: 'results of revalidating users',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
  ownJobs: {
    unit: 'jobs of users, for their event streams',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
  newDecisions: {
    unit: 'new recorded decisions',
    owner: 'minion',
    rate: { perSecond: 1, burst: 200 },
    effect: 'Further decisions are only counted.',
  },
});

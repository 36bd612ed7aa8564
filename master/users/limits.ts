import { defineLimits } from '#runtime';

/** Limits that apply to users and their log-ins, tokens and jobs. */
export const userLimits = defineLimits('users', {
  activeLogins: {
    unit: 'log-ins in progress (separate limits for addresses with and without an earlier log-in)',
    owner: 'address',
    perOwner: 16,
    total: 256,
    reserved: 128,
    effect: 'Further log-ins are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  backendRequests: {
    unit: 'requests to one backend at a time (separate limits for addresses with and without an earlier log-in)',
    owner: 'address',
    total: 8,
    waiting: { perOwner: 16, total: 512 },
    effect: 'Further log-ins wait in turns.',
  },
  failedLogins: {
    unit: 'failed log-ins of one user name in a minute',
    owner: 'address',
    perOwner: 5,
    effect: 'Further log-ins of the user from the address are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  patternSteps: {
    unit: 'steps (about ten nanoseconds each) for comparing events with the patterns of event streams',
    owner: 'user',
    rate: { perSecond: 2_500_000, burst: 5_000_000 },
    effect: 'The stream ends.',
    code: 'ERR_LIMIT',
  },
  failuresOfSource: {
    unit: 'failed log-ins of all user names',
    owner: 'address',
    rate: { perSecond: 2000 / 60, burst: 2000 },
    effect: 'Further log-ins from the address are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  failureRecords: {
    unit: 'user names with recent failed log-ins',
    owner: 'address',
    perOwner: 4000,
    total: 100_000,
    effect: 'The oldest name of the address with most names is evicted.',
  },
  knownAddresses: {
    unit: 'addresses with an earlier log-in',
    owner: 'user',
    total: 10_000,
    effect: 'The oldest address of the user with most addresses is evicted.',
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
    unit: 'jobs of users, recorded for their event streams',
    owner: 'user',
    total: 10_000,
    effect: 'The oldest job of the user with most jobs is evicted.',
  },
  policiesOfTokens: {
    unit: 'compiled policies of tokens that store rights',
    owner: 'none',
    total: 100,
    effect: 'The least recently used entry is evicted.',
  },
  tokens: {
    unit: 'valid tokens',
    owner: 'user',
    total: 100_000,
    effect: 'The oldest token of the user with most tokens is revoked.',
    code: 'ERR_LIMIT',
  },
  newDecisions: {
    unit: 'new recorded decisions',
    owner: 'minion',
    rate: { perSecond: 1, burst: 200 },
    effect: 'Further decisions are only counted.',
  },
});

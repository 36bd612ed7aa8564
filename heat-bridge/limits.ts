import { defineLimits } from '#runtime';

/** Limits of the bridge. */
export const bridgeLimits = defineLimits('bridge', {
  refusedTokens: {
    unit: 'rejected tokens',
    owner: 'address',
    rate: { perSecond: 20, burst: 100 },
    effect: 'Further requests are rejected unread.',
    code: 'ERR_EAUTH_LIMIT',
  },
  refusedTickets: {
    unit: 'rejected claims',
    owner: 'address',
    rate: { perSecond: 1, burst: 60 },
    effect: 'Further claims are rejected unread.',
    code: 'ERR_EAUTH_LIMIT',
  },
  activeRuns: {
    unit: 'active runs',
    owner: 'caller',
    amounts: '`active_per_caller`, and `active` of all',
    option: 'saltbridge:bridge:runs',
    effect: 'Further runs are rejected.',
    code: 'ERR_COMMAND_BUSY',
  },
  handleBytes: {
    unit: 'bytes of handles',
    owner: 'project',
    amounts: '`handle_bytes`',
    option: 'saltbridge:bridge:handles',
    effect: 'The handle is rejected.',
    code: 'ERR_SIGNAL_QUOTA',
  },
  deliveries: {
    unit: 'deliveries to one endpoint at a time',
    owner: 'endpoint',
    perOwner: 8,
    option: 'saltbridge:bridge:handles:per_endpoint',
    effect: 'Further deliveries wait.',
  },
  tokenValidations: {
    unit: 'questions to Keystone at a time',
    owner: 'none',
    total: 8,
    effect: 'Further requests wait, then are rejected.',
    code: 'ERR_EAUTH_UNAVAILABLE',
  },
  validatedTokens: {
    unit: 'answers of Keystone about tokens',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
  tracedJobs: {
    unit: 'jobs and signals with an open span',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
});

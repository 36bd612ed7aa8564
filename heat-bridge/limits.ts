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
  acceptedTokens: {
    unit: 'accepted tokens that an address may use in spite of rejected ones',
    owner: 'address',
    perOwner: 10_000,
    total: 100_000,
    effect: 'The least recently used token is evicted.',
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
  commandRuns: {
    unit: 'runs of a command at a time',
    owner: 'caller',
    amounts: '`concurrency: total` of all, `per_target` on each minion, `queue` waiting',
    option: 'saltbridge:bridge:catalog',
    effect: 'Further runs wait, and callers take turns. If the queue is full, runs are rejected.',
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

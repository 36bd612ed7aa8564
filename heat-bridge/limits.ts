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
    unit: 'valid tokens that an address may use after the limit of rejected tokens',
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
  openEnrolments: {
    unit: 'enrolments that no machine has claimed yet',
    owner: 'project',
    amounts:
      '`max_open_per_project`, and `max_open` in total; a tenth is reserved for projects without an open enrolment',
    option: 'saltbridge:bridge:enroll',
    effect: 'The enrolment is rejected.',
    code: 'ERR_ENROLL_FULL',
  },
  enrolmentRate: {
    unit: 'new enrolments',
    owner: 'project',
    rate: { perSecond: 1, burst: 2_000 },
    effect: 'The enrolment is rejected.',
    code: 'ERR_ENROLL_FULL',
  },
  endedEnrolments: {
    unit: 'ended enrolments',
    owner: 'project',
    perOwner: 10_000,
    total: 100_000,
    effect: 'The oldest one is deleted, even if it ended less than a week ago.',
  },
  activeRuns: {
    unit: 'active runs',
    owner: 'caller',
    amounts: '`active_per_caller`, and `active` in total',
    option: 'saltbridge:bridge:runs',
    effect: 'Further runs are rejected.',
    code: 'ERR_COMMAND_BUSY',
  },
  commandRuns: {
    unit: 'runs of a command at a time',
    owner: 'caller',
    amounts: '`concurrency: total` in total, `per_target` per minion, and `queue` waiting runs',
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
    unit: 'requests to Keystone at a time',
    owner: 'none',
    total: 8,
    effect: 'Further requests wait, then are rejected.',
    code: 'ERR_EAUTH_UNAVAILABLE',
  },
  validatedTokens: {
    unit: 'cached results of token validations',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
  tracedJobs: {
    unit: 'jobs and signals with an unfinished trace span',
    owner: 'none',
    total: 10_000,
    effect: 'The least recently used entry is evicted.',
  },
});

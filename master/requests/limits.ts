import { defineLimits } from '#runtime';

/** Limits that apply to the requests of minions, such as rates and queue lengths. */
export const requestLimits = defineLimits('requests', {
  requestRate: {
    unit: 'requests',
    owner: 'minion',
    amounts: '`requests_per_second`, bursts of `burst`',
    option: 'saltbridge:limits:requests_per_second',
    effect: 'Further requests wait.',
  },
  waitingRequests: {
    unit: 'requests that wait because of the rate limit',
    owner: 'minion',
    perOwner: 128,
    effect: 'Further requests get no reply.',
  },
  eventRate: {
    unit: 'events',
    owner: 'minion',
    amounts: '`events_per_second`, bursts of `burst`',
    option: 'saltbridge:limits:events_per_second',
    effect: 'Further events are dropped. Signals wait.',
  },
  waitingSignals: {
    unit: 'signals that wait because of the rate limit',
    owner: 'minion',
    perOwner: 64,
    effect: 'Further signals are dropped.',
  },
  fileRate: {
    unit: 'bytes of files',
    owner: 'minion',
    amounts: '`file_bytes_per_second`, bursts of 2 s',
    option: 'saltbridge:limits:file_bytes_per_second',
    effect: 'Further file requests wait.',
  },
  waitingFileRequests: {
    unit: 'file requests that wait because of the rate limit',
    owner: 'minion',
    perOwner: 10_000,
    effect: 'Further requests get no reply.',
  },
  signInRate: {
    unit: 'sign-ins of unknown or failing ids',
    owner: 'address',
    amounts: '`auths_per_second`',
    option: 'saltbridge:limits:auths_per_second',
    effect: 'Further sign-ins are refused without a signature.',
  },
  selfMadeJobs: {
    unit: 'returns without a job (`jid: req`)',
    owner: 'minion',
    rate: { perSecond: 600 / 3600, burst: 600 },
    effect: 'The return is acknowledged and not stored.',
  },
  selfMadeBytes: {
    unit: 'bytes of stored returns without a job (`jid: req`)',
    owner: 'minion',
    rate: { perSecond: 16_384, burst: 67_108_864 },
    effect: 'The return is acknowledged and not stored.',
  },
  denials: {
    unit: 'stored reports of rejected signals',
    owner: 'none',
    total: 1_000,
    effect: 'The least recently used entry is evicted.',
  },
  denialLog: {
    unit: 'log lines of rejected signals',
    owner: 'minion',
    rate: { perSecond: 1, burst: 20 },
    effect: 'Further log lines are counted.',
  },
});

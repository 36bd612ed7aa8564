import { defineLimits } from '#runtime';

/** Limits of the audit log. */
export const auditLimits = defineLimits('audit', {
  repeatedRecords: {
    unit: 'records of one kind that a source can cause as often as it likes',
    owner: 'address',
    rate: { perSecond: 0.1, burst: 20 },
    effect: 'Further ones are counted in a summary.',
  },
  waitingRecords: {
    unit: 'records that wait to be written',
    owner: 'none',
    total: 50_000,
    effect: 'Further records are counted, and the log records how many are missing.',
  },
  allRepeatedRecords: {
    unit: 'records of such kinds of all sources',
    owner: 'none',
    rate: { perSecond: 1, burst: 200 },
    effect: 'Further ones are counted in a summary.',
  },
});

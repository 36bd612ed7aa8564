import { defineLimits } from '#runtime';

/** Limits of the audit log. */
export const auditLimits = defineLimits('audit', {
  repeatedRecords: {
    unit: 'records of one kind that requests from one address can cause repeatedly',
    owner: 'address',
    rate: { perSecond: 0.1, burst: 20 },
    effect: 'Further records are counted, and a summary is recorded.',
  },
  waitingRecords: {
    unit: 'records that wait to be written',
    owner: 'none',
    total: 50_000,
    effect: 'Further records are counted, and the log records how many are missing.',
  },
  allRepeatedRecords: {
    unit: 'records that requests can cause repeatedly, of all addresses together',
    owner: 'none',
    rate: { perSecond: 1, burst: 200 },
    effect: 'Further records are counted, and a summary is recorded.',
  },
});

import { defineLimits } from '#runtime';

/** Maximum of `storedReturnBytes` if the size of the disk is unknown, in bytes. */
export const bytesOnUnknownDisk = 4 * 1024 ** 3;

/** Limits that apply to jobs, such as rates and queue lengths. */
export const jobLimits = defineLimits('jobs', {
  slowPatternThreads: {
    unit: 'patterns with back references that run in a thread',
    owner: 'user',
    total: 1,
    waiting: { perOwner: 256, total: 4096 },
    effect: 'Further targets wait in turns. One runs for at most 250 ms.',
    code: 'ERR_BAD_TGT',
  },
  jobBytes: {
    unit: 'bytes of stored jobs without the returns of minions, and of results of runners',
    owner: 'user',
    rate: { perSecond: 32_768, burst: 134_217_728 },
    effect: 'The job is rejected. Jobs of the local interface and of services are not limited.',
    code: 'ERR_LIMIT',
  },
  storedReturnBytes: {
    unit: 'bytes of stored returns, of the jobs that minions start themselves, and of results of runners',
    owner: 'user',
    amounts:
      '`stored_return_bytes` in total, or 4 GiB if it is not set and the size of the disk is unknown',
    option: 'saltbridge:limits:stored_return_bytes',
    timesFree: 1,
    effect:
      'The value of a return above 512 bytes is not stored. The stored return contains a notice. Further jobs of a user are rejected. The operator and all services count as one user, and each minion counts as a user. All minions together may use at most as much as is free.',
    code: 'ERR_LIMIT',
  },
  storedReturnBytesOfMinion: {
    unit: 'bytes of stored returns above 64 KiB of one minion, to the jobs of one user',
    owner: 'minion',
    amounts: '`stored_return_bytes`, less what all users use, less what this user uses, is free',
    option: 'saltbridge:limits:stored_return_bytes',
    timesFree: 1 / 8,
    effect:
      'The value of a return above 64 KiB is not stored. The stored return contains a notice. Returns of other minions to jobs of this user are stored.',
  },
  functions: {
    unit: 'functions of one job',
    owner: 'caller',
    perOwner: 1_000,
    effect: 'The job is rejected.',
    code: 'ERR_ARGS',
  },
  keywordArguments: {
    unit: 'keyword arguments of one call',
    owner: 'caller',
    perOwner: 1_000,
    effect: 'The call is rejected.',
    code: 'ERR_ARGS',
  },
  positionalArguments: {
    unit: 'positional arguments of one call',
    owner: 'caller',
    perOwner: 10_000,
    effect: 'The call is rejected.',
    code: 'ERR_ARGS',
  },
  resourceTypes: {
    unit: 'types of resources that a minion registers',
    owner: 'minion',
    perOwner: 1_000,
    effect:
      'The registration is rejected. The previous one stays valid, and the counter `resources-refused` grows.',
  },
  sharedNames: {
    unit: 'names of grains and pillar keys that are in memory once for all minions',
    owner: 'none',
    total: 20_000,
    effect: 'The name that was used longest ago is no longer shared, which takes more memory.',
  },
  sharedNameLists: {
    unit: 'lists of such names that minions with the same names share',
    owner: 'none',
    total: 1_000,
    effect: 'The list that was used longest ago is no longer shared, which takes more memory.',
  },
  requestMarks: {
    unit: 'identifiers of processed requests that change a mine, and of those that start jobs',
    owner: 'minion',
    perOwner: 512,
    effect:
      'The oldest identifier is evicted. If the master restarts, it does not recognize a repetition of that request.',
  },
  jobNews: {
    unit: 'returns and events that wait for the reader of one job',
    owner: 'caller',
    perOwner: 1_000_000,
    effect: 'The reader gets an error.',
  },
  parallelJobUpdates: {
    unit: 'updates that wait for the reader of a batch job',
    owner: 'caller',
    perOwner: 1_000_000,
    effect: 'The reader gets an error.',
  },
  signedAtOnce: {
    unit: 'publications that are signed at a time',
    owner: 'user',
    total: 16,
    reserved: 4,
    waiting: { perOwner: 10_000, total: 40_000 },
    effect:
      'Further publications wait in turns, then are rejected. The operator and all services count as one user. Each minion and each project counts as a user.',
    code: 'ERR_LIMIT',
  },
});

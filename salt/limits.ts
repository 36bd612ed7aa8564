import { defineLimits } from '#runtime';

/** Limits of Salt’s services. */
export const saltLimits = defineLimits('salt', {
  renderThreads: {
    unit: 'renderings in worker threads',
    owner: 'minion',
    amounts:
      'one thread less than there are processors, but at least 1 and at most 2; one more thread for minions without a running rendering',
    reserved: 1,
    waiting: { perOwner: 256, total: 4096 },
    effect: 'Further renderings wait in turns, then are rejected.',
    code: 'ERR_RENDER_GIVEN_UP',
  },
  largeTemplates: {
    unit: 'names of templates that exceeded the limits of the main thread',
    owner: 'none',
    total: 1_000,
    effect: 'The least recently used entry is evicted.',
  },
  parsedCharacters: {
    unit: 'characters of parsed texts',
    owner: 'none',
    total: 8 * 1024 * 1024,
    effect: 'The least recently used entry is evicted.',
  },
  receivedCharacters: {
    unit: 'characters of files in the cache of a rendering thread',
    owner: 'none',
    total: 16 * 1024 * 1024,
    effect: 'The least recently used entry is evicted.',
  },
  pillarFiles: {
    unit: 'parsed pillar files',
    owner: 'none',
    total: 5_000,
    effect: 'The least recently used entry is evicted.',
  },
  pillarBytes: {
    unit: 'bytes of compiled pillars in memory',
    owner: 'none',
    total: 256 * 1024 * 1024,
    effect: 'The least recently used entry is evicted. The store still has it.',
  },
  sharedPillars: {
    unit: 'pillars that minions with equal inputs share',
    owner: 'minion',
    perOwner: 16,
    total: 4_000,
    effect:
      'The oldest shared pillar of the minion with the most shared pillars is evicted. Minions without a shared pillar have a pillar of their own.',
  },
  sharedTops: {
    unit: 'results of pillar top files that minions with equal inputs share',
    owner: 'minion',
    perOwner: 16,
    total: 4_000,
    effect: 'The oldest result of the minion with the most results is evicted, and rendered again.',
  },
  sharedPillarBytes: {
    unit: 'bytes of shared pillars in memory, and of shared results of top files',
    owner: 'none',
    total: 128 * 1024 * 1024,
    effect: 'The least recently used entry is evicted.',
  },
  pillarAssignments: {
    unit: 'minions whose assigned pillar SLS are remembered',
    owner: 'none',
    total: 100_000,
    effect: 'The least recently used entry is evicted, and the top file is matched again.',
  },
  fileDigests: {
    unit: 'digests of files',
    owner: 'none',
    total: 50_000,
    effect: 'The least recently used entry is evicted.',
  },
  fileReads: {
    unit: 'chunks of files that are being read',
    owner: 'none',
    total: 16,
    effect: 'Further reads wait.',
  },
  otherEnvironments: {
    unit: 'file lists of environments that exist only through the root `__env__`',
    owner: 'none',
    total: 64,
    effect: 'The least recently used entry is evicted.',
  },
  gitLists: {
    unit: 'file lists of branches, for each remote',
    owner: 'none',
    total: 64,
    effect: 'The least recently used entry is evicted.',
  },
  httpQueries: {
    unit: 'requests of `http.query` in progress',
    owner: 'none',
    total: 8,
    effect: 'Further requests wait.',
  },
  reportedJobs: {
    unit: 'running jobs that `jobs.active` lists, for each minion',
    owner: 'minion',
    perOwner: 1_000,
    effect: 'Further jobs that the minion reports are not listed.',
  },
  reactionRate: {
    unit: 'runs of a reaction that has a `rate`',
    owner: 'rule',
    amounts: '`rate` of the reaction',
    option: 'saltbridge:reactions',
    effect: 'The reaction is not run.',
  },
  reactionReports: {
    unit: 'log messages about calls that were not run, for each reaction and reason',
    owner: 'rule',
    rate: { perSecond: 1 / 60, burst: 1 },
    effect: 'Further messages are not logged, but counted.',
  },
});

/** How values of pillar and of sdb profiles lie over each other. */

/** The values of `pillar_source_merging_strategy`. */
export const mergeStrategies = [
  'smart',
  'recurse',
  'aggregate',
  'overwrite',
  'list',
  'none',
] as const;

/** A value of `pillar_source_merging_strategy`; `smart` and `none` merge as `recurse` does. */
export type MergeStrategy = (typeof mergeStrategies)[number];

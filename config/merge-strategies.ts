/** Strategies for merging values of pillar and of sdb profiles. */

/** Values of `pillar_source_merging_strategy`. */
export const mergeStrategies = [
  'smart',
  'recurse',
  'aggregate',
  'overwrite',
  'list',
  'none',
] as const;

/** Value of `pillar_source_merging_strategy`. `smart` and `none` merge like `recurse`. */
export type MergeStrategy = (typeof mergeStrategies)[number];

/** Loads the engine of a cluster, which a program without a cluster does not need. */
export function loadLogEngine(): Promise<typeof import('#cluster/log/index.ts')> {
  return import('#cluster/log/index.ts');
}

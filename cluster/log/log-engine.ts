/** Loads the engine of a cluster, with its connection to NATS. */
export function loadLogEngine(): Promise<typeof import('./index.ts')> {
  return import('./index.ts');
}

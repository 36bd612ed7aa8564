/** Loads the engine of a cluster with its NATS client. */
export function loadLogEngine(): Promise<typeof import('./index.ts')> {
  return import('./index.ts');
}

/** Loads the replicated log with its NATS client. */
export function loadLogEngine(): Promise<typeof import('./index.ts')> {
  return import('./index.ts');
}

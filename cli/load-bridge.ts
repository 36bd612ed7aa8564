/** When it is first needed: most commands do without, and it is a third of all modules. */
export function loadBridge(): Promise<typeof import('../heat-bridge/index.ts')> {
  return import('../heat-bridge/index.ts');
}

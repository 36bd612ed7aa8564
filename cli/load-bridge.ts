/** When it is first needed: most commands do without, and it is a third of all modules. */
export function loadBridge(): Promise<typeof import('#heat-bridge')> {
  return import('#heat-bridge');
}

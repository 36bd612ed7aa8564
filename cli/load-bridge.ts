/** Loads rooms when a command uses them: most commands need neither. */

export function loadBridge(): Promise<typeof import('#heat-bridge')> {
  return import('#heat-bridge');
}

export function loadGuests(): Promise<typeof import('#guests')> {
  return import('#guests');
}

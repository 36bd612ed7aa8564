/** Loads the code of the bridge on demand, because most commands do not need it. */

export function loadBridge(): Promise<typeof import('#heat-bridge')> {
  return import('#heat-bridge');
}

export function loadGuests(): Promise<typeof import('#guests')> {
  return import('#guests');
}

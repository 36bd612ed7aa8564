import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits `milliseconds`; without a detour if there is nothing to wait for. A process that has nothing
 * else to do does not live for it.
 */
export async function delay(milliseconds: number): Promise<void> {
  if (milliseconds > 0) await sleep(milliseconds, undefined, { ref: false });
}

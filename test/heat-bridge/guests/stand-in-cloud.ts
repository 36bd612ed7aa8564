/** Starts the simulated cloud of the examples for a test. */

import type { ExecutionContext } from 'ava';
import { type StandInCloud, startCloud as start } from '../../../examples/guests/stand-in-cloud.ts';

export type { StandInCloud };

/** Starts the cloud. It is closed at the end of the test. */
export async function startCloud(t: ExecutionContext): Promise<StandInCloud> {
  const cloud = await start();
  t.teardown(() => cloud.close());
  return cloud;
}

/** Stand-in for the cloud of the examples, for tests. */

import type { ExecutionContext } from 'ava';
import { type StandInCloud, startCloud as start } from '../../../examples/guests/stand-in-cloud.ts';

export type { StandInCloud };

/** Starts the stand-in. It is closed at the end of the test. */
export async function startCloud(t: ExecutionContext): Promise<StandInCloud> {
  const cloud = await start();
  t.teardown(() => cloud.close());
  return cloud;
}

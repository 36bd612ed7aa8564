/** The stand-in for a cloud of the examples, as tests have it. */

import type { ExecutionContext } from 'ava';
import { type StandInCloud, startCloud as start } from '../../../examples/guests/stand-in-cloud.ts';

export type { StandInCloud };

/** Starts one; it is closed at the end of the test. */
export async function startCloud(t: ExecutionContext): Promise<StandInCloud> {
  const cloud = await start();
  t.teardown(() => cloud.close());
  return cloud;
}

/** How a run stands at this moment, for callers that poll. */

import type { TSchema } from 'typebox';
import Type from 'typebox';
import { toJson } from '#master';

/** The answer's schema. @param outcome - schema of the outcome */
export function runStateSchema(outcome: TSchema): TSchema {
  return Type.Union([
    Type.Object({ state: Type.Literal('running') }),
    Type.Object({ state: Type.Literal('ended'), outcome }),
  ]);
}

/**
 * Returns at once, whether or not the run has ended.
 * @param outcome - rejects where the master failed; so does the promise returned
 */
export async function currentRunState(outcome: Promise<object>): Promise<object> {
  // Of two settled promises, `race` takes the first.
  const ended = await Promise.race([outcome, Promise.resolve(undefined)]);
  return ended === undefined ? { state: 'running' } : { state: 'ended', outcome: toJson(ended) };
}

/** Reads JSON from responses of other servers. */

import { JsonError, type JsonValue } from './json.ts';
import { readJsonInSteps } from './json-reader.ts';
import { StepScheduler } from './step-scheduler.ts';

/** All responses that this process reads take turns. */
const readings = new StepScheduler();

/**
 * Parses the JSON of a response in steps. Other work runs between the steps. An integer beyond 2^53
 * is a `bigint`.
 * @returns `undefined` if the text is not JSON, is nested too deeply, or has a map with too many
 * members
 */
export async function readJsonAnswer(text: string): Promise<JsonValue | undefined> {
  try {
    return await readings.run(readJsonInSteps<never>(text));
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

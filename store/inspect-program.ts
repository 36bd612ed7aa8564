/**
 * Program that inspects the store in the given directory and sends the result to its parent
 * process.
 */

import { errorMessage } from '#runtime';
import { checkTables } from './check-tables.ts';
import type { InspectionMessage } from './inspect.ts';
import { openLmdbTables } from './lmdb-tables.ts';

function inspect(directory: string): InspectionMessage {
  try {
    return { found: checkTables(openLmdbTables(directory, true)) };
  } catch (error) {
    return { failed: errorMessage(error) };
  }
}

process.send?.(inspect(process.argv[2] ?? ''), () => process.disconnect());

/** The `test` runner, for testing clients [salt/runners/test.py]. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, seconds } from '../functions/parameters.ts';

/**
 * Maximum duration of a sleep, in seconds. It exceeds `rest_timeout`, so that clients can test this
 * timeout.
 */
const longest = 3600;

export function testRunner(): FunctionTable {
  return {
    'test.arg': masterFunction({
      summary: 'Returns its arguments.',
      parameters: {},
      takesMore: true,
      takesRest: true,
      call: (_values, _context, kwargs, args) => ({
        args: [...args],
        kwargs: Object.fromEntries(
          Object.entries(kwargs).filter(([name]) => !name.startsWith('__')),
        ),
      }),
    }),
    'test.stdout_print': masterFunction({
      summary: 'Returns bar; Salt also prints foo.',
      parameters: {},
      call: () => 'bar',
    }),
    'test.sleep': masterFunction({
      summary: 'Sleeps for some seconds.',
      parameters: { s_time: optional(seconds, 1) },
      call: async ({ s_time: time }, { closing }) => {
        // When the master closes, the sleep ends and the caller gets no result.
        await sleep(Math.min(time, longest) * 1000, undefined, { signal: closing });
        return true;
      },
    }),
  };
}

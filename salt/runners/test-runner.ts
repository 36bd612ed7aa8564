/** The `test` runner, for trying clients [salt/runners/test.py]. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, seconds } from '../functions/parameters.ts';

/** Longest sleep, seconds: `rest_timeout` and more. */
const longest = 3600;

export function testRunner(): FunctionTable {
  return {
    'test.arg': masterFunction({
      summary: 'Gives back its arguments.',
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
      summary: 'Returns bar; Salt prints foo besides.',
      parameters: {},
      call: () => 'bar',
    }),
    'test.sleep': masterFunction({
      summary: 'Sleeps for some seconds.',
      parameters: { s_time: optional(seconds, 1) },
      call: async ({ s_time: time }, { closing }) => {
        // An end of the master wakes it: nobody is told anything then.
        await sleep(Math.min(time, longest) * 1000, undefined, { signal: closing });
        return true;
      },
    }),
  };
}

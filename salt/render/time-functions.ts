/** Functions that read the clock of the master [salt/modules/status.py]. */

import type { SaltFunction } from '#template';
import { strftime, toLocal } from '#template/python/strftime.ts';
import { takes, textOr } from './function-arguments.ts';

/**
 * Returns the template functions that read the clock.
 * @param now - returns the current time. Callers must not cache the text of a template that has
 * called it
 */
export function timeFunctions(now: () => Date): Readonly<Record<string, SaltFunction>> {
  return {
    'status.time': takes(['format'], ({ format }) => {
      return strftime(toLocal(now()), textOr(format, '%A, %d. %B %Y %I:%M%p'));
    }),
  };
}

/** The `event` runner [salt/runners/event.py]. */

import type { Events } from '#master';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { map, optional, required, text } from '../functions/parameters.ts';

export function eventRunner({ bus }: { readonly bus: Events['bus'] }): FunctionTable {
  return {
    'event.send': masterFunction({
      summary: 'Fires an event on the master.',
      parameters: { tag: required(text), data: optional(map) },
      call: ({ tag, data = {} }) => {
        bus.fire(tag, data);
        return true;
      },
    }),
  };
}

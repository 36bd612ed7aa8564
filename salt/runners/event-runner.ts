/** The `event` runner [salt/runners/event.py]. */

import {
  type EventBus,
  type FunctionTable,
  map,
  masterFunction,
  optional,
  required,
  text,
} from '#master';

export function eventRunner({ bus }: { readonly bus: EventBus }): FunctionTable {
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

/** The `config` runner [salt/runners/config.py]. */

import { type LiveConfig, saltValues } from '#config';
import { anything, type FunctionTable, masterFunction, optional, required, text } from '#master';
import { traverseFacts } from '#minion-protocol';

export function configRunner({ config }: { readonly config: LiveConfig }): FunctionTable {
  return {
    'config.get': masterFunction({
      summary: "One of the master's options under Salt's name, or what is in it; no secret ones.",
      parameters: {
        key: required(text),
        default: optional(anything, ''),
        delimiter: optional(text, ':'),
      },
      call: ({ key, default: fallback, delimiter }) =>
        traverseFacts(saltValues(config.all, config.leftOut), key.split(delimiter)) ?? fallback,
    }),
  };
}

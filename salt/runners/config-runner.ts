/** The `config` runner [salt/runners/config.py]. */

import { type LiveConfig, saltValues } from '#config';
import { traverseFacts } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { anything, optional, required, text } from '../functions/parameters.ts';

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

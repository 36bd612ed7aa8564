/** The `config` runner [salt/runners/config.py]. */

import { type LiveConfig, saltValues } from '#config';
import { traverseFacts } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { anything, optional, required, text } from '../functions/parameters.ts';

export function configRunner({ config }: { readonly config: LiveConfig }): FunctionTable {
  return {
    'config.get': masterFunction({
      summary:
        "Returns an option of the master, or a part of it, by Salt's name; secrets are omitted.",
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

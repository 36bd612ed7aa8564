/** The `doc` runner [salt/runners/doc.py]. */
import type { WireMap } from '../../minion-protocol/index.ts';
import { type FunctionTable, masterFunction } from './function.ts';
import { optional, text } from './parameters.ts';

/** What the functions of a kind are for, by name. */
type Docs = (prefix?: string) => WireMap;

/** What the runner needs. */
export interface DocRunnerParts {
  readonly docs: { readonly runner: Docs; readonly wheel: Docs };
}

export function docRunner({ docs }: DocRunnerParts): FunctionTable {
  const parameters = { name: optional(text) };
  return {
    'doc.runner': masterFunction({
      summary: 'What the runners are for: all of them, those of a module, or one.',
      parameters,
      call: ({ name }) => docs.runner(name),
    }),
    'doc.wheel': masterFunction({
      summary: 'What the wheel functions are for: all of them, those of a module, or one.',
      parameters,
      call: ({ name }) => docs.wheel(name),
    }),
  };
}

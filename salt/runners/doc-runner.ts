/** The `doc` runner [salt/runners/doc.py]. */

import { isWireMap, type WireMap } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, text } from '../functions/parameters.ts';
import { askMinions, type MinionCalls } from '../minion-calls.ts';

/** What the functions of a kind are for, by name. */
type Docs = (prefix?: string) => WireMap;

interface DocRunnerDeps extends MinionCalls {
  readonly docs: { readonly runner: Docs; readonly wheel: Docs };
}

export function docRunner(parts: DocRunnerDeps): FunctionTable {
  const { docs } = parts;
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
    'doc.execution': masterFunction({
      summary: 'What the functions of minions are for, as all of them together say.',
      parameters: {},
      call: async (_values, context) => {
        const { returns } = await askMinions(parts, { tgt: '*', fun: 'sys.doc' }, context);
        const texts: WireMap = Object.create(null);
        for (const { return: said } of returns) if (isWireMap(said)) Object.assign(texts, said);
        return texts;
      },
    }),
  };
}

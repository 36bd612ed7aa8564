/** The `doc` runner [salt/runners/doc.py]. */

import { workBudgetOf } from '#master';
import { isWireMap, type WireMap } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, text } from '../functions/parameters.ts';
import { askMinions, type MinionCalls } from '../minion-calls.ts';

/** Estimated work for copying the documentation of one function, in steps of a `WorkBudget`. */
const stepsOfFunction = 40;

/**
 * Function that returns the documentation of functions by name. `prefix` selects a module or a
 * function. Default: all functions.
 */
type Docs = (prefix?: string) => WireMap;

interface DocRunnerDeps extends MinionCalls {
  readonly docs: { readonly runner: Docs; readonly wheel: Docs };
}

export function docRunner(parts: DocRunnerDeps): FunctionTable {
  const { docs } = parts;
  const parameters = { name: optional(text) };
  return {
    'doc.runner': masterFunction({
      summary:
        'Returns the documentation of all runners, of the runners of a module, or of one runner.',
      parameters,
      call: ({ name }) => docs.runner(name),
    }),
    'doc.wheel': masterFunction({
      summary: 'Returns the documentation of all wheel functions, of a module, or of one function.',
      parameters,
      call: ({ name }) => docs.wheel(name),
    }),
    'doc.execution': masterFunction({
      summary: "Returns the documentation of the minions' execution modules.",
      parameters: {},
      call: async (_values, context) => {
        const { returns } = await askMinions(parts, { tgt: '*', fun: 'sys.doc' }, context);
        const texts: WireMap = Object.create(null);
        const budget = workBudgetOf(context.by);
        for (const { return: said } of returns) {
          if (!isWireMap(said)) continue;
          for (const [name, doc] of Object.entries(said)) {
            texts[name] = doc;
            await budget.giveWayAfter(stepsOfFunction);
          }
        }
        return texts;
      },
    }),
  };
}

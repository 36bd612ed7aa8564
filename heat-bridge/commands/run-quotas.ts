/** Options `saltbridge: bridge: runs:`. */

import Type from 'typebox';
import type { BudgetLimits } from '#runtime';
import { parseSection } from '../options.ts';

const CountOption = Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 }));

const RunsSection = Type.Object(
  {
    /** Runs of one caller that are under way. Default 1000. */
    active_per_caller: CountOption,
    /** The same of all callers. Default 10000. */
    active: CountOption,
    /** Runs of one caller that are over and can still be read. Default 100. */
    ended_per_caller: CountOption,
    /** The same of all callers. Default 1000. */
    ended: CountOption,
  },
  { additionalProperties: false },
);

/** How many runs there may be; commands and plans are counted apart. */
export interface RunQuotas {
  /** Under way. */
  readonly active: BudgetLimits;
  /** Over, and remembered. */
  readonly ended: BudgetLimits;
}

/**
 * The options of a section.
 * @param value as it is written; `undefined`: it is not there
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseRunQuotas(value: unknown): RunQuotas {
  const given = parseSection('bridge:runs', RunsSection, value ?? {});
  return {
    active: { perOwner: given.active_per_caller ?? 1000, total: given.active ?? 10_000 },
    ended: { perOwner: given.ended_per_caller ?? 100, total: given.ended ?? 1000 },
  };
}

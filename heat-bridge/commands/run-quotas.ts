/** Options `saltbridge: bridge: runs:`. */

import Type from 'typebox';
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

/** Quotas of runs; commands and plans are counted apart. */
export type RunQuotas = Readonly<ReturnType<typeof parseRunQuotas>>;

/**
 * The options of a section.
 * @param value as it is written; `undefined`: it is not there
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseRunQuotas(value: unknown) {
  const given = parseSection('bridge:runs', RunsSection, value ?? {});
  return {
    /** Runs under way. */
    active: { perOwner: given.active_per_caller ?? 1000, total: given.active ?? 10_000 },
    /** Runs that are over, and remembered. */
    ended: { perOwner: given.ended_per_caller ?? 100, total: given.ended ?? 1000 },
  };
}

/** Options in the section `saltbridge: bridge: runs:`. */

import Type from 'typebox';
import { parseSection } from '../options.ts';

const CountOption = Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 }));

const RunsSection = Type.Object(
  {
    /** Maximum number of active runs of one caller. Default: 1000. */
    active_per_caller: CountOption,
    /** Maximum number of active runs of all callers. Default: 10000. */
    active: CountOption,
    /** Maximum number of ended runs of one caller that clients can still read. Default: 100. */
    ended_per_caller: CountOption,
    /** Maximum number of ended runs of all callers that clients can still read. Default: 1000. */
    ended: CountOption,
  },
  { additionalProperties: false },
);

/** Quotas of runs. Commands and plans are counted separately. */
export type RunQuotas = Readonly<ReturnType<typeof parseRunQuotas>>;

/**
 * Parses the section into options.
 * @param value - the section, or `undefined` if it is absent
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseRunQuotas(value: unknown) {
  const given = parseSection('bridge:runs', RunsSection, value ?? {});
  return {
    /** Limits on active runs. */
    active: { perOwner: given.active_per_caller ?? 1000, total: given.active ?? 10_000 },
    /** Limits on ended runs in memory. */
    ended: { perOwner: given.ended_per_caller ?? 100, total: given.ended ?? 1000 },
  };
}

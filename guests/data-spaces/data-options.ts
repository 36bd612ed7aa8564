/** Options `saltbridge: bridge: guests: data:`. */

import Type from 'typebox';
import { parseSection } from '#heat-bridge';
import { CoordinatorSection, checkCoordinatorOptions } from './coordinator-options.ts';

const Section = Type.Object(
  {
    bytes_per_stack: Type.Optional(Type.Integer({ minimum: 1024, maximum: 2 ** 40 })),
    keys_per_stack: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    coordinator: Type.Optional(CoordinatorSection),
  },
  { additionalProperties: false },
);

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseDataOptions(given: unknown) {
  const data = parseSection('bridge:guests:data', Section, given ?? {});
  const { coordinator = {} } = data;
  checkCoordinatorOptions(coordinator);
  return {
    /** Bytes of the values of one data space. */
    bytesPerStack: data.bytes_per_stack ?? 67_108_864,
    /** Number of values that one data space may have. */
    keysPerStack: data.keys_per_stack ?? 10_000,
    /** Service that stores the values. Default: the store. */
    coordinator,
  };
}

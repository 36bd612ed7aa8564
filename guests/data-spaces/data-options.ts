/** Options `saltbridge: bridge: guests: data:`. */

import Type from 'typebox';
import { parseSection } from '#heat-bridge';
import {
  type CoordinatorOptions,
  CoordinatorSection,
  checkCoordinatorOptions,
} from './coordinator-options.ts';

const Section = Type.Object(
  {
    bytes_per_stack: Type.Optional(Type.Integer({ minimum: 1024, maximum: 2 ** 40 })),
    keys_per_stack: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    coordinator: Type.Optional(CoordinatorSection),
  },
  { additionalProperties: false },
);

/** See the section; each has a default. */
interface DataOptions {
  /** Bytes of the values of one data space. Default 64 MiB. */
  readonly bytesPerStack: number;
  /** Values that one data space may have. Default 10,000. */
  readonly keysPerStack: number;
  /** Service that stores the values. Default: the store. */
  readonly coordinator: CoordinatorOptions;
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseDataOptions(given: unknown): DataOptions {
  const data = parseSection('bridge:guests:data', Section, given ?? {});
  const { coordinator = {} } = data;
  checkCoordinatorOptions(coordinator);
  return {
    bytesPerStack: data.bytes_per_stack ?? 67_108_864,
    keysPerStack: data.keys_per_stack ?? 10_000,
    coordinator,
  };
}

/** Options in the section `saltbridge: bridge: deployments:`. */

import Type from 'typebox';
import { parseSection } from '#heat-bridge';

const Section = Type.Object(
  {
    poll_interval: Type.Optional(Type.Number({ minimum: 1, maximum: 3600 })),
    polls_per_second: Type.Optional(Type.Number({ minimum: 0.1, maximum: 10_000 })),
    retry_max_delay: Type.Optional(Type.Number({ minimum: 1, maximum: 86_400 })),
    max_running: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
    metadata_bytes: Type.Optional(Type.Integer({ minimum: 1024, maximum: 16_777_216 })),
  },
  { additionalProperties: false },
);

/** Options of deployments, with defaults. */
interface DeploymentsOptions {
  /**
   * Interval between two reads of a server, in milliseconds. Default: 30,000, like Heat's own
   * agents.
   */
  readonly intervalMs: number;
  /** Maximum rate of metadata requests in total, per second. Default: 20. */
  readonly pollsPerSecond: number;
  /** Maximum delay between two retries, in milliseconds. Default: 300,000. */
  readonly maxDelayMs: number;
  /** Maximum number of concurrent deployments. Default: 200. */
  readonly maxRunning: number;
  /** Maximum size of one server's metadata, in bytes. Default: 1 MiB. */
  readonly maxBytes: number;
}

/**
 * Parses the section into options.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseDeploymentsOptions(given: unknown = {}): DeploymentsOptions {
  const section = parseSection('bridge:deployments', Section, given);
  return {
    intervalMs: (section.poll_interval ?? 30) * 1000,
    pollsPerSecond: section.polls_per_second ?? 20,
    maxDelayMs: (section.retry_max_delay ?? 300) * 1000,
    maxRunning: section.max_running ?? 200,
    maxBytes: section.metadata_bytes ?? 1_048_576,
  };
}

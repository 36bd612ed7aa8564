/** Options in the section `saltbridge: bridge: handles:`. */

import Type from 'typebox';
import {
  type AllowedEndpoint,
  type ConfiguredEndpoint,
  parseAllowedEndpoints,
  readEndpoint,
} from '#runtime';
import { attemptEach, parseSection } from '../options.ts';

const Text = Type.String({ minLength: 1, maxLength: 4096 });
const positiveInteger = (maximum: number) => Type.Optional(Type.Integer({ minimum: 1, maximum }));
const tenMillion = 10_000_000;

const SignalsSection = Type.Object(
  {
    endpoints: Type.Optional(
      Type.Array(
        Type.Union([
          Text,
          Type.Object(
            {
              url: Text,
              addresses: Type.Optional(Type.Array(Text)),
              ca_file: Type.Optional(Text),
            },
            { additionalProperties: false },
          ),
        ]),
      ),
    ),
    timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 300 })),
    handle_ttl: positiveInteger(31_536_000),
    held_ttl: Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 })),
    held_per_minion: positiveInteger(10_000),
    handle_bytes: positiveInteger(10_000_000_000),
    handle_bytes_per_owner: positiveInteger(10_000_000_000),
    signal_bytes: Type.Optional(Type.Integer({ minimum: 1024, maximum: 1_000_000 })),
    per_minion: positiveInteger(tenMillion),
    per_stack: positiveInteger(tenMillion),
    per_owner: positiveInteger(tenMillion),
    bytes_per_owner: positiveInteger(100_000_000_000),
    entries: positiveInteger(tenMillion),
    bytes: positiveInteger(100_000_000_000),
    retry_initial_delay: Type.Optional(Type.Number({ minimum: 0.01, maximum: 3600 })),
    retry_max_delay: Type.Optional(Type.Number({ minimum: 0.01, maximum: 86_400 })),
    same_id_wait: Type.Optional(Type.Number({ minimum: 0, maximum: 60 })),
    per_endpoint: positiveInteger(1_000),
    dead_letter_ttl: positiveInteger(31_536_000),
  },
  { additionalProperties: false },
);

/**
 * Parses the section into options.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseSignalsOptions(given: unknown = {}) {
  const section = parseSection('bridge:handles', SignalsSection, given);
  const { endpoints = [], timeout = 10 } = section;
  return {
    /** Endpoints to which signals may be sent, by origin. Default: none, so no signals are sent. */
    endpoints: parseSignalEndpoints(
      endpoints.map((it) => (typeof it === 'string' ? { url: it } : it)),
    ),
    /** Timeout of one request to a service, in milliseconds. Default: 10,000. */
    timeoutMs: timeout * 1000,
    /** Validity of a handle without `expiresAt`, in milliseconds. Default: 12 hours. */
    handleTtlMs: (section.handle_ttl ?? 43_200) * 1000,
    /**
     * Time for which a signal without a handle is held, in milliseconds. With 0, such signals are
     * rejected. Default: 10 minutes.
     */
    heldTtlMs: (section.held_ttl ?? 600) * 1000,
    /** Limits on the stored size of handles. Default: 64 MiB in total, 16 MiB for each owner. */
    handleBytes: {
      total: section.handle_bytes ?? 67_108_864,
      perOwner: section.handle_bytes_per_owner ?? 16_777_216,
    },
    /**
     * Maximum size of a signal, in bytes of JSON. Default: 128 KiB. Zaqar accepts up to 256 KiB.
     */
    maxBytes: section.signal_bytes ?? 131_072,
    quotas: {
      perMinion: section.per_minion ?? 2_000,
      perStack: section.per_stack ?? 20_000,
      perOwner: section.per_owner ?? 40_000,
      ownerBytes: section.bytes_per_owner ?? 67_108_864,
      heldPerMinion: section.held_per_minion ?? 16,
      entries: section.entries ?? 120_000,
      bytes: section.bytes ?? 268_435_456,
    },
    backOff: {
      initialDelayMs: (section.retry_initial_delay ?? 1) * 1000,
      maxDelayMs: (section.retry_max_delay ?? 60) * 1000,
    },
    /**
     * Delay between two signals with the same id, in milliseconds. It applies to the transports
     * `HEAT_SIGNAL` and `TOKEN_SIGNAL`, because Heat responds to their requests before it has
     * stored the signal. Default: 3,000.
     */
    sameIdMs: (section.same_id_wait ?? 3) * 1000,
    /** Maximum number of concurrent requests to one service. Default: 8. */
    perEndpoint: section.per_endpoint ?? 8,
    /** Time for which a signal stays in the dead-letter list, in milliseconds. Default: 7 days. */
    deadLetterTtlMs: (section.dead_letter_ttl ?? 604_800) * 1000,
  };
}

function parseSignalEndpoints(
  endpoints: readonly ConfiguredEndpoint[],
): ReadonlyMap<string, AllowedEndpoint> {
  const read = attemptEach(endpoints, 'saltbridge:bridge:handles:endpoints', (endpoint) =>
    parseAllowedEndpoints([readEndpoint(endpoint)]),
  );
  return new Map(read.flatMap((one) => [...one]));
}

/** Options `saltbridge: bridge: handles:`. */

import Type from 'typebox';
import {
  type AllowedEndpoint,
  type BudgetLimits,
  type ConfiguredEndpoint,
  parseAllowedEndpoints,
  type RetryDelays,
  readEndpoint,
} from '#runtime';
import { attemptEach, parseSection } from '../options.ts';
import type { OutboxQuotaOptions } from './outbox-quotas.ts';

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

/** What signals are handled by; each has a default. */
export interface SignalsOptions {
  /** Services that signals may be sent to, by origin. Default: none, so nothing is ever sent. */
  readonly endpoints: ReadonlyMap<string, AllowedEndpoint>;
  /** Milliseconds for one exchange with a service. Default 10,000. */
  readonly timeoutMs: number;
  /** How long a handle without `expiresAt` is kept, milliseconds. Default 12 hours. */
  readonly handleTtlMs: number;
  /** How long a signal without a handle is held, milliseconds; 0: not at all. Default 10 minutes. */
  readonly heldTtlMs: number;
  /** Bytes of registered handles, in all and of one owner. Default 64 MiB and 16 MiB. */
  readonly handleBytes: BudgetLimits;
  /** Largest signal, bytes as JSON. Default 128 KiB: Zaqar takes 256. */
  readonly maxBytes: number;
  /**
   * Defaults: 2,000 of one minion, of those 16 without a handle; 20,000 of one stack; 40,000 and
   * 64 MiB of one owner; 120,000 and 256 MiB in all.
   */
  readonly quotas: OutboxQuotaOptions;
  /** Defaults: 1,000 and 60,000. */
  readonly backOff: RetryDelays;
  /**
   * Milliseconds between two signals of one id by HEAT_SIGNAL or TOKEN_SIGNAL, which Heat stores
   * only after it has answered. Default 3,000.
   */
  readonly sameIdMs: number;
  /** Exchanges at a time with one service. Default 8. */
  readonly perEndpoint: number;
  /** How long a signal stays in the dead-letter list, milliseconds. Default 7 days. */
  readonly deadLetterTtlMs: number;
}

/** The options that a section means. @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseSignalsOptions(given: unknown = {}): SignalsOptions {
  const section = parseSection('bridge:handles', SignalsSection, given);
  const { endpoints = [], timeout = 10 } = section;
  return {
    endpoints: parseSignalEndpoints(
      endpoints.map((it) => (typeof it === 'string' ? { url: it } : it)),
    ),
    timeoutMs: timeout * 1000,
    handleTtlMs: (section.handle_ttl ?? 43_200) * 1000,
    heldTtlMs: (section.held_ttl ?? 600) * 1000,
    handleBytes: {
      total: section.handle_bytes ?? 67_108_864,
      perOwner: section.handle_bytes_per_owner ?? 16_777_216,
    },
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
    sameIdMs: (section.same_id_wait ?? 3) * 1000,
    perEndpoint: section.per_endpoint ?? 8,
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

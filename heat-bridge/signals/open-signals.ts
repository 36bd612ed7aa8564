/**
 * Opens signals from their parts (handles, intake, outbox, held signals, delivery), and reads their
 * options.
 */

import Type from 'typebox';
import { type AuditRequester, audited, type ExtensionHost, type MetricFamily } from '#master';
import type { BudgetLimits, RetryDelays } from '#runtime';
import {
  type AllowedEndpoint,
  type ConfiguredEndpoint,
  createDnsResolver,
  createHttpClient,
  type HttpClient,
  parseAllowedEndpoints,
  readEndpoint,
} from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { familyOf, figureOf } from '../figures.ts';
import { attemptEach, parseSection } from '../options.ts';
import { DeliveryWorker, OutboxDelivery } from './delivery-worker.ts';
import type { GroupMembership } from './handle-groups.ts';
import { type HandleInfo, HandleRegistry } from './handles.ts';
import { Outbox } from './outbox.ts';
import type { OutboxQuotaOptions } from './outbox-quotas.ts';
import { upgradeRecords } from './outbox-upgrade.ts';
import { HeldSignals, SignalIntake, SignalReporter, type SignalTraces } from './signal-intake.ts';
import {
  auditExpired,
  createOutboxApi,
  type HandlesApi,
  type SignalsApi,
  signalMethods,
} from './signals-api.ts';

// Options `saltbridge: bridge: handles:`.

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

/** What signals need of their master. */
export type SignalsHost = Pick<
  ExtensionHost,
  'audit' | 'beforeReload' | 'closing' | 'fire' | 'isWithin' | 'logger' | 'now' | 'shared'
> & {
  /** `publish_session` says how long a request that was sent once can come again. */
  readonly config: Pick<ExtensionHost['config'], 'publishSession'>;
  readonly admission: Pick<ExtensionHost['admission'], 'keyOf'>;
  readonly reloadable: () => Pick<ReturnType<ExtensionHost['reloadable']>, 'nodegroups'>;
};

/** Signals, for other extensions of the bridge. */
export interface SignalsModule
  extends Required<Pick<BridgeContribution, 'close' | 'metrics' | 'rpc' | 'start'>> {
  readonly api: SignalsApi;
  readonly intake: SignalIntake;
  /** The handle that an alias means for a minion. */
  readonly handleFor: (alias: string, minion: string) => HandleInfo | undefined;
  /** The same interface for somebody else than who may use the local socket. */
  as(requester: AuditRequester): SignalsApi;
  /** Asks the listed services, and no others. */
  readonly ask: HttpClient;
  readonly isListed: (origin: string) => boolean;
  /** Lets a minion that is no more signal no handle; durable when it resolves. */
  dismiss(minion: string): Promise<void>;
}

/** What signals need of other parts of the bridge. */
export interface SignalsDeps {
  /** The project of the enrolment by which a minion's key is accepted. */
  readonly projectOf: GroupMembership['projectOf'];
  readonly traces?: SignalTraces | undefined;
}

/**
 * With what a process before this one left; nothing is delivered before `start`.
 * @param section - `saltbridge: bridge: handles:`
 * @throws BridgeError ERR_BRIDGE_OPTIONS, StoreError
 */
export async function openSignals(
  host: SignalsHost,
  section: unknown,
  { projectOf, traces }: SignalsDeps,
): Promise<SignalsModule> {
  const { shared: state, now, admission } = host;
  const {
    endpoints: configured,
    timeoutMs,
    handleTtlMs,
    heldTtlMs,
    ...more
  } = parseSignalsOptions(section);
  const { handleBytes, maxBytes, quotas, deadLetterTtlMs, ...pace } = more;
  const endpoints = new Map(configured);
  host.beforeReload((bridge) => {
    const next = parseSignalsOptions(bridge?.handles);
    return () => {
      endpoints.clear();
      for (const [origin, endpoint] of next.endpoints) endpoints.set(origin, endpoint);
    };
  });
  const log = host.logger.child({ component: 'signals' });
  const reports = new SignalReporter(host.fire, log, traces);
  const handles = await HandleRegistry.open({
    state,
    endpoints,
    membership: {
      hasNodegroup: (name) => Object.hasOwn(host.reloadable().nodegroups, name),
      isInNodegroup: (minion, name) => host.isWithin([minion], `N@${name}`),
      projectOf,
    },
    handleTtlMs,
    bytes: handleBytes,
    now,
  });
  const keepMarksMs = host.config.publishSession * 1000;
  await upgradeRecords(state, (id) => handles.find(id)?.owner);
  const ask = createHttpClient({
    endpoints,
    timeoutMs,
    resolve: createDnsResolver(),
    // A signal that failed is sent again under its id.
    mayRepeat: true,
  });
  const outbox = await Outbox.open({ state, quotas, keepMarksMs, deadLetterTtlMs, now });
  const createWorker = (closing: AbortSignal): DeliveryWorker =>
    new DeliveryWorker({
      handles,
      outbox,
      ask,
      pace,
      closing,
      now,
      log,
      reports,
    });
  const held = new HeldSignals({
    handles,
    outbox,
    ttlMs: heldTtlMs,
    admission,
    isActive: () => state.cluster?.isHeld !== false,
    now,
    log,
    reports,
    onExpired: (record, reason) => auditExpired(host.audit, record, reason),
  });
  const delivery = new OutboxDelivery(outbox, held, createWorker);
  const release = (handle: HandleInfo): Promise<void> =>
    held.releaseAll(handle).catch((error: unknown) => {
      log.error({ alias: handle.alias, err: error }, 'held signals were not given to the handle');
    });
  const begin = (ended: AbortSignal): void => {
    Promise.all([delivery.begin(ended), held.start()]).catch((error: unknown) => {
      log.error({ err: error }, 'held signals were not given to their handles');
    });
  };
  const intake = new SignalIntake({
    handles,
    outbox,
    held: heldTtlMs === 0 ? undefined : held,
    admission,
    maxBytes,
    now,
    reports,
  });
  const plain = {
    handles: createHandlesApi(handles, delivery, release),
    outbox: createOutboxApi({ outbox, courier: delivery, handles }),
  };
  const rows = signalMethods(plain);
  const api = audited(rows, plain, host.audit);
  return {
    api,
    as: (requester) => audited(rows, plain, host.audit, requester),
    ask,
    isListed: (origin) => endpoints.has(origin),
    intake,
    handleFor: (alias, minion) => handles.findFor(alias, minion),
    rpc: signalMethods(api),
    metrics: () => outboxFamilies(outbox, reports.over, now()),
    dismiss: async (minion) => {
      await handles.dismiss(minion);
      await held.dismiss(minion);
    },
    start: () => {
      const { cluster } = state;
      for (const pending of outbox.pending) if (pending.handle === undefined) held.add(pending);
      outbox.consumer = delivery;
      if (cluster === undefined) return begin(host.closing);
      handles.onFollowed = (id) => {
        delivery.wake(id);
        const handle = handles.find(id);
        if (handle !== undefined && cluster.isHeld) void release(handle);
      };
      cluster.onHeld((ended) => begin(AbortSignal.any([ended, host.closing])));
    },
    close: async () => {
      await held.close();
      await delivery.close();
    },
  };
}

/** @param over - since the start */
function outboxFamilies(
  outbox: Outbox,
  over: { readonly delivered: number; readonly dead: number },
  now: number,
): readonly MetricFamily[] {
  const { waiting, held, since = now } = outbox.figures();
  const states = { waiting, held, dead: outbox.dead.size };
  const age = Math.max(0, now - since) / 1000;
  return [
    familyOf(
      {
        type: 'gauge',
        name: 'outbox_signals',
        help: 'Signals that are not delivered, by state.',
        label: 'state',
      },
      states,
    ),
    figureOf('gauge', 'outbox_oldest_seconds', 'How long the first of them waits.', age),
    figureOf('counter', 'outbox_delivered_total', 'Signals that were delivered.', over.delivered),
    figureOf('counter', 'outbox_dead_total', 'Signals that were given up.', over.dead),
  ];
}

/** @param release - delivers what was held for a handle */
function createHandlesApi(
  handles: HandleRegistry,
  courier: OutboxDelivery,
  release: (handle: HandleInfo) => Promise<void>,
): HandlesApi {
  return {
    add: async (registration, { replaces = false } = {}) => {
      const info = await handles.add(registration, replaces);
      courier.wake(info.id);
      await release(info);
      return info;
    },
    list: async ({ owner } = {}) =>
      handles.list().filter((it) => owner === undefined || it.owner === owner),
    show: async (alias, { owner } = {}) => handles.show(alias, owner),
    remove: async (alias, { owner } = {}) => {
      const info = await handles.remove(alias, owner);
      courier.wake(info.id);
      return info;
    },
  };
}

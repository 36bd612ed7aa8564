/**
 * Opens signals: reads their options, and creates their objects (handles, intake, outbox, held
 * signals, delivery).
 */

import { type AuditRequester, audited, type ExtensionHost, type MetricFamily } from '#master';
import { createDnsResolver, createHttpClient, type HttpClient } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { familyOf, figureOf } from '../figures.ts';
import { DeliveryWorker } from './delivery-worker.ts';
import { awaitReturnedArguments } from './event-arguments.ts';
import type { GroupMembership } from './handle-groups.ts';
import { type HandleClaim, type HandleInfo, HandleRegistry } from './handles.ts';
import { HeldSignals } from './held-signals.ts';
import { Outbox } from './outbox.ts';
import { createOutboxApi } from './outbox-api.ts';
import { type OutboxEntry, outboxEntryOf } from './outbox-entry.ts';
import { upgradeRecords } from './outbox-upgrade.ts';
import { auditExpired, auditStackHandle } from './signal-audit.ts';
import { SignalIntake } from './signal-intake.ts';
import { signalMethods } from './signal-methods.ts';
import { SignalReporter, type SignalTraces } from './signal-reporter.ts';
import type { HandlesApi, SignalsApi } from './signals-api.ts';
import { parseSignalsOptions } from './signals-options.ts';

/** Services of the master that signals need. */
export type SignalsHost = Pick<
  ExtensionHost,
  'audit' | 'beforeReload' | 'closing' | 'fire' | 'isWithin' | 'logger' | 'now' | 'shared'
> & {
  /**
   * Configuration of the master. Only `publish_session` is used. It is the period during which a
   * minion can repeat a request.
   */
  readonly config: Pick<ExtensionHost['config'], 'publishSession'>;
  readonly admission: Pick<ExtensionHost['admission'], 'keyOf'>;
  /**
   * Event bus, on which the returns of `salt-call` arrive. If an event contains no data, the bridge
   * looks for its data in the return of the `salt-call` that fired it. Without the bus, the bridge
   * does not look for such data.
   */
  readonly events?: Parameters<typeof awaitReturnedArguments>[0] | undefined;
  readonly reloadable: () => Pick<ReturnType<ExtensionHost['reloadable']>, 'nodegroups'>;
};

/** Interface of signals for other extensions of the bridge. */
export interface SignalsModule
  extends Required<Pick<BridgeContribution, 'close' | 'metrics' | 'rpc' | 'start'>> {
  readonly api: SignalsApi;
  readonly intake: SignalIntake;
  /**
   * Returns the handle that receives the signals of a minion for an alias, or `undefined` if none
   * is registered.
   */
  readonly handleFor: (alias: string, minion: string) => HandleInfo | undefined;
  /** Returns the API for a requester. Audit records name this requester. */
  as(requester: AuditRequester): SignalsApi;
  /** HTTP client that sends requests only to listed endpoints. */
  readonly ask: HttpClient;
  readonly isListed: (origin: string) => boolean;
  /** Operations on the handles of stacks. Servers name these handles in their metadata. */
  readonly ofStacks: StackHandles;
  /**
   * Returns the held and the expired signals that these minions sent. No handle was registered for
   * these signals. The oldest signal is first. If there are more than 1,000 signals, returns only
   * the latest 1,000.
   */
  unclaimedOf(minions: ReadonlySet<string>): Promise<readonly OutboxEntry[]>;
  /**
   * Removes a retired minion from all handles, and moves its held signals to the dead-letter list.
   * Resolves when the changes are durable.
   */
  dismiss(minion: string): Promise<void>;
  /**
   * Moves all undelivered signals of these minions to the dead-letter list, held signals and those
   * that wait for delivery. Resolves when the changes are durable.
   */
  discard(minions: ReadonlySet<string>, reason: string): Promise<void>;
  /** Removes a minion from all handles of an owner. Resolves when the change is durable. */
  release(minion: string, owner: string): Promise<void>;
}

/** Operations on the handles of a stack. */
interface StackHandles {
  /**
   * Registers a handle for one more minion of a stack, and queues the signals that were held for
   * the handle.
   */
  claim(claim: HandleClaim): Promise<HandleInfo>;
  /**
   * Removes one minion, or all minions, from the handles of a stack. Pending signals of removed
   * handles become dead letters.
   */
  withdraw(...args: Parameters<HandleRegistry['withdraw']>): Promise<void>;
}

/** Maximum number of signals without a handle that are returned. */
const maxUnclaimed = 1_000;

/** Functions of other modules of the bridge that {@link openSignals} uses. */
export interface SignalsDeps {
  /** Returns the project of a minion: the project of the enrolment that accepted its key. */
  readonly projectOf: GroupMembership['projectOf'];
  /** Whether this master enrols a machine with this minion id. Default: it enrols none. */
  readonly isEnrolling?: ((minion: string) => boolean) | undefined;
  readonly traces?: SignalTraces | undefined;
}

/**
 * Opens handles, outbox and delivery with the stored state. Nothing is delivered before `start` is
 * called.
 * @param section - value of `saltbridge: bridge: handles:`
 * @throws BridgeError ERR_BRIDGE_OPTIONS, StoreError
 */
export async function openSignals(
  host: SignalsHost,
  section: unknown,
  { projectOf, isEnrolling = () => false, traces }: SignalsDeps,
): Promise<SignalsModule> {
  const { shared: state, now, admission, events } = host;
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
    // A client may repeat a request. A signal that arrives again has the same id.
    mayRepeat: true,
  });
  const outbox = await Outbox.open({ state, quotas, projectOf, keepMarksMs, deadLetterTtlMs, now });
  const held = new HeldSignals({
    handles,
    outbox,
    ttlMs: heldTtlMs,
    admission,
    isEnrolling,
    isActive: () => state.cluster?.isHeld !== false,
    now,
    log,
    reports,
    onExpired: (record, reason) => auditExpired(host.audit, record, reason),
  });
  const delivery = new DeliveryWorker({ handles, outbox, held, ask, pace, now, log, reports });
  const release = (handle: HandleInfo): Promise<void> =>
    held.releaseAll(handle).catch((error: unknown) => {
      log.error(
        { alias: handle.alias, err: error },
        'a handle was registered, but the signals that waited for it could not be queued for delivery',
      );
    });
  const begin = (ended: AbortSignal): void => {
    Promise.all([delivery.begin(ended), held.start()]).catch((error: unknown) => {
      log.error({ err: error }, 'internal error while starting the delivery of stored signals');
    });
  };
  const intake = new SignalIntake({
    handles,
    outbox,
    held,
    holdsUnregistered: heldTtlMs !== 0,
    returnedArguments:
      events &&
      ((minion, tag) => awaitReturnedArguments(events, { minion, tag, closing: host.closing })),
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
    ofStacks: {
      claim: async (claim) => {
        const info = await handles.claim(claim);
        auditStackHandle(host.audit, 'handle.add', info.alias, [claim.minion]);
        delivery.wake(info.id);
        await release(info);
        return info;
      },
      withdraw: async (...args) => {
        for (const { id, alias, minions } of await handles.withdraw(...args)) {
          auditStackHandle(host.audit, 'handle.remove', alias, minions);
          delivery.wake(id);
        }
      },
    },
    unclaimedOf: async (minions) => {
      const entries = [...(await outbox.dead.unclaimedOf(minions, maxUnclaimed))];
      const pending = outbox.pendingOf(
        ({ handle, minion }) => handle === undefined && minions.has(minion),
      );
      for await (const [, record] of outbox.describe(pending.slice(-maxUnclaimed))) {
        if (record !== undefined) entries.push(outboxEntryOf(record, 'held'));
      }
      return entries.slice(-maxUnclaimed);
    },
    metrics: () => outboxFamilies(outbox, reports.over, now()),
    release: (minion, owner) => handles.dismiss(minion, owner),
    dismiss: async (minion) => {
      await handles.dismiss(minion);
      await held.dismiss(
        minion,
        'the minion was retired before a handle was registered for the signal',
      );
    },
    discard: async (minions, reason) => {
      for (const minion of minions) await held.dismiss(minion, reason);
      for (const pending of outbox.pendingOf(({ minion }) => minions.has(minion))) {
        const record = await outbox.read(pending);
        if (record === undefined) continue;
        const handle = record.handle === undefined ? undefined : handles.find(record.handle);
        if (await outbox.moveIfThere(pending, record, reason)) {
          reports.givenUp(record, handle, reason);
        }
      }
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

/**
 * Returns the metrics of the outbox.
 * @param over - numbers of signals that were delivered or failed since the start
 */
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
        help: 'Undelivered signals: waiting, held for a handle, dead (failed).',
        label: 'state',
      },
      states,
    ),
    figureOf('gauge', 'outbox_oldest_seconds', 'Age of the oldest waiting signal.', age),
    figureOf('counter', 'outbox_delivered_total', 'Delivered signals.', over.delivered),
    figureOf('counter', 'outbox_dead_total', 'Signals that failed permanently.', over.dead),
  ];
}

/**
 * Creates the API of handles.
 * @param release - queues the signals that are held for a handle
 */
function createHandlesApi(
  handles: HandleRegistry,
  courier: DeliveryWorker,
  release: (handle: HandleInfo) => Promise<void>,
): HandlesApi {
  return {
    add: async (given, { owner, replaces = false, ...checks } = {}) => {
      const registration = owner === undefined ? given : { ...given, owner };
      const info = await handles.add(registration, replaces, checks);
      courier.wake(info.id);
      await release(info);
      return info;
    },
    list: async ({ owner } = {}) => handles.list(owner),
    show: async (alias, { owner, stack } = {}) => handles.show(alias, owner, stack),
    remove: async (alias, { owner, stack } = {}) => {
      const info = await handles.remove(alias, owner, stack);
      courier.wake(info.id);
      return info;
    },
  };
}

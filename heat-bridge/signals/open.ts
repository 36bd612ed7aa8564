/** Signals that reach Heat: handles, intake, outbox, held signals and courier, put together. */
import type { AuditRequester, ExtensionHost } from '../../master/index.ts';
import { createAsk } from '../outgoing/exchange.ts';
import { createLookup } from '../outgoing/lookup.ts';
import type { BridgePart } from '../part.ts';
import { auditExpired, audited } from './audited.ts';
import { Courier } from './courier.ts';
import type { HandleInfo } from './handle.ts';
import { Handles } from './handles.ts';
import { HeldSignals } from './held-signals.ts';
import { SignalIntake } from './intake.ts';
import { signalsOptions } from './options.ts';
import { Outbox, type Pending } from './outbox.ts';
import { createOutboxApi } from './outbox-api.ts';
import { SignalReports } from './reports.ts';
import { signalMethods } from './rpc.ts';
import type { HandlesApi, SignalsApi } from './signals-api.ts';
import { createDeliverer } from './transports/table.ts';

/** Before a service that works is asked again whether it has taken the signal before. */
const turnMs = 1_000;

/** What signals need of their master. */
export type SignalsHost = Pick<
  ExtensionHost,
  'audit' | 'closing' | 'fire' | 'logger' | 'now' | 'state'
> & {
  /** `publish_session` says how long a request that was sent once can come again. */
  readonly config: Pick<ExtensionHost['config'], 'publishSession'>;
  readonly admission: Pick<ExtensionHost['admission'], 'keyOf'>;
};

/** The part of the bridge that signals. */
export interface OpenSignals
  extends Required<Pick<BridgePart<SignalsApi>, 'api' | 'close' | 'intake' | 'rpc' | 'start'>> {
  /** The same interface for somebody else than who may use the local socket. */
  as(requester: AuditRequester): SignalsApi;
  /** Lets a minion that is no more signal no handle; durable when it resolves. */
  dismiss(minion: string): Promise<void>;
}

/**
 * With what a process before this one left; nothing is delivered before `start`.
 * @param section - `saltbridge: bridge: handles:`
 * @throws BridgeError ERR_BRIDGE_OPTIONS, StoreError
 */
export async function openSignals(host: SignalsHost, section: unknown): Promise<OpenSignals> {
  const { state, now, closing } = host;
  const { endpoints, timeoutMs, lifeMs, heldTtlMs, handleBytes, maxBytes, ...more } =
    signalsOptions(section);
  const { quotas, keepDeadMs, ...pace } = more;
  const log = host.logger.child({ component: 'signals' });
  const reports = new SignalReports(host.fire, log);
  const isListed = (origin: string): boolean => endpoints.has(origin);
  const handles = await Handles.open({ state, isListed, lifeMs, bytes: handleBytes, now });
  const keepMarksMs = host.config.publishSession * 1000;
  const outbox = await Outbox.open({ state, quotas, keepMarksMs, keepDeadMs, now });
  const courier = new Courier({
    ...pace,
    handles,
    outbox,
    ask: createAsk({ endpoints, timeoutMs, resolve: createLookup() }),
    deliver: createDeliverer(),
    turnMs,
    closing,
    now,
    random: Math.random,
    log,
    onOver: (record, handle, reason) => reports.over(record, handle, reason),
  });
  const keyOf = (minion: string): string | undefined => host.admission.keyOf(minion)?.fingerprint;
  const held = new HeldSignals({
    handles,
    outbox,
    ttlMs: heldTtlMs,
    keyOf,
    now,
    log,
    onGivenUp: (record, reason) => reports.over(record, undefined, reason),
    onExpired: (record, reason) => auditExpired(host.audit, record, reason),
  });
  const route = (pending: Pending): void => {
    if (pending.handle === undefined) held.add(pending);
    else courier.add(pending, pending.handle);
  };
  const intake = new SignalIntake({
    handles,
    outbox,
    held: heldTtlMs === 0 ? undefined : held,
    keyOf,
    maxBytes,
    now,
    onAccepted: (minion, alias, id) => reports.accepted(minion, alias, id),
    onHeld: (minion, alias, id) => reports.held(minion, alias, id),
    onRefused: (minion, alias, refusal) => reports.refused(minion, alias, refusal),
  });
  const plain = {
    handles: createHandlesApi(handles, courier, (handle) =>
      held.releaseAll(handle).catch((error: unknown) => {
        log.error({ alias: handle.alias, err: error }, 'held signals were not given to the handle');
      }),
    ),
    outbox: createOutboxApi({ outbox, courier, handles }),
  };
  const api = audited(plain, host.audit);
  return {
    api,
    as: (requester) => audited(plain, host.audit, requester),
    intake,
    rpc: signalMethods(api),
    dismiss: async (minion) => {
      await handles.dismiss(minion);
      await held.dismiss(minion);
    },
    start: () => {
      for (const pending of outbox.pending) route(pending);
      outbox.onPending = route;
      held.start().catch((error: unknown) => {
        log.error({ err: error }, 'held signals were not given to their handles');
      });
    },
    close: async () => {
      await held.close();
      await courier.close();
    },
  };
}

/** @param release - delivers what was held for a handle */
function createHandlesApi(
  handles: Handles,
  courier: Courier,
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

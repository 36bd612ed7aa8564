/** Signals that reach Heat: handles, intake, outbox and courier, put together. */
import type { AuditRequester, ExtensionHost } from '../../master/index.ts';
import { createAsk } from '../outgoing/exchange.ts';
import { createLookup } from '../outgoing/lookup.ts';
import type { BridgePart } from '../part.ts';
import { audited } from './audited.ts';
import { Courier } from './courier.ts';
import { Handles } from './handles.ts';
import { SignalIntake } from './intake.ts';
import { signalsOptions } from './options.ts';
import { Outbox } from './outbox.ts';
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
  const { endpoints, timeoutMs, lifeMs, maxBytes, quotas, keepDeadMs, ...pace } =
    signalsOptions(section);
  const log = host.logger.child({ component: 'signals' });
  const reports = new SignalReports(host.fire, log);
  const isListed = (origin: string): boolean => endpoints.has(origin);
  const handles = await Handles.open({ state, isListed, lifeMs, now });
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
  const intake = new SignalIntake({
    handles,
    outbox,
    maxBytes,
    now,
    onAccepted: (minion, alias, id) => reports.accepted(minion, alias, id),
    onRefused: (minion, alias, refusal) => reports.refused(minion, alias, refusal),
  });
  const plain = {
    handles: createHandlesApi(handles, courier),
    outbox: createOutboxApi({ outbox, courier, handles }),
  };
  const api = audited(plain, host.audit);
  return {
    api,
    as: (requester) => audited(plain, host.audit, requester),
    intake,
    rpc: signalMethods(api),
    dismiss: (minion) => handles.dismiss(minion),
    start: () => courier.start(),
    close: () => courier.close(),
  };
}

function createHandlesApi(handles: Handles, courier: Courier): HandlesApi {
  return {
    add: async (registration, { replaces = false } = {}) => {
      const info = await handles.add(registration, replaces);
      courier.wake(info.alias);
      return info;
    },
    list: async ({ owner } = {}) =>
      handles.list().filter((it) => owner === undefined || it.owner === owner),
    show: async (alias) => handles.show(alias),
    remove: async (alias) => {
      const info = await handles.remove(alias);
      courier.wake(alias);
      return info;
    },
  };
}

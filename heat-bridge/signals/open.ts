/** Signals that reach Heat: handles, intake, outbox and courier, put together. */
import { lookup } from 'node:dns/promises';
import { Courier } from './courier.ts';
import { listEndpoints } from './endpoints.ts';
import { createAsk } from './exchange.ts';
import { Handles } from './handles.ts';
import type { SignalsHost } from './host.ts';
import { type PermittedEvent, SignalIntake } from './intake.ts';
import type { SignalsOptions } from './options.ts';
import { Outbox } from './outbox.ts';
import { createOutboxApi } from './outbox-api.ts';
import { SignalReports } from './reports.ts';
import type { HandlesApi, OutboxApi } from './signals-api.ts';
import { createDeliverer } from './transports/table.ts';

/** Before a service that works is asked again whether it has taken the signal before. */
const turnMs = 1_000;

/** Signals of a running master. */
export interface Signals {
  readonly handles: HandlesApi;
  readonly outbox: OutboxApi;
  readonly intake: {
    isWanted(tag: string): boolean;
    /** Durable when it resolves. @throws StoreError */
    take(event: PermittedEvent): Promise<void>;
  };
  /** Begins to deliver. */
  start(): void;
  /** Waits for what is under way, which the host's signal ends. */
  close(): Promise<void>;
}

/** With what a process before this one left; delivers nothing before `start`. */
export async function openSignals(host: SignalsHost, options: SignalsOptions): Promise<Signals> {
  const { state, logger, now, closing, keepMarksMs } = host;
  const { quotas, keepDeadMs, lifeMs, maxBytes, timeoutMs, backOff, perEndpoint } = options;
  const log = logger.child({ component: 'signals' });
  const reports = new SignalReports(host.fire, log);
  const endpoints = listEndpoints(options.endpoints);
  const isListed = (origin: string): boolean => endpoints.has(origin);
  const handles = await Handles.open({ state, isListed, lifeMs, now });
  const outbox = await Outbox.open({ state, quotas, keepMarksMs, keepDeadMs, now });
  const courier = new Courier({
    handles,
    outbox,
    ask: createAsk({ endpoints, timeoutMs, resolve }),
    deliver: createDeliverer(),
    backOff,
    turnMs,
    perEndpoint,
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
  return {
    handles: createHandlesApi(handles, courier),
    outbox: createOutboxApi({ outbox, courier, handles }),
    intake,
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

async function resolve(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}

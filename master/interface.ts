/** The master's interface over its parts: see api.ts for what each call promises. */
import { readFileSync } from 'node:fs';
import { type BoundPorts, compileGlob, type MasterTransport } from '../minion-protocol/index.ts';
import type { MasterApi } from './api.ts';
import type { MasterConfig } from './config/options.ts';
import type { EventBus } from './events/bus.ts';
import type { Foundations } from './foundations.ts';
import type { RequestCounters } from './limits/counters.ts';
import type { DenialLog } from './requests/denial-log.ts';
import { type Services, toFunctionsApi } from './services.ts';

/** What the interface speaks for. */
export interface InterfaceParts {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
  readonly bus: EventBus;
  readonly services: Services;
  readonly transports: readonly MasterTransport[];
  readonly counters: RequestCounters;
  readonly denials: DenialLog;
  readonly bound: BoundPorts;
  readonly startedAt: number;
}

export function createApi(parts: InterfaceParts): MasterApi {
  const { bus, denials, services } = parts;
  return {
    keys: services.keys,
    jobs: services.jobs,
    events: {
      subscribe: (request = {}, signal) =>
        bus.subscribe({
          ...(request.match === undefined ? {} : { accepts: compileGlob(request.match) }),
          ...(signal === undefined ? {} : { signal }),
        }),
      denials: async () => denials.list(),
    },
    runners: toFunctionsApi(services.runners),
    wheel: toFunctionsApi(services.wheel),
    status: async () => describeStatus(parts),
  };
}

const packageFile = new URL('../../package.json', import.meta.url);
const description: { version: string } = JSON.parse(readFileSync(packageFile, 'utf8'));

/** Of this package. */
export const version: string = description.version;

function describeStatus(parts: InterfaceParts): Awaited<ReturnType<MasterApi['status']>> {
  const { accepted, denied, pending, rejected } = parts.foundations.keys.list();
  const refusals = Object.assign({}, ...parts.transports.map((transport) => transport.refusals()));
  return {
    id: parts.config.id,
    version,
    pid: process.pid,
    startedAt: parts.startedAt,
    requestPort: parts.bound.requestPort,
    publishPort: parts.bound.publishPort,
    subscribers: parts.transports.reduce((sum, it) => sum + it.subscribers().length, 0),
    keys: {
      accepted: accepted.length,
      denied: denied.length,
      pending: pending.length,
      rejected: rejected.length,
    },
    counters: { ...refusals, ...parts.counters.snapshot() },
  };
}

/** The master's interface over its parts: see api.ts for what each call promises. */
import { readFileSync } from 'node:fs';
import {
  type BoundPorts,
  compileGlob,
  fingerprint,
  type MasterTransport,
} from '../minion-protocol/index.ts';
import type { KeyInfo, KeySelection, KeyState, KeysApi, MasterApi } from './api.ts';
import type { MasterConfig } from './config/options.ts';
import type { EventBus } from './events/bus.ts';
import type { Foundations } from './foundations.ts';
import type { JobDispatcher } from './jobs/dispatcher.ts';
import type { JobCache } from './jobs/job-cache.ts';
import { createJobsApi } from './jobs/jobs-api.ts';
import { KeyError } from './keys/errors.ts';
import type { KeyStore } from './keys/key-store.ts';
import type { RequestCounters } from './limits/counters.ts';
import type { DenialLog } from './requests/denial-log.ts';
import type { TargetResolver } from './targeting/resolve.ts';
import type { LastHeard } from './requests/last-heard.ts';

/** What the interface speaks for. */
export interface InterfaceParts {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
  readonly bus: EventBus;
  readonly dispatcher: JobDispatcher;
  readonly targets: TargetResolver;
  readonly jobs: JobCache;
  readonly lastHeard: LastHeard;
  readonly transports: readonly MasterTransport[];
  readonly counters: RequestCounters;
  readonly denials: DenialLog;
  readonly bound: BoundPorts;
  readonly startedAt: number;
}

export function createApi(parts: InterfaceParts): MasterApi {
  const { config, bus, dispatcher, targets, denials, foundations, lastHeard } = parts;
  return {
    keys: createKeysApi(parts),
    jobs: createJobsApi({
      dispatcher,
      targets,
      cache: parts.jobs,
      defaults: { timeout: config.timeout, gatherJobTimeout: config.gatherJobTimeout },
      facts: {
        isAccepted: (id) => foundations.keys.get(id)?.state === 'accepted',
        lastHeardAt: (id) => lastHeard.of(id),
      },
    }),
    events: {
      subscribe: (request = {}, signal) =>
        bus.subscribe({
          ...(request.match === undefined ? {} : { accepts: compileGlob(request.match) }),
          ...(signal === undefined ? {} : { signal }),
        }),
      denials: async () => denials.list(),
    },
    status: async () => describeStatus(parts),
  };
}

function createKeysApi({ config, foundations }: InterfaceParts): KeysApi {
  const { keys, pins, masterKeys, signKeys } = foundations;
  const inspect = (record: { id: string; pem: string }, state: KeyState): KeyInfo => ({
    id: record.id,
    state,
    fingerprint: fingerprint(record.pem, config.hashType),
    publicKey: record.pem,
    protocol: pins.of(record.id),
    conflicts: keys.conflicts(record.id),
  });
  return {
    list: async () => {
      const { accepted, denied, pending, rejected } = keys.list();
      return [
        ...accepted.map((record) => inspect(record, 'accepted')),
        ...denied.map((record) => inspect(record, 'denied')),
        ...pending.map((record) => inspect(record, 'pending')),
        ...rejected.map((record) => inspect(record, 'rejected')),
      ];
    },
    local: async () => {
      const own = [{ name: 'master.pub', pem: masterKeys.publicPem }];
      if (signKeys !== undefined) {
        own.push({ name: `${config.masterSignKeyName}.pub`, pem: signKeys.publicPem });
      }
      return own.map(({ name, pem }) => ({ name, fingerprint: fingerprint(pem, config.hashType) }));
    },
    accept: async (selection) => {
      const { match, fingerprint: wanted } = selection;
      const states = statesById(keys, ['pending', ...(selection.include ?? [])]);
      const ids = await keys.acceptMatching(match, {
        ...(wanted === undefined ? {} : { fingerprint: wanted }),
        includeRejected: includes(selection, 'rejected'),
        includeDenied: includes(selection, 'denied'),
      });
      if (wanted !== undefined && ids.length === 0) {
        throw new KeyError('ERR_KEY_FINGERPRINT', 'no key that matches has this fingerprint');
      }
      return ids.map((id) => ({ id, from: states.get(id) ?? 'pending', to: 'accepted' }));
    },
    reject: async (selection) => {
      const states = statesById(keys, ['pending', ...(selection.include ?? [])]);
      const ids = await keys.rejectMatching(selection.match, {
        includeAccepted: includes(selection, 'accepted'),
        includeDenied: includes(selection, 'denied'),
      });
      return ids.map((id) => ({ id, from: states.get(id) ?? 'pending', to: 'rejected' }));
    },
    delete: async ({ match }) => {
      const states = statesById(keys, ['accepted', 'denied', 'pending', 'rejected']);
      const ids = await keys.deleteMatching(match);
      return ids.map((id) => ({ id, from: states.get(id) ?? 'denied' }));
    },
    unpin: (id) => pins.forget([id]),
  };
}

function includes({ include }: KeySelection, state: KeyState): boolean {
  return include?.includes(state) === true;
}

/** Where each id's key is, among these states; the last one counts where an id has two. */
function statesById(keys: KeyStore, states: readonly KeyState[]): Map<string, KeyState> {
  const list = keys.list();
  const inOrder = [...states].sort((left) => (left === 'denied' ? -1 : 1));
  return new Map(inOrder.flatMap((state) => list[state].map(({ id }) => [id, state] as const)));
}

const packageFile = new URL('../../package.json', import.meta.url);
const { version }: { version: string } = JSON.parse(readFileSync(packageFile, 'utf8'));

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

import type { LiveConfig } from '#config';
import type { WireValue } from '#minion-protocol';
import { TokenBuckets } from '#runtime';
import { type Auth, type KeyStore, SignatureCheck, send } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import { type EventBus, type Events, tags } from '../events/index.ts';
import {
  type Jobs,
  type KnownResources,
  ReturnProcessor,
  type ReturnRedaction,
} from '../jobs/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import type { PolicyGate, Users } from '../users/index.ts';
import { requestLimits } from './limits.ts';
import { masterOptsRequest } from './master-opts-request.ts';
import { minionEventRequest } from './minion-event.ts';
import type { RequestLimits } from './request-limits.ts';
import { anyLoad, defineRequestType, type RequestType, type RequestTypes } from './request-type.ts';
import { returnRequest } from './return-request.ts';
import type { SignalIntake } from './signal-intake.ts';

export interface CoreRequestDeps extends ModuleDeps {
  readonly auth: Auth;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly users: Users;
  readonly limits: RequestLimits;
  /**
   * Modules of extensions that receive permitted events of minions. They store the events, for
   * example as signals of the bridge or to start reactions.
   */
  readonly intakes: readonly SignalIntake[];
  readonly redactions: readonly ReturnRedaction[];
  /** Returns the file server environments that contain states. */
  readonly environments: () => readonly string[];
}

/** Returns the request types that the master itself serves. Extensions add further ones. */
export function coreRequests(deps: CoreRequestDeps): RequestTypes {
  const { config, context, auth, events, jobs, users, limits, intakes, environments } = deps;
  const { counters, meter } = context;
  const { requireMinionSignMessages, dropMessagesSignatureFail } = config.fixed;
  const { bus } = events;
  const { cache, resources } = jobs;
  return {
    _return: returnRequest({
      keeper: new ReturnProcessor({
        jobs,
        context,
        isOfFormerOwner: auth.retiredIds.has.bind(auth.retiredIds),
        bus,
        selfMadeLimit: new TokenBuckets(requestLimits.selfMadeJobs),
        selfMadeBytes: new TokenBuckets(requestLimits.selfMadeBytes),
        maySignal: (id, tag, data) => users.gate.permitsSignal(id, tag, data),
        redactions: deps.redactions,
      }),
      signatures: new SignatureCheck({
        isRequired: requireMinionSignMessages,
        mustVerify: dropMessagesSignatureFail,
        acceptedKey: auth.keys.acceptedPem.bind(auth.keys),
        verify: ({ minionId, ...signed }) =>
          auth.rsa.run({ kind: 'check-load', ...signed }, minionId),
        counters,
        log: context.log.child({ component: 'requests' }),
      }),
      counters,
      meter,
      requestRate: limits.requests,
      config,
    }),
    _minion_event: minionEventRequest({
      ...{ context, bus, limits, intakes },
      jobs: cache,
      gate: users.gate,
    }),
    _register_resources: resourcesRequest({ resources, bus, counters, config }),
    revoke_auth: revokeRequest(auth.keys, users.gate),
    _master_opts: masterOptsRequest(config, environments),
    // Salt's master has this request type too. Like Salt, the master replies with an empty string.
    verify_minion: constantRequest(''),
    // Returns that syndics forward. Syndics (subordinate masters) are not supported.
    _syndic_return: constantRequest(false),
  };
}

interface ResourceRequestOptions {
  readonly resources: KnownResources;
  readonly bus: EventBus;
  readonly counters: RequestCounters;
  /** Configuration. Only `minion_data_cache_events` is used. */
  readonly config: Pick<LiveConfig, 'current'>;
}

/**
 * Defines `_register_resources`. It stores the resources that a minion of Salt 3008 or later
 * manages [WIRE 23.3].
 */
function resourcesRequest(options: ResourceRequestOptions): RequestType {
  const { resources, bus, counters, config } = options;
  return defineRequestType({
    kind: 'once',
    needsToken: true,
    rate: 'requests',
    maxElements: requestLimits.resourceElements.perOwner ?? Infinity,
    load: anyLoad,
    handle: async ({ minionId }, load) => {
      const isKept = await resources.keep(minionId, {
        resources: load.resources,
        grains: load.resource_grains,
      });
      if (!isKept) {
        counters.count('resources-refused');
        return send(false);
      }
      if (config.current.minionDataCacheEvents) {
        bus.fire(tags.resourcesRefreshed(minionId), { 'Resource cache refresh': minionId });
      }
      return send(true);
    },
  });
}

/**
 * Defines the request `revoke_auth`: a minion deletes its own key. The option
 * `allow_minion_key_revoke` or a rule must permit the request. Otherwise the master returns the
 * load unchanged, as Salt does [WIRE 9.2].
 */
function revokeRequest(keys: KeyStore, gate: PolicyGate): RequestType {
  return defineRequestType({
    kind: 'write',
    needsToken: true,
    rate: 'requests',
    load: anyLoad,
    handle: async ({ minionId }, load) => {
      const subject = { kind: 'minion', id: minionId } as const;
      const resource = { operation: 'revoke' };
      const { effect } = gate.decide({ subject, action: 'key', resource });
      if (effect === 'deny') return send(load);
      await keys.exclusive(minionId, () => keys.delete(minionId));
      return send(true);
    },
  });
}

function constantRequest(value: WireValue): RequestType {
  return defineRequestType({
    kind: 'read',
    needsToken: false,
    rate: 'requests',
    load: anyLoad,
    handle: () => send(value),
  });
}

/** Opens what guests ask for from its parts, and reads its options. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import Type from 'typebox';
import { type BridgeModule, figureOf } from '#heat-bridge/bridge-module.ts';
import type { Enrolment } from '#heat-bridge/enroll/enrolment.ts';
import type { EnrolmentModule } from '#heat-bridge/enroll/open-enrolment.ts';
import { parseKeystoneOptions } from '#heat-bridge/keystone.ts';
import { BridgeOptionsError, parseSection, type SectionProblem } from '#heat-bridge/options.ts';
import { createPresence } from '#heat-bridge/presence.ts';
import type { SignalsModule } from '#heat-bridge/signals/open-signals.ts';
import {
  AuditBursts,
  audited,
  type ExtensionHost,
  type FileServerBackend,
  type MetricFamily,
  type MinionRunners,
} from '#master';
import { isRelayedAddress } from '#minion-protocol';
import {
  type AllowedEndpoint,
  createDnsResolver,
  createHttpClient,
  parseAllowedEndpoints,
  readEndpoint,
} from '#runtime';
import type { Coordinator } from './data-spaces/coordinator.ts';
import {
  type CoordinatorOptions,
  CoordinatorSection,
  checkCoordinatorOptions,
  openCoordinator,
} from './data-spaces/coordinator-options.ts';
import { createDataApi, type DataApi, dataMethods } from './data-spaces/data-api.ts';
import { addDataRoutes } from './data-spaces/data-routes.ts';
import { DataSpaces } from './data-spaces/data-spaces.ts';
import { DataValues } from './data-spaces/data-values.ts';
import { readGuestFiles, serveGuestFiles } from './guest-files.ts';
import { guestPillar } from './guest-pillar.ts';
import {
  addGuestRoutes,
  createGuestIdentifier,
  GuestRequests,
  identifyByAgent,
} from './guest-requests.ts';
import { addGuestSignalRoute } from './guest-signals.ts';
import { type Guest, GuestTokens } from './guest-tokens.ts';
import { addAgentClaimRoutes } from './metadata-agent/agent-claims.ts';
import {
  AgentCredentials,
  type AgentInstance,
  checkAgentSecret,
  type IdentifiedInstance,
  unknownInstance,
} from './metadata-agent/agent-credentials.ts';
import { CloudReader, type CloudReaderOptions } from './metadata-agent/cloud-reader.ts';
import { addIdentityRoute, IdentityEnrolment } from './metadata-agent/identity.ts';
import { type IdentityRule, parseIdentityRules } from './metadata-agent/identity-rules.ts';
import { InstanceEnrolments } from './metadata-agent/instance-enrolments.ts';
import {
  addVendordataRoute,
  Vendordata,
  type VendordataOptions,
} from './metadata-agent/vendordata.ts';
import { addNotificationRoute } from './peers/peer-notifications.ts';
import { type AddressOf, PeerDirectory, PeerPoller } from './peers/peers.ts';

// Options `saltbridge: bridge: guests:`.

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Endpoint = Type.Object(
  { url: Text, addresses: Type.Optional(Type.Array(Text)), ca_file: Type.Optional(Text) },
  strict,
);
const Section = Type.Object(
  {
    /** Secrets of metadata agents by their names: each in a file of its own. */
    agents: Type.Optional(
      Type.Record(
        Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }),
        Type.Object({ secret_file: Text }, strict),
        strict,
      ),
    ),
    /** Rules by which instances enrol without a ticket, each by its name. */
    identity: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z0-9 ._-]{1,64}$' }), Type.Unknown(), strict),
    ),
    vendordata: Type.Optional(
      Type.Object(
        {
          id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
          ticket_lifetime: Type.Optional(Type.Integer({ minimum: 60, maximum: 86_400 })),
          agent: Type.Optional(Type.Boolean()),
          masters: Type.Optional(Type.Array(Text, { minItems: 1, maxItems: 16 })),
        },
        strict,
      ),
    ),
    peers: Type.Optional(
      Type.Object(
        {
          /** As the section `bridge: keystone:`, which is the default. */
          keystone: Type.Optional(Type.Unknown()),
          compute: Endpoint,
          network: Endpoint,
          poll_interval: Type.Optional(Type.Number({ minimum: 1, maximum: 86_400 })),
          full_interval: Type.Optional(Type.Number({ minimum: 1, maximum: 604_800 })),
          page_size: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
          timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 300 })),
          /** Where a pipeline of OpenStack says what has changed. */
          notifications: Type.Optional(Type.Object({ secret_file: Text }, strict)),
        },
        strict,
      ),
    ),
    data: Type.Optional(
      Type.Object(
        {
          bytes_per_stack: Type.Optional(Type.Integer({ minimum: 1024, maximum: 2 ** 40 })),
          keys_per_stack: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
          coordinator: Type.Optional(CoordinatorSection),
        },
        strict,
      ),
    ),
  },
  strict,
);

/** See the section; each has a default. */
interface GuestsOptions {
  /** Of the values of one data space. Default 64 MiB. */
  readonly bytesPerStack: number;
  /** Values that one data space may have. Default 10,000. */
  readonly keysPerStack: number;
  /** What keeps the values. Default: the store. */
  readonly coordinator: CoordinatorOptions;
  /** Where peers are read from. Default: their enrolments alone. */
  readonly cloud: CloudOptions | undefined;
  /** Default: Nova is not answered. */
  readonly vendordata: VendordataOptions | undefined;
  /** Default: none, and instances without a ticket are not enrolled. */
  readonly identity: readonly IdentityRule[];
  /** Files with the secrets of metadata agents, by name. */
  readonly agents: ReadonlyMap<string, string>;
}

/** The cloud that peers are read from. */
interface CloudOptions extends Omit<CloudReaderOptions, 'ask'> {
  readonly endpoints: ReadonlyMap<string, AllowedEndpoint>;
  readonly timeoutMs: number;
  readonly intervalMs: number;
  readonly fullIntervalMs: number;
  /** File with the secret of notifications. Default: none are taken. */
  readonly notificationSecret: string | undefined;
}

/** Other sections that this one goes by. */
interface OtherSections {
  readonly keystone: unknown;
  /** `enroll: masters`; none: no machine is enrolled by a ticket. */
  readonly masters: readonly string[];
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseGuestsOptions(
  given: unknown,
  { keystone, masters }: OtherSections,
): GuestsOptions {
  const {
    data = {},
    peers,
    vendordata,
    identity = {},
    agents = {},
  } = parseSection('bridge:guests', Section, given ?? {});
  const problems: SectionProblem[] = [];
  const attempt = <T>(parse: () => T): T | undefined => {
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof BridgeOptionsError)) throw error;
      problems.push(...error.problems);
      return undefined;
    }
  };
  attempt(() => checkCoordinatorOptions(data.coordinator ?? {}));
  const surroundings = {
    agents: Object.keys(agents),
    hasCloud: peers !== undefined,
    hasEnroll: masters.length > 0,
  };
  const options = {
    vendordata: vendordata && attempt(() => vendordataOptionsOf(vendordata)),
    identity: attempt(() => parseIdentityRules(identity, surroundings)) ?? [],
    cloud: peers && attempt(() => cloudOptionsOf(peers, keystone)),
  };
  if (problems.length > 0) throw new BridgeOptionsError(problems);
  return {
    ...options,
    agents: new Map(Object.entries(agents).map(([name, it]) => [name, it.secret_file])),
    bytesPerStack: data.bytes_per_stack ?? 67_108_864,
    keysPerStack: data.keys_per_stack ?? 10_000,
    coordinator: data.coordinator ?? {},
  };
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
async function openNotificationSecret(
  file: string | undefined,
  { config }: Pick<ExtensionHost, 'config'>,
): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    const whole = path.resolve(path.dirname(config.confFile), file);
    const secret = (await readFile(whole, 'utf8')).trim();
    checkAgentSecret(secret);
    return secret;
  } catch (cause) {
    const key = 'saltbridge:bridge:guests:peers:notifications';
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key, problem }], { cause });
  }
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
async function openAgents(
  files: ReadonlyMap<string, string>,
  { config, now }: Pick<ExtensionHost, 'config' | 'now'>,
): Promise<AgentCredentials> {
  const secrets = new Map<string, string>();
  try {
    for (const [name, file] of files) {
      const whole = path.resolve(path.dirname(config.confFile), file);
      secrets.set(name, (await readFile(whole, 'utf8')).trim());
    }
    return new AgentCredentials(secrets, now);
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key: 'saltbridge:bridge:guests:agents', problem }], { cause });
  }
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
function vendordataOptionsOf({
  id = '{uuid}',
  ticket_lifetime: ticketLifetime,
  agent = false,
  masters,
}: NonNullable<Static<typeof Section>['vendordata']>): VendordataOptions {
  // protection: vendordata-ids
  if (id.includes('{uuid}') || (id.includes('{name}') && id.includes('{project}'))) {
    return { id, ticketLifetime, agent, masters };
  }
  const problem = 'expected {uuid}, or {name} and {project}: two instances may not share an id';
  throw new BridgeOptionsError([{ key: 'saltbridge:bridge:guests:vendordata:id', problem }]);
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
function cloudOptionsOf(
  {
    keystone: own,
    compute,
    network,
    notifications,
    ...pace
  }: NonNullable<Static<typeof Section>['peers']>,
  common: unknown,
): CloudOptions {
  const keystone = own ?? common;
  if (keystone === undefined) {
    const key = 'saltbridge:bridge:guests:peers';
    throw new BridgeOptionsError([{ key, problem: 'expected keystone, here or beside guests' }]);
  }
  const section = own === undefined ? undefined : 'bridge:guests:peers:keystone';
  const account = parseKeystoneOptions(keystone, section);
  try {
    const services = parseAllowedEndpoints([compute, network].map(readEndpoint));
    return {
      keystone: account,
      compute: compute.url.replace(/\/+$/, ''),
      network: network.url.replace(/\/+$/, ''),
      pageSize: pace.page_size ?? 500,
      endpoints: new Map([...account.endpoints, ...services]),
      timeoutMs: (pace.timeout ?? 30) * 1000,
      intervalMs: (pace.poll_interval ?? 60) * 1000,
      fullIntervalMs: (pace.full_interval ?? 600) * 1000,
      notificationSecret: notifications?.secret_file,
    };
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key: 'saltbridge:bridge:guests:peers', problem }], { cause });
  }
}

// The module.

export interface GuestsDeps {
  readonly section: unknown;
  readonly others: OtherSections;
  readonly enroll: Pick<EnrolmentModule, 'api' | 'enrolments' | 'machines' | 'reissue'>;
  readonly signals: Pick<SignalsModule, 'intake'>;
}

/** The part of the bridge that answers guests. */
export interface GuestsModule
  extends Required<
    Pick<BridgeModule<DataApi>, 'api' | 'close' | 'metrics' | 'pillar' | 'routes' | 'rpc' | 'start'>
  > {
  readonly files: FileServerBackend;
  readonly minionRunners: MinionRunners;
  /** The token of an enrolled machine. */
  tokenOf(enrolment: Enrolment): string | undefined;
  /** Takes a minion that is no more out of its data space; durable when it resolves. */
  dismiss(minion: string): Promise<void>;
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export async function openGuests(
  host: ExtensionHost,
  { section, others, enroll, signals }: GuestsDeps,
): Promise<GuestsModule> {
  const {
    bytesPerStack,
    keysPerStack,
    coordinator: coordinatorOptions,
    cloud,
    vendordata,
    identity,
    agents: agentFiles,
  } = parseGuestsOptions(section, others);
  const { shared: state, now, closing } = host;
  const present = createPresence(host);
  const agents = await openAgents(agentFiles, host);
  const secret = await openNotificationSecret(cloud?.notificationSecret, host);
  const files = await readGuestFiles();
  const coordinator = await openCoordinator(coordinatorOptions, host);
  const forget = (space: string): Promise<void> => values.forget(space);
  const spaces = await DataSpaces.open({ state, now, forget, closing });
  const values: DataValues = new DataValues({
    spaces,
    coordinator,
    seal: (plain) => state.seal(plain),
    unseal: (sealed) => state.unseal(sealed),
    bytesPerStack,
    isShared: state.cluster !== undefined,
    describeMinion: (id) => describeMinion(host, id),
    closing,
  });
  const tokens = await GuestTokens.open({
    state,
    findEnrolment: (number) => enroll.enrolments.get(number),
  });
  const guestOfAgent = ({ instance, project }: AgentInstance): Guest => {
    // protection: agents-instances-of-others
    const own = [...enroll.enrolments.liveOfInstance(instance)].find(
      (it) => it.project === project,
    );
    if (own?.state === 'accepted' || own?.state === 'signed-in') {
      return { minion: own.id, project, instance };
    }
    throw unknownInstance();
  };
  const peers = new PeerDirectory(enroll.enrolments);
  const addresses = async (): Promise<AddressOf> => {
    const all = await present();
    return (id) => {
      const minion = all.get(id);
      // Behind a relay it is no address of the network that others see.
      const isPlain = minion?.isSure === true && !isRelayedAddress(minion.address);
      return isPlain ? minion.address : undefined;
    };
  };
  const requests = new GuestRequests({ host, values, peers, addresses });
  const enrolments = new InstanceEnrolments({ state, enroll });
  const bursts = new AuditBursts({ audit: host.audit, now });
  const poller = cloud && createPoller(host, cloud, peers);
  let polling: Promise<void> = Promise.resolve();
  const api = createDataApi({ spaces, values, keysPerStack });
  const as: Parameters<typeof addDataRoutes>[2]['as'] = (requester) =>
    audited(dataMethods(api), { data: api }, host.audit, requester).data;
  const local = audited(dataMethods(api), { data: api }, host.audit).data;
  return {
    api: local,
    rpc: dataMethods(local),
    pillar: guestPillar({ spaces, values, requests }),
    files: serveGuestFiles(files),
    minionRunners: requests.runners,
    tokenOf: (enrolment) => tokens.of(enrolment),
    routes: (app, doors) => {
      addDataRoutes(app, doors, { host, keysPerStack, as });
      const identify = (request: FastifyRequest): IdentifiedInstance =>
        identifyByAgent(request, agents);
      const guestOf = createGuestIdentifier(doors, { tokens, agents, guestOfAgent });
      if (secret !== undefined) {
        addNotificationRoute(app, secret, (instances) => poller?.noteChanged(instances));
      }
      if (vendordata !== undefined) {
        const log = host.logger.child({ component: 'vendordata' });
        addVendordataRoute(app, doors, host, new Vendordata(vendordata, enrolments, log));
      }
      if (identity.length > 0 && cloud !== undefined) {
        const log = host.logger.child({ component: 'identity' });
        const reader = createCloudReader(cloud, closing);
        const deps = { rules: identity, enrolments, cloud: reader, bursts, log };
        addIdentityRoute(app, identify, new IdentityEnrolment(deps));
      }
      addGuestRoutes(app, { requests, guestOf, program: files['saltbridge/saltbridge-data'] });
      addGuestSignalRoute(app, { host, guestOf, intake: signals.intake });
      addAgentClaimRoutes(app, identify, enroll.machines);
    },
    metrics: () => connectionFigures(coordinator),
    dismiss: (minion) => spaces.dismiss(minion),
    start: () => {
      state.cluster?.onHeld(() => {
        spaces.takeOver().catch((err: unknown) => {
          host.logger.error({ err }, 'values of data spaces that have ended are kept');
        });
      });
      if (poller !== undefined) polling = poller.run(closing);
    },
    // Reads that wait end with the master's closing.
    close: async () => {
      bursts.flush();
      await polling;
      await coordinator.close();
    },
  };
}

function createCloudReader(
  { endpoints, timeoutMs, ...account }: CloudOptions,
  closing: AbortSignal,
): CloudReader {
  const ask = createHttpClient({ endpoints, timeoutMs, resolve: createDnsResolver() });
  return new CloudReader({ ...account, ask: (request) => ask(request, closing) });
}

function createPoller(
  { closing, logger, now }: Pick<ExtensionHost, 'closing' | 'logger' | 'now'>,
  cloud: CloudOptions,
  directory: PeerDirectory,
): PeerPoller {
  const { intervalMs, fullIntervalMs } = cloud;
  const reader = createCloudReader(cloud, closing);
  const log = logger.child({ component: 'peers' });
  return new PeerPoller({ reader, directory, intervalMs, fullIntervalMs, now, log });
}

/** The store is always there. */
function connectionFigures(coordinator: Coordinator): readonly MetricFamily[] {
  const isConnected = coordinator.isConnected?.() ?? true;
  const help = 'Whether the server that keeps the values of data spaces is connected.';
  return [figureOf('gauge', 'data_coordinator_connected', help, isConnected ? 1 : 0)];
}

/** For whoever waits for a value of it. */
async function describeMinion(
  { admission, isConnected }: Pick<ExtensionHost, 'admission' | 'isConnected'>,
  id: string,
): Promise<string> {
  if (admission.keyOf(id)?.state !== 'accepted') return 'it has no accepted key';
  return (await isConnected(id)) ? 'it is connected' : 'it is not connected';
}

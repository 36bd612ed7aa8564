/** Opens what guests ask for from its parts, and reads its options. */

import type { Static } from 'typebox';
import Type from '#typebox';
import {
  audited,
  type ExtensionHost,
  type FileServerBackend,
  type MinionRunners,
  type PresentMinion,
} from '../../master/index.ts';
import type { BridgeModule } from '../bridge-module.ts';
import type { Enrolment } from '../enroll/enrolment.ts';
import type { EnrollApi } from '../enroll/enrolment-service.ts';
import { BridgeError } from '../errors.ts';
import {
  type AllowedEndpoint,
  createDnsResolver,
  createHttpClient,
  parseAllowedEndpoints,
  readEndpoint,
} from '../http-client.ts';
import { parseKeystoneOptions } from '../keystone.ts';
import { parseSection } from '../options.ts';
import { CloudReader, type CloudReaderOptions } from './cloud-reader.ts';
import { createStoreCoordinator } from './coordinator.ts';
import { createDataApi, type DataApi, dataMethods } from './data-api.ts';
import { addDataRoutes } from './data-routes.ts';
import { DataSpaces } from './data-spaces.ts';
import { DataValues } from './data-values.ts';
import { readGuestFiles, serveGuestFiles } from './guest-files.ts';
import { guestPillar } from './guest-pillar.ts';
import { addGuestRoutes, GuestRequests } from './guest-requests.ts';
import { GuestTokens } from './guest-tokens.ts';
import { PeerDirectory, PeerPoller } from './peers.ts';

// Options `saltbridge: bridge: guests:`.

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Endpoint = Type.Object(
  { url: Text, addresses: Type.Optional(Type.Array(Text)), ca_file: Type.Optional(Text) },
  strict,
);
const Section = Type.Object(
  {
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
        },
        strict,
      ),
    ),
    data: Type.Optional(
      Type.Object(
        {
          bytes_per_stack: Type.Optional(Type.Integer({ minimum: 1024, maximum: 2 ** 40 })),
          keys_per_stack: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
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
  /** Where peers are read from. Default: their enrolments alone. */
  readonly cloud: CloudOptions | undefined;
}

/** The cloud that peers are read from. */
interface CloudOptions extends Omit<CloudReaderOptions, 'ask'> {
  readonly endpoints: ReadonlyMap<string, AllowedEndpoint>;
  readonly timeoutMs: number;
  readonly intervalMs: number;
  readonly fullIntervalMs: number;
}

/** @param keystone - the section of that name @throws BridgeError ERR_BRIDGE_OPTIONS */
function parseGuestsOptions(given: unknown, keystone: unknown): GuestsOptions {
  const { data = {}, peers } = parseSection('bridge:guests', Section, given ?? {});
  return {
    cloud: peers && cloudOptionsOf({ ...peers, keystone: peers.keystone ?? keystone }),
    bytesPerStack: data.bytes_per_stack ?? 67_108_864,
    keysPerStack: data.keys_per_stack ?? 10_000,
  };
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
function cloudOptionsOf({
  keystone,
  compute,
  network,
  ...pace
}: NonNullable<Static<typeof Section>['peers']>): CloudOptions {
  if (keystone === undefined) {
    const text = 'saltbridge:bridge:guests:peers: expected keystone, here or beside guests';
    throw new BridgeError('ERR_BRIDGE_OPTIONS', text);
  }
  const account = parseKeystoneOptions(keystone);
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
    };
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    const text = `saltbridge:bridge:guests:peers: ${problem}`;
    throw new BridgeError('ERR_BRIDGE_OPTIONS', text, { cause });
  }
}

// The module.

export interface GuestsDeps {
  readonly section: unknown;
  /** The section `keystone`. */
  readonly keystone: unknown;
  readonly enroll: Pick<EnrollApi, 'show'>;
  /** Enrolments that have an id now. */
  readonly liveEnrolments: () => Iterable<Enrolment>;
}

/** The part of the bridge that answers guests. */
export interface GuestsModule
  extends Required<
    Pick<BridgeModule<DataApi>, 'api' | 'close' | 'pillar' | 'routes' | 'rpc' | 'start'>
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
  { section, keystone, enroll, liveEnrolments }: GuestsDeps,
): Promise<GuestsModule> {
  const { bytesPerStack, keysPerStack, cloud } = parseGuestsOptions(section, keystone);
  const { state, now, closing } = host;
  const present = createPresence(host);
  const coordinator = createStoreCoordinator(state);
  const spaces = await DataSpaces.open({ state, now, forget: (space) => values.forget(space) });
  const values: DataValues = new DataValues({
    spaces,
    coordinator,
    seal: (plain) => state.seal(plain),
    unseal: (sealed) => state.unseal(sealed),
    bytesPerStack,
    describeMinion: (id) => describeMinion(host, present, id),
    closing,
  });
  const tokens = await GuestTokens.open({
    state,
    findEnrolment: (number) => enroll.show(number).catch(unlessUnknown),
  });
  const files = await readGuestFiles();
  const peers = new PeerDirectory(liveEnrolments);
  const addresses = async (): Promise<ReadonlyMap<string, string>> => {
    const all = [...(await present()).values()];
    return new Map(all.filter((it) => it.isSure).map(({ id, address }) => [id, address]));
  };
  const requests = new GuestRequests({ host, values, peers, addresses });
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
      addGuestRoutes(app, doors, {
        requests,
        tokens,
        program: files['saltbridge/saltbridge-data'],
      });
    },
    dismiss: (minion) => spaces.dismiss(minion),
    start: () => {
      if (cloud !== undefined) polling = createPoller(host, cloud, peers).run(closing);
    },
    // Reads that wait end with the master's closing.
    close: () => polling,
  };
}

function createPoller(
  { closing, logger, now }: Pick<ExtensionHost, 'closing' | 'logger' | 'now'>,
  { endpoints, timeoutMs, intervalMs, fullIntervalMs, ...account }: CloudOptions,
  directory: PeerDirectory,
): PeerPoller {
  const ask = createHttpClient({ endpoints, timeoutMs, resolve: createDnsResolver() });
  const reader = new CloudReader({ ...account, ask: (request) => ask(request, closing) });
  const log = logger.child({ component: 'peers' });
  return new PeerPoller({ reader, directory, intervalMs, fullIntervalMs, now, log });
}

type Presence = () => Promise<ReadonlyMap<string, PresentMinion>>;

/** Milliseconds that a look at all minions is good for: many guests may ask at once. */
const presenceMs = 1_000;

/** Minions that are connected, by id. */
function createPresence({ master }: Pick<ExtensionHost, 'master'>): Presence {
  let known: ReturnType<Presence> | undefined;
  let at = -Infinity;
  return () => {
    if (known !== undefined && performance.now() - at < presenceMs) return known;
    at = performance.now();
    known = master()
      .presence()
      .then((list) => new Map(list.map((it) => [it.id, it])));
    return known;
  };
}

/** For whoever waits for a value of it. */
async function describeMinion(
  { admission }: Pick<ExtensionHost, 'admission'>,
  present: Presence,
  id: string,
): Promise<string> {
  if (admission.keyOf(id)?.state !== 'accepted') return 'it has no accepted key';
  return (await present()).has(id) ? 'it is connected' : 'it is not connected';
}

function unlessUnknown(error: unknown): undefined {
  if (error instanceof BridgeError && error.code === 'ERR_ENROLL_UNKNOWN') return undefined;
  throw error;
}

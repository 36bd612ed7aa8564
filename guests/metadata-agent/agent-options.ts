/** Reads the options of a metadata agent from its file, and creates the lookup of instances. */

import { setMaxListeners } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import path from 'node:path';
import type { Static } from 'typebox';
import Type from 'typebox';
import { parse } from 'yaml';
import { BridgeError, parseKeystoneOptions } from '#heat-bridge';
import {
  compileSchema,
  createDnsResolver,
  createHttpClient,
  FairSlots,
  parseAllowedEndpoints,
  RecentAnswers,
  readEndpoint,
  trimEnd,
  tryParseJson,
} from '#runtime';
import { CloudReader } from '../cloud/cloud-reader.ts';
import { guestLimits } from '../limits.ts';
import type { AgentInstance } from './agent-credentials.ts';
import {
  type FindInstance,
  type FindNetworks,
  type MetadataAgentOptions,
  macOfLinkLocal,
} from './metadata-agent.ts';
import { type AgentNetwork, plainAddress } from './network-listeners.ts';
import type { RelayOptions } from './relay.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const upstream = {
  url: Type.String({ pattern: '^https?://[^/]+', maxLength: 4096 }),
  secret_file: Text,
  ca_file: Type.Optional(Text),
};
const Socket = Type.String({ pattern: '^/', maxLength: 107 });
const Port = Type.Integer({ minimum: 1, maximum: 65_535 });
const Count = Type.Optional(Type.Integer({ minimum: 1, maximum: 65_536 }));
/** Section `relay`: the address of the master, and the sockets to which proxies connect. */
const RelaySection = Type.Object(
  {
    master: Text,
    publish_port: Port,
    publish_socket: Type.Optional(Socket),
    ret_port: Port,
    ret_socket: Type.Optional(Socket),
    /**
     * Port for minions in `networks`. These minions set it as their `publish_port`. Default: 4505.
     */
    guest_publish_port: Type.Optional(Port),
    guest_ret_port: Type.Optional(Port),
    connections_per_network: Count,
    connections_per_instance: Count,
  },
  strict,
);
/** Form of ids of networks, instances and projects. */
const idForm = /^[A-Za-z0-9-]{1,64}$/;
const NetworkId = Type.String({ pattern: idForm.source });
/** Network in which the agent listens itself, without a proxy. */
const NetworkSection = Type.Object(
  {
    network: Type.Union([NetworkId, Type.Array(NetworkId, { minItems: 1, maxItems: 160 })]),
    namespace: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}$' })),
    addresses: Type.Optional(Type.Array(Text, { minItems: 1, maxItems: 16 })),
    port: Type.Optional(Port),
  },
  strict,
);
const AgentFile = Type.Object(
  {
    socket: Type.Optional(Socket),
    networks: Type.Optional(Type.Array(NetworkSection, { minItems: 1, maxItems: 4096 })),
    nova: Type.Object(upstream, strict),
    master: Type.Object(
      { ...upstream, name: Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }) },
      strict,
    ),
    relay: Type.Optional(RelaySection),
    /**
     * Path of a JSON file that lists the instances and their addresses. Each entry is a map with
     * the keys `network`, `address`, `instance` and `project`. Not permitted together with
     * `neutron`.
     */
    instances: Type.Optional(Text),
    /** Networks of each router, by router id. Used with the file `instances`. */
    routers: Type.Optional(
      Type.Record(
        Type.String({ pattern: idForm.source }),
        Type.Array(NetworkId, { minItems: 1, maxItems: 160 }),
        strict,
      ),
    ),
    /** Options of Neutron. If `instances` is absent, the agent looks up instances in Neutron. */
    neutron: Type.Optional(
      Type.Object(
        {
          url: Text,
          addresses: Type.Optional(Type.Array(Text)),
          ca_file: Type.Optional(Text),
          keystone: Type.Unknown(),
        },
        strict,
      ),
    ),
  },
  strict,
);
const fileCheck = compileSchema(AgentFile);
type AgentFileOptions = Static<typeof AgentFile>;

const InstanceList = Type.Array(
  Type.Object({ network: Text, address: Text, instance: Text, project: Text }, strict),
);
const listCheck = compileSchema(InstanceList);

/** Address to which guests send metadata requests. */
const metadataAddress = '169.254.169.254';

/** Options from the file of an agent. */
export interface LoadedAgentOptions extends Omit<MetadataAgentOptions, 'log' | 'now'> {
  /** Relay for Salt's ports. Absent if the file has no section `relay`. */
  readonly relay?: RelayOptions;
}

/**
 * Loads the options of a metadata agent from its file, and the files that this file names.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export async function loadAgentOptions(
  file: string,
  closing: AbortSignal,
): Promise<LoadedAgentOptions> {
  const whole = (name: string): string => path.resolve(path.dirname(file), name);
  const text = (name: string): Promise<string> => readFile(whole(name), 'utf8');
  try {
    const given: unknown = parse(await readFile(file, 'utf8'));
    const [first] = fileCheck.Errors(given);
    if (first !== undefined) throw optionError(first.instancePath, first.message);
    const { socket, networks: listed = [], nova, master, relay, ...more } = fileCheck.Parse(given);
    if (socket === undefined && listed.length === 0) {
      throw optionError('/socket', 'required, unless networks is set');
    }
    const networks = listed.map(toAgentNetwork);
    const secretOf = async (name: string): Promise<string> => (await text(name)).trim();
    const ca = async (name: string | undefined): Promise<{ readonly ca?: Buffer }> =>
      name === undefined ? {} : { ca: await readFile(whole(name)) };
    return {
      socket,
      networks,
      nova: {
        url: trimEnd(nova.url, '/'),
        secret: await secretOf(nova.secret_file),
        ...(await ca(nova.ca_file)),
      },
      master: {
        url: trimEnd(master.url, '/'),
        name: master.name,
        secret: await secretOf(master.secret_file),
        ...(await ca(master.ca_file)),
      },
      ...finderOf(more, whole, closing),
      ...(relay === undefined ? {} : { relay: toRelayOptions(relay, networks) }),
    };
  } catch (cause) {
    if (cause instanceof BridgeError) throw cause;
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeError('ERR_BRIDGE_OPTIONS', `${file}: ${problem}`, { cause });
  }
}

/**
 * Converts an entry of `networks` in the agent's file to the options of its listener. The default
 * address is 169.254.169.254, and the default port is 80.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
function toAgentNetwork(
  { network, namespace, addresses = [metadataAddress], port = 80 }: Static<typeof NetworkSection>,
  index: number,
): AgentNetwork {
  const wrong = addresses.find((it) => isIP(plainAddress(it)) === 0);
  if (wrong !== undefined) {
    throw optionError(`/networks/${index}/addresses`, `${wrong} is not an IP address`);
  }
  const scopeless = addresses.find((it) => /^fe80:/i.test(it) && !it.includes('%'));
  if (scopeless !== undefined) {
    const problem = `${scopeless} is a link-local address; append its network device: ${scopeless}%DEVICE`;
    throw optionError(`/networks/${index}/addresses`, problem);
  }
  return { networks: [network].flat(), namespace, addresses, port };
}

/**
 * Converts the section `relay` of the agent's file to the options of the relay.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
function toRelayOptions(
  relay: Static<typeof RelaySection>,
  networks: readonly AgentNetwork[],
): RelayOptions {
  const { publish_socket: publishSocket, ret_socket: retSocket } = relay;
  if ((publishSocket === undefined || retSocket === undefined) && networks.length === 0) {
    throw optionError('/relay', 'must set publish_socket and ret_socket, unless networks is set');
  }
  return {
    host: relay.master,
    networks,
    ports: [
      {
        socket: publishSocket,
        guestPort: relay.guest_publish_port ?? 4505,
        port: relay.publish_port,
      },
      { socket: retSocket, guestPort: relay.guest_ret_port ?? 4506, port: relay.ret_port },
    ],
    connectionsPerNetwork: relay.connections_per_network,
    connectionsPerInstance: relay.connections_per_instance,
  };
}

function optionError(place: string, problem: string): BridgeError {
  const key = place.slice(1).replaceAll('/', '.') || 'the file';
  return new BridgeError('ERR_BRIDGE_OPTIONS', `${key}: ${problem}`);
}

/**
 * Functions that find the instance that has an address (`find`), and the networks of a router
 * (`networksOf`).
 */
interface Finder {
  readonly find: FindInstance;
  readonly networksOf: FindNetworks;
}

function finderOf(
  { instances, neutron, routers }: Pick<AgentFileOptions, 'instances' | 'neutron' | 'routers'>,
  whole: (name: string) => string,
  closing: AbortSignal,
): Finder {
  if (instances !== undefined && neutron === undefined) {
    const byRouter = new Map(Object.entries(routers ?? {}));
    const networksOf: FindNetworks = async (router) => byRouter.get(router) ?? [];
    return { find: findInFile(whole(instances)), networksOf };
  }
  if (routers !== undefined)
    throw optionError('/routers', 'only permitted together with instances');
  if (neutron !== undefined && instances === undefined) return findInNeutron(neutron, closing);
  throw optionError('/instances', 'set exactly one of instances and neutron');
}

/** Returns the only element. Returns `undefined` if there is no element, or more than one. */
function only<T>(found: readonly T[]): T | undefined {
  return found.length === 1 ? found[0] : undefined;
}

/**
 * Returns an instance, or `undefined` if one of its ids has an invalid form. The ids may come from
 * a port, whose fields its tenant can fill with any text.
 */
function toInstance(instance: string, project: string): AgentInstance | undefined {
  return [instance, project].every((it) => idForm.test(it)) ? { instance, project } : undefined;
}

/**
 * Returns a function that looks up instances in a JSON file. It reads the file again after each
 * change.
 */
function findInFile(file: string): FindInstance {
  let readAt = -1;
  let list: Static<typeof InstanceList> = [];
  return async (networks, address) => {
    const { mtimeMs } = await stat(file);
    if (mtimeMs !== readAt) {
      const given: unknown = tryParseJson(await readFile(file, 'utf8'));
      if (!listCheck.Check(given))
        throw new TypeError(`the file ${file} is not a JSON list of instances`);
      list = given;
      readAt = mtimeMs;
    }
    const own = list.filter((it) => networks.includes(it.network) && it.address === address);
    const found = only(own);
    return found && toInstance(found.instance, found.project);
  };
}

/**
 * Time for which the result of a lookup is cached, in milliseconds, even if nothing was found. If
 * an address moves to another instance, the agent attributes its requests to the previous instance
 * until the cached result expires.
 */
const foundForMs = 5_000;

/** Creates caches, so that repeated requests of a guest cause only one request to Neutron. */
function createLookUpCaches(): {
  readonly found: RecentAnswers<AgentInstance | undefined>;
  readonly networks: RecentAnswers<readonly string[]>;
} {
  const options = {
    maxAgeMs: foundForMs,
    limit: guestLimits.foundInstances,
    monotonic: () => performance.now(),
  };
  return { found: new RecentAnswers(options), networks: new RecentAnswers(options) };
}

function findInNeutron(
  { keystone, ...service }: NonNullable<AgentFileOptions['neutron']>,
  closing: AbortSignal,
): Finder {
  const account = parseKeystoneOptions(keystone);
  const endpoints = new Map([
    ...account.endpoints,
    ...parseAllowedEndpoints([readEndpoint(service)]),
  ]);
  const { timeoutMs } = account;
  const ask = createHttpClient({ endpoints, timeoutMs, resolve: createDnsResolver() });
  // Each pending request adds a listener to this signal.
  setMaxListeners(0, closing);
  const network = trimEnd(service.url, '/');
  const reader = new CloudReader({
    keystone: account,
    compute: network,
    network,
    pageSize: 100,
    ask: (request) => ask(request, closing),
  });
  const slots = new FairSlots(guestLimits.agentLookUps);
  const { found, networks } = createLookUpCaches();
  const findPort = async (ids: readonly string[], address: string) => {
    const mac = macOfLinkLocal(address);
    const ports = await reader.portsAt(ids, mac === undefined ? { address } : { mac });
    const port = only(ports.filter((it) => ids.includes(it.network)));
    return port && toInstance(port.device, port.project);
  };
  return {
    find: (ids, address) =>
      found.of([address, ...ids].join(' '), () =>
        slots.run(ids[0] ?? '', () => findPort(ids, address)),
      ),
    networksOf: (router) =>
      networks.of(router, () => slots.run(router, () => reader.networksOfRouter(router))),
  };
}

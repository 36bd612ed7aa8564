/**
 * Reads instances and their networks from Nova and Neutron, page by page, with a service account.
 */

import Type, { type Static, type TSchema } from 'typebox';
import { type parseKeystoneOptions, requestToken } from '#heat-bridge';
import {
  compileSchema,
  errorMessage,
  type HttpResult,
  type OutgoingRequest,
  readJsonInSteps,
  type SchemaCheck,
  StepScheduler,
} from '#runtime';

/**
 * Instance in a list of Nova. If Nova cannot reach the cell of the instance, only the ids are
 * known.
 */
export interface CloudServer {
  readonly id: string;
  readonly project: string;
  /** Name of the instance. Absent if Nova cannot reach the cell of the instance. */
  readonly name?: string;
  /** Host name of the instance within its network. */
  readonly hostname?: string;
  /** Id of the instance's image. Absent if the instance boots from a volume. */
  readonly image?: string;
  readonly zone?: string;
  readonly reservation?: string;
  readonly securityGroups: readonly string[];
  readonly isDeleted: boolean;
}

/** Port of an instance. */
export interface CloudPort {
  readonly device: string;
  readonly project: string;
  readonly network: string;
  readonly mac: string;
  readonly securityGroups: readonly string[];
  readonly addresses: readonly { readonly address: string; readonly subnet: string }[];
}

/** Names of networks (`labels`), CIDRs of subnets, and names of security groups, each by id. */
export interface CloudNetworks {
  readonly labels: ReadonlyMap<string, string>;
  readonly cidrs: ReadonlyMap<string, string>;
  readonly securityGroups: ReadonlyMap<string, string>;
}

/**
 * Error of an OpenStack service that does not respond, or that sends an invalid response. Operators
 * see the message.
 */
class CloudError extends Error {}

export interface CloudReaderOptions {
  readonly keystone: Pick<ReturnType<typeof parseKeystoneOptions>, 'project' | 'url' | 'user'>;
  /** URL of Nova, without a trailing slash: `https://nova:8774/v2.1`. */
  readonly compute: string;
  readonly network: string;
  /** Number of entries per page. */
  readonly pageSize: number;
  readonly ask: (request: OutgoingRequest) => Promise<HttpResult>;
}

/**
 * Version of the Nova API to request. In this version, lists include instances of unreachable
 * cells. Instances include their reservation id.
 */
const computeVersion = 'compute 2.90';
const maxPageBytes = 33_554_432;
/** Maximum nesting of lists and maps in a page. */
const maxDepth = 100;
/** Maximum number of pages of a list. */
const maxPages = 10_000;
/** Maximum number of devices or networks in one request, which limits the length of the URL. */
const idsOfRequest = 50;
/**
 * Values of `device_owner` for ports through which a router is connected to a network
 * [neutron-lib/constants.py, ROUTER_INTERFACE_OWNERS].
 */
const routerPortOwners: ReadonlySet<string> = new Set([
  'network:ha_router_replicated_interface',
  'network:router_interface',
  'network:router_interface_distributed',
]);

const Id = Type.String({ minLength: 1, maxLength: 255 });
const Name = Type.Optional(Type.Union([Type.String(), Type.Null()]));
const Link = Type.Object({ rel: Type.String(), href: Type.String({ maxLength: 8192 }) });

const ServerSchema = Type.Object({
  id: Id,
  tenant_id: Id,
  name: Name,
  status: Type.Optional(Type.String()),
  // Empty if the instance boots from a volume.
  image: Type.Optional(
    Type.Union([Type.Object({ id: Type.String() }), Type.String(), Type.Null()]),
  ),
  'OS-EXT-AZ:availability_zone': Name,
  'OS-EXT-SRV-ATTR:hostname': Name,
  'OS-EXT-SRV-ATTR:reservation_id': Name,
  security_groups: Type.Optional(Type.Array(Type.Object({ name: Type.String() }))),
});

const PortSchema = Type.Object({
  device_id: Type.String(),
  device_owner: Type.String(),
  project_id: Type.String(),
  network_id: Id,
  mac_address: Type.String(),
  security_groups: Type.Optional(Type.Array(Type.String())),
  fixed_ips: Type.Array(Type.Object({ ip_address: Type.String(), subnet_id: Type.String() })),
});

const NamedSchema = Type.Object({ id: Id, name: Name, cidr: Type.Optional(Type.String()) });

/** Schema of a page: its entries and the links to other pages. */
interface PageForm<S extends TSchema> {
  readonly list: string;
  readonly entry: S;
  readonly check: SchemaCheck<TSchema>;
}

function pageForm<S extends TSchema>(list: string, entry: S): PageForm<S> {
  const fields = { [list]: Type.Array(entry), [`${list}_links`]: Type.Optional(Type.Array(Link)) };
  const schema: TSchema = Type.Object(fields);
  return { list, entry, check: compileSchema(schema) };
}

type ServerBody = Static<typeof ServerSchema>;
type PortBody = Static<typeof PortSchema>;
type NamedBody = Static<typeof NamedSchema>;

const oneServer = compileSchema(Type.Object({ server: ServerSchema }));
const servers = pageForm('servers', ServerSchema);
const ports = pageForm('ports', PortSchema);
const networks = pageForm('networks', NamedSchema);
const subnets = pageForm('subnets', NamedSchema);
const securityGroups = pageForm('security_groups', NamedSchema);

/** Reader of the cloud, which logs in with one account. */
export class CloudReader {
  readonly #options: CloudReaderOptions;
  readonly #steps = new StepScheduler();
  #token: string | undefined;

  constructor(options: CloudReaderOptions) {
    this.#options = options;
  }

  /**
   * Returns the instances of all projects.
   * @param since - returns only instances that have changed since this time, including deleted
   * ones; default: all existing instances
   * @throws CloudError
   */
  async servers(since?: string): Promise<readonly CloudServer[]> {
    const query = new URLSearchParams({ all_tenants: '1', limit: this.#limit });
    if (since !== undefined) query.set('changes-since', since);
    const list = await this.#pages(servers, `${this.#options.compute}/servers/detail`, query);
    return list.map(cloudServerOf);
  }

  /**
   * Returns an instance, or `undefined` if it does not exist.
   * @throws CloudError
   */
  async server(id: string): Promise<CloudServer | undefined> {
    const url = `${this.#options.compute}/servers/${encodeURIComponent(id)}`;
    const body = await this.#get(url, { mayBeMissing: true });
    if (body === undefined) return undefined;
    const [problem] = oneServer.Errors(body);
    if (problem === undefined) return cloudServerOf(oneServer.Parse(body).server);
    throw new CloudError(
      `invalid response of ${url}: the value at "${problem.instancePath}" ${problem.message}`,
    );
  }

  /**
   * Returns ports of instances.
   * @param devices - ids of instances; default: all
   * @throws CloudError
   */
  async ports(devices?: readonly string[]): Promise<readonly CloudPort[]> {
    if (devices === undefined) return this.#portsOf([]);
    const found: CloudPort[] = [];
    for (let at = 0; at < devices.length; at += idsOfRequest) {
      const ports = await this.#portsOf(devices.slice(at, at + idsOfRequest));
      for (const port of ports) found.push(port);
    }
    return found;
  }

  /**
   * Returns the networks in which a router has an interface.
   * @throws CloudError
   */
  async networksOfRouter(router: string): Promise<readonly string[]> {
    const query = new URLSearchParams({ limit: this.#limit, device_id: router });
    // Tenants can set the id of a router on their own ports, but they cannot set these device
    // owners.
    const ports = (await this.#portBodies(query)).filter(
      (it) => it.device_id === router && routerPortOwners.has(it.device_owner),
    );
    return [...new Set(ports.map((it) => it.network_id))];
  }

  /**
   * Reads the names of all networks and security groups, and the CIDRs of all subnets.
   * @throws CloudError
   */
  async networks(): Promise<CloudNetworks> {
    const base = `${this.#options.network}/v2.0`;
    const read = (
      form: PageForm<typeof NamedSchema>,
      fields: readonly string[],
    ): Promise<NamedBody[]> => {
      const query = new URLSearchParams({ limit: this.#limit });
      for (const field of fields) query.append('fields', field);
      return this.#pages(form, `${base}/${form.list.replace('_', '-')}`, query);
    };
    const named = ({ id, name }: NamedBody): readonly [string, string] => [id, name ?? ''];
    return {
      labels: new Map((await read(networks, ['id', 'name'])).map(named)),
      cidrs: new Map((await read(subnets, ['id', 'cidr'])).map(({ id, cidr = '' }) => [id, cidr])),
      securityGroups: new Map((await read(securityGroups, ['id', 'name'])).map(named)),
    };
  }

  /**
   * Returns the ports of instances in these networks that have a certain IP or MAC address.
   * @param networks - ids of the networks
   * @param by - fixed IP address of the port, or its MAC address. Use the MAC address for a
   * link-local IP address
   * @throws CloudError
   */
  async portsAt(
    networks: readonly string[],
    by: { readonly address: string } | { readonly mac: string },
  ): Promise<readonly CloudPort[]> {
    const found: CloudPort[] = [];
    for (let at = 0; at < networks.length; at += idsOfRequest) {
      const query = new URLSearchParams({ limit: this.#limit });
      for (const id of networks.slice(at, at + idsOfRequest)) query.append('network_id', id);
      if ('mac' in by) query.set('mac_address', by.mac);
      else query.set('fixed_ips', `ip_address=${by.address}`);
      found.push(...(await this.#portsBy(query)));
    }
    return found;
  }

  #portsOf(devices: readonly string[]): Promise<readonly CloudPort[]> {
    const query = new URLSearchParams({ limit: this.#limit });
    for (const id of devices) query.append('device_id', id);
    return this.#portsBy(query);
  }

  #portBodies(query: URLSearchParams): Promise<readonly PortBody[]> {
    for (const field of ['id', ...Object.keys(PortSchema.properties)])
      query.append('fields', field);
    return this.#pages(ports, `${this.#options.network}/v2.0/ports`, query);
  }

  async #portsBy(query: URLSearchParams): Promise<readonly CloudPort[]> {
    const list = await this.#portBodies(query);
    return list
      .filter((it) => it.device_owner.startsWith('compute:'))
      .map((it) => ({
        device: it.device_id,
        project: it.project_id,
        network: it.network_id,
        mac: it.mac_address,
        securityGroups: it.security_groups ?? [],
        addresses: it.fixed_ips.map(({ ip_address: address, subnet_id: subnet }) => ({
          address,
          subnet,
        })),
      }));
  }

  get #limit(): string {
    return String(this.#options.pageSize);
  }

  /**
   * Returns all entries of a list, page by page. The link to the next page may name a host that
   * only the cloud itself can reach. Therefore only the query is taken from the link, and each
   * request goes to `url`.
   */
  async #pages<S extends TSchema>(
    form: PageForm<S>,
    url: string,
    first: URLSearchParams,
  ): Promise<Static<S>[]> {
    const entries: Static<S>[] = [];
    let query = first.toString();
    for (let page = 0; page < maxPages; page += 1) {
      const body = await this.#get(`${url}?${query}`);
      const [problem] = form.check.Errors(body);
      if (problem !== undefined) {
        throw new CloudError(
          `invalid response of ${url}: the value at "${form.list}${problem.instancePath}" ${problem.message}`,
        );
      }
      const read = Object(body) as Readonly<Record<string, unknown>>;
      // Push entries one by one. A service without pages can return more entries than a function
      // call accepts as arguments.
      for (const entry of (read[form.list] ?? []) as readonly Static<S>[]) entries.push(entry);
      const links = (read[`${form.list}_links`] ?? []) as readonly Static<typeof Link>[];
      const next = links.find(({ rel }) => rel === 'next')?.href;
      if (next === undefined) return entries;
      const [, more = ''] = next.split('?');
      if (more === '' || more === query)
        throw new CloudError(
          `invalid response of ${url}: the link to the next page leads to the same page`,
        );
      query = more;
    }
    throw new CloudError(`the list at ${url} has more than ${maxPages} pages`);
  }

  /**
   * Sends a GET request.
   * @returns `undefined` for a missing resource, if `mayBeMissing` is set
   */
  async #get(url: string, { mayBeMissing = false } = {}): Promise<unknown> {
    for (let attempt = 0; ; attempt += 1) {
      this.#token ??= await this.#logIn();
      const headers = { 'x-auth-token': this.#token, 'openstack-api-version': computeVersion };
      const request = { method: 'GET', url, headers, maxAnswerBytes: maxPageBytes } as const;
      const result = await this.#options.ask(request);
      if (result.kind !== 'answer') throw new CloudError(result.reason);
      if (result.status === 401 && attempt === 0) {
        this.#token = undefined;
        continue;
      }
      if (result.status === 404 && mayBeMissing) return undefined;
      const [address] = url.split('?');
      if (result.status !== 200)
        throw new CloudError(`${address} responded with the HTTP status ${result.status}`);
      if (result.isCut === true)
        throw new CloudError(`the response of ${address} exceeds ${maxPageBytes} bytes`);
      try {
        return await this.#steps.run(readJsonInSteps(result.body, { maxDepth }));
      } catch (cause) {
        throw new CloudError(`the response of ${address} is not JSON: ${errorMessage(cause)}`, {
          cause,
        });
      }
    }
  }

  async #logIn(): Promise<string> {
    const { ask, keystone } = this.#options;
    const { user, project } = keystone;
    const result = await requestToken(ask, keystone.url, { user, scope: { project } });
    if (result.isIn) return result.token;
    const { outcome } = result;
    throw new CloudError('reason' in outcome ? outcome.reason : 'the login to Keystone failed');
  }
}

function cloudServerOf(it: ServerBody): CloudServer {
  const { image } = it;
  return {
    id: it.id,
    project: it.tenant_id,
    ...optional('name', it.name),
    ...optional('hostname', it['OS-EXT-SRV-ATTR:hostname']),
    ...optional('image', typeof image === 'string' ? image : image?.id),
    ...optional('zone', it['OS-EXT-AZ:availability_zone']),
    ...optional('reservation', it['OS-EXT-SRV-ATTR:reservation_id']),
    securityGroups: [...new Set(it.security_groups?.map(({ name }) => name))],
    isDeleted: it.status === 'DELETED' || it.status === 'SOFT_DELETED',
  };
}

function optional<N extends string>(
  name: N,
  value: string | null | undefined,
): { readonly [K in N]?: string } {
  return value === undefined || value === null || value === ''
    ? {}
    : ({ [name]: value } as { readonly [K in N]?: string });
}

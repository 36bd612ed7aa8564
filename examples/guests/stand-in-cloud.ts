/**
 * Simulates Keystone, Nova and Neutron. It returns lists in pages, simulates cells that are down,
 * and serves Nova's metadata.
 */

import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

interface StandInServer {
  readonly id: string;
  readonly tenant_id: string;
  readonly name: string;
  readonly reservation: string;
  /** Image of the server. Default: the server boots from a volume. */
  readonly image?: string;
  /** Time of the last change, in milliseconds since 1970. */
  updatedAt: number;
  isDeleted?: boolean;
}

interface StandInPort {
  readonly id: string;
  readonly device_id: string;
  readonly device_owner: string;
  readonly project_id: string;
  readonly network_id: string;
  readonly mac_address: string;
  readonly security_groups: readonly string[];
  readonly fixed_ips: readonly { readonly ip_address: string; readonly subnet_id: string }[];
}

/** Content of the cloud. Tests may change it. */
export interface StandInCloud {
  readonly url: string;
  readonly servers: StandInServer[];
  readonly ports: StandInPort[];
  readonly networks: { readonly id: string; readonly name: string; readonly project_id: string }[];
  readonly subnets: { readonly id: string; readonly cidr: string; readonly network_id: string }[];
  readonly groups: { readonly id: string; readonly name: string }[];
  /** Ids of servers whose cell is down. */
  readonly down: Set<string>;
  /** Paths of the requests received so far, with their queries. */
  readonly asked: string[];
  /** Whether Neutron's requests fail. */
  isNetworkDown: boolean;
  /** The token that is currently valid. */
  token: string;
  /** Secret that metadata agents sign with (`metadata_proxy_shared_secret`). */
  readonly metadataSecret: string;
  close(): void;
}

/** Starts a simulated cloud. */
export async function startCloud(): Promise<StandInCloud> {
  const cloud: StandInCloud & { url: string } = {
    url: '',
    servers: [],
    ports: [],
    networks: [],
    subnets: [],
    groups: [],
    down: new Set(),
    asked: [],
    isNetworkDown: false,
    token: 'token-1',
    metadataSecret: 'the secret of Nova and its agents',
    close: () => server.close(),
  };
  const server: Server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://cloud');
    const answer = (status: number, body: object, headers: object = {}): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(body));
    };
    request.resume().once('end', () => {
      if (url.pathname.endsWith('/auth/tokens')) {
        return answer(201, { token: {} }, { 'x-subject-token': cloud.token });
      }
      if (url.pathname.startsWith('/metadata/')) {
        return answer(...metadataFor(cloud, request.headers));
      }
      cloud.asked.push(request.url ?? '');
      if (request.headers['x-auth-token'] !== cloud.token) return answer(401, {});
      if (cloud.isNetworkDown && url.pathname.startsWith('/network')) return answer(503, {});
      const found = listOf(cloud, url);
      return found === undefined ? answer(404, {}) : answer(200, found);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cloud.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return cloud;
}

/**
 * Returns the metadata of the instance for which a metadata agent has signed the request
 * [nova/api/metadata/handler.py].
 */
function metadataFor(
  { servers, metadataSecret }: StandInCloud,
  headers: IncomingHttpHeaders,
): readonly [number, object] {
  const id = String(headers['x-instance-id']);
  const expected = createHmac('sha256', metadataSecret).update(id).digest('hex');
  if (headers['x-instance-id-signature'] !== expected) return [403, {}];
  const server = servers.find((it) => it.id === id);
  if (server === undefined || server.tenant_id !== headers['x-tenant-id']) return [404, {}];
  return [200, { uuid: id, name: server.name, project_id: server.tenant_id }];
}

function listOf(cloud: StandInCloud, url: URL): object | undefined {
  const { pathname, searchParams: query } = url;
  const page = (name: string, all: readonly { readonly id: string }[]): object => {
    const limit = Number(query.get('limit'));
    const marker = query.get('marker');
    const begin = marker === null ? 0 : all.findIndex(({ id }) => id === marker) + 1;
    const entries = all.slice(begin, begin + limit);
    const next = new URLSearchParams(query);
    next.set('marker', entries.at(-1)?.id ?? '');
    // The host is internal to the cloud, so it is removed.
    const href = `http://internal.invalid${pathname}?${next}`;
    const hasMore = begin + limit < all.length;
    return { [name]: entries, ...(hasMore ? { [`${name}_links`]: [{ rel: 'next', href }] } : {}) };
  };
  const [, id] = /^\/compute\/servers\/([^/]+)$/.exec(pathname) ?? [];
  const server = cloud.servers.find((it) => it.id === id);
  if (server !== undefined) return { server: serverBody(server, cloud) };
  switch (pathname) {
    case '/compute/servers/detail': {
      const since = query.get('changes-since');
      const changed = cloud.servers.filter((it) =>
        since === null ? it.isDeleted !== true : it.updatedAt >= Date.parse(since),
      );
      return page(
        'servers',
        changed.map((it) => serverBody(it, cloud)),
      );
    }
    case '/network/v2.0/ports': {
      const devices = query.getAll('device_id');
      const networks = query.getAll('network_id');
      const mac = query.get('mac_address');
      const [, address] = query.get('fixed_ips')?.split('=') ?? [];
      const isIn = (all: readonly string[], one: string): boolean =>
        all.length === 0 || all.includes(one);
      return page(
        'ports',
        cloud.ports.filter(
          (it) =>
            isIn(devices, it.device_id) &&
            isIn(networks, it.network_id) &&
            (mac === null || it.mac_address === mac) &&
            (address === undefined ||
              it.fixed_ips.some(({ ip_address }) => ip_address === address)),
        ),
      );
    }
    case '/network/v2.0/networks':
      return page('networks', cloud.networks);
    case '/network/v2.0/subnets':
      return page('subnets', cloud.subnets);
    case '/network/v2.0/security-groups':
      return page('security_groups', cloud.groups);
    default:
      return undefined;
  }
}

function serverBody(
  { id, tenant_id, name, reservation, image, isDeleted }: StandInServer,
  { down }: StandInCloud,
): { readonly id: string } {
  if (down.has(id))
    return { id, tenant_id, status: 'UNKNOWN', links: [] } as { readonly id: string };
  const body = {
    id,
    tenant_id,
    name,
    image: image === undefined ? '' : { id: image },
    'OS-EXT-SRV-ATTR:hostname': name,
    status: isDeleted === true ? 'DELETED' : 'ACTIVE',
    'OS-EXT-AZ:availability_zone': 'az1',
    'OS-EXT-SRV-ATTR:reservation_id': reservation,
    security_groups: [{ name: 'default' }, { name: 'default' }],
  };
  return body;
}

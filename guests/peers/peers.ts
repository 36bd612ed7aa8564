/** Peers: instances of one project that find each other, from enrolments and from the cloud. */

import { isIP } from 'node:net';
import type { Logger } from 'pino';
import { BridgeError, type Enrolment, type KnownEnrolments } from '#heat-bridge';
import { sleepUntilAborted } from '#runtime';
import type { CloudNetworks, CloudPort, CloudReader, CloudServer } from '../cloud/cloud-reader.ts';

/** An address of a peer. */
interface PeerAddress {
  readonly address: string;
  readonly version: 4 | 6;
  readonly cidr?: string;
}

/** A peer's port on a network. */
interface PeerNetwork {
  readonly id: string;
  /** The name of the network; several networks may have one name. */
  readonly label: string;
  readonly mac: string;
  readonly addresses: readonly PeerAddress[];
}

/** An instance of the same project. Nothing of its state is told. */
export interface Peer {
  /** Of the instance. Absent: only its enrolment is known, which names none. */
  readonly id?: string;
  /** Its minion. Absent: it is not enrolled. */
  readonly minion?: string;
  readonly name?: string;
  /** Where its minion is heard from. */
  readonly address?: string;
  readonly availability_zone?: string;
  /** Instances that were started by one request have one. */
  readonly reservation_id?: string;
  readonly security_groups: readonly { readonly id?: string; readonly name: string }[];
  readonly networks: readonly PeerNetwork[];
}

/** What a guest gets of its peers. */
export interface PeerList {
  readonly project_id: string;
  /** Its own instance, where that is known. */
  readonly self?: string;
  readonly peers: readonly Peer[];
  /** Set where there are more than are listed. */
  readonly truncated?: true;
}

/** Peers of one answer. */
const maxPeers = 1000;

/** The cloud as it was read last. */
interface CloudState {
  readonly servers: ReadonlyMap<string, CloudServer>;
  /** By instance. */
  readonly ports: ReadonlyMap<string, readonly CloudPort[]>;
  readonly networks: CloudNetworks;
}

const nothing: CloudState = {
  servers: new Map(),
  ports: new Map(),
  networks: { labels: new Map(), cidrs: new Map(), securityGroups: new Map() },
};

/** Where a minion is heard from; `undefined`: nobody knows for sure. */
export type AddressOf = (minion: string) => string | undefined;

/** Knows instances and minions by project. */
export class PeerDirectory {
  readonly #enrolments: Pick<KnownEnrolments, 'liveOf' | 'liveOfProject'>;
  #cloud: CloudState = nothing;
  /** Ids of instances by project. */
  #byProject: ReadonlyMap<string, readonly string[]> = new Map();

  constructor(enrolments: Pick<KnownEnrolments, 'liveOf' | 'liveOfProject'>) {
    this.#enrolments = enrolments;
  }

  get cloud(): CloudState {
    return this.#cloud;
  }

  set cloud(state: CloudState) {
    const byProject = new Map<string, string[]>();
    for (const { id, project } of state.servers.values()) {
      const ids = byProject.get(project) ?? [];
      byProject.set(project, ids);
      ids.push(id);
    }
    this.#cloud = state;
    this.#byProject = byProject;
  }

  /**
   * The peers of a minion: those of the project that it was enrolled for.
   * @param isTogether - only those with the reservation of its own instance
   * @throws BridgeError ERR_ENROLL_UNKNOWN
   */
  of(minion: string, addressOf: AddressOf, isTogether = false): PeerList {
    const own = this.#enrolments.liveOf(minion);
    if (own === undefined || !hasKey(own)) {
      throw new BridgeError('ERR_ENROLL_UNKNOWN', 'this minion was not enrolled for a project');
    }
    const { project, instance: self } = own;
    // protection: peers-of-others
    const enrolled = [...this.#enrolments.liveOfProject(project)].filter(
      (it) => hasKey(it) && it.id !== minion,
    );
    const minions = new Map(
      enrolled.flatMap(({ id, instance }) => (instance ? [[instance, id]] : [])),
    );
    const { servers } = this.#cloud;
    const reservation = servers.get(self ?? '')?.reservation;
    const isWithSelf = (id: string): boolean =>
      reservation !== undefined && servers.get(id)?.reservation === reservation;
    const known = (this.#byProject.get(project) ?? []).filter((id) => id !== self);
    const instances = isTogether ? known.filter(isWithSelf) : known;
    const listed = new Set(known);
    // Of what only its enrolment is known no reservation is.
    const others = isTogether
      ? []
      : enrolled.filter(({ instance }) => instance === undefined || !listed.has(instance));
    const peers = [
      ...instances.slice(0, maxPeers).map((id) => this.#peer(id, minions.get(id))),
      ...others.slice(0, Math.max(0, maxPeers - instances.length)).map(peerOfEnrolment),
    ];
    return {
      project_id: project,
      ...(self === undefined ? {} : { self }),
      peers: peers.map((it) => withAddress(it, addressOf)),
      ...(instances.length + others.length > maxPeers ? { truncated: true } : {}),
    };
  }

  #peer(id: string, minion: string | undefined): Peer {
    const { servers, ports, networks } = this.#cloud;
    const server = servers.get(id);
    // A tenant may give a port of its own the id of another's instance.
    // protection: ports-of-others
    const own = (ports.get(id) ?? []).filter(({ project }) => project === server?.project);
    const groups = new Set(own.flatMap(({ securityGroups }) => securityGroups));
    const named = [...groups].map((group) => ({
      id: group,
      name: networks.securityGroups.get(group) ?? '',
    }));
    return {
      id,
      ...(minion === undefined ? {} : { minion }),
      ...(server?.name === undefined ? {} : { name: server.name }),
      ...(server?.zone === undefined ? {} : { availability_zone: server.zone }),
      ...(server?.reservation === undefined ? {} : { reservation_id: server.reservation }),
      security_groups:
        named.length > 0 ? named : (server?.securityGroups ?? []).map((name) => ({ name })),
      networks: own.map((port) => peerNetwork(port, networks)),
    };
  }
}

function withAddress(peer: Peer, addressOf: AddressOf): Peer {
  const address = addressOf(peer.minion ?? '');
  return address === undefined ? peer : { ...peer, address };
}

function hasKey({ state }: Enrolment): boolean {
  return state === 'accepted' || state === 'signed-in';
}

function peerOfEnrolment({ id: minion, instance }: Enrolment): Peer {
  const known = instance === undefined ? {} : { id: instance };
  return { ...known, minion, security_groups: [], networks: [] };
}

function peerNetwork(port: CloudPort, { labels, cidrs }: CloudNetworks): PeerNetwork {
  return {
    id: port.network,
    label: labels.get(port.network) ?? '',
    mac: port.mac,
    addresses: port.addresses.flatMap(({ address, subnet }) => {
      const version = isIP(address);
      if (version !== 4 && version !== 6) return [];
      const cidr = cidrs.get(subnet);
      return [{ address, version, ...(cidr === undefined ? {} : { cidr }) }];
    }),
  };
}

// Polling.

export interface PeerPollerOptions {
  readonly reader: Pick<CloudReader, 'networks' | 'ports' | 'server' | 'servers'>;
  readonly directory: PeerDirectory;
  /** Milliseconds between two polls for what has changed, and between two of everything. */
  readonly intervalMs: number;
  readonly fullIntervalMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Clocks differ, and a change may be seen late. */
const overlapMs = 60_000;
const maxBackOff = 16;
/** Between a notification and what it leads to: others come with it. */
const notifiedDelayMs = 1000;
/** Instances that notifications have named; of more the next polls tell. */
const maxNotified = 1000;
/** Of these, how many one poll asks for by name. */
const notifiedOfPoll = 100;

/** Keeps a directory as the cloud is. What cannot be read stays as it was. */
export class PeerPoller {
  readonly #options: PeerPollerOptions;
  #fullAt = -Infinity;
  #polledAt = 0;
  #failures = 0;
  /** Instances that may have changed. */
  readonly #notified = new Set<string>();
  #wake = new AbortController();

  constructor(options: PeerPollerOptions) {
    this.#options = options;
  }

  /** Polls until the signal fires. */
  async run(closing: AbortSignal): Promise<void> {
    while (!closing.aborted) {
      await this.#tryToPoll(closing);
      const factor = Math.min(2 ** this.#failures, maxBackOff);
      await this.#sleep(this.#options.intervalMs * factor, closing);
    }
  }

  /** Reads these instances soon, and what else has changed. */
  noteChanged(instances: readonly string[]): void {
    for (const id of instances) {
      // protection: notifications-without-end
      if (this.#notified.size >= maxNotified) break;
      this.#notified.add(id);
    }
    // A service that fails is not asked more often.
    if (this.#failures === 0) this.#wake.abort();
  }

  async #sleep(ms: number, closing: AbortSignal): Promise<void> {
    if (this.#notified.size === 0 || this.#failures > 0) {
      this.#wake = new AbortController();
      await sleepUntilAborted(ms, AbortSignal.any([closing, this.#wake.signal]));
    }
    if (this.#notified.size > 0) await sleepUntilAborted(notifiedDelayMs, closing);
  }

  /** Once. @throws CloudError */
  async poll(): Promise<void> {
    const { now, fullIntervalMs } = this.#options;
    const startedAt = now();
    // Of a clock that only goes forward.
    const time = performance.now();
    if (time - this.#fullAt >= fullIntervalMs) {
      this.#notified.clear();
      await this.#readAll();
      this.#fullAt = time;
    } else {
      const notified = [...this.#notified].slice(0, notifiedOfPoll);
      for (const id of notified) this.#notified.delete(id);
      await this.#readChanges(this.#polledAt - overlapMs, notified);
    }
    this.#polledAt = startedAt;
  }

  async #tryToPoll(closing: AbortSignal): Promise<void> {
    try {
      await this.poll();
      this.#failures = 0;
    } catch (error) {
      if (closing.aborted) return;
      this.#failures = Math.min(this.#failures + 1, maxBackOff);
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#options.log.warn({ reason }, 'peers were not read from the cloud');
    }
  }

  async #readAll(): Promise<void> {
    const { reader, directory } = this.#options;
    const before = directory.cloud;
    const found = await reader.servers();
    const servers = new Map(
      found.filter((it) => !it.isDeleted).map((it) => [it.id, withKnown(it, before.servers)]),
    );
    const ports = groupByDevice(await reader.ports());
    directory.cloud = { servers, ports, networks: await reader.networks() };
  }

  async #readChanges(since: number, notified: readonly string[]): Promise<void> {
    const { reader, directory } = this.#options;
    const changed = [...(await reader.servers(new Date(since).toISOString()))];
    const seen = new Set(changed.map(({ id }) => id));
    // A port that has changed is no change of its instance.
    for (const id of notified.filter((it) => !seen.has(it))) {
      const server = await reader.server(id);
      if (server !== undefined) changed.push(server);
    }
    if (changed.length === 0) return;
    const before = directory.cloud;
    const servers = new Map(before.servers);
    const ports = new Map(before.ports);
    const fresh = groupByDevice(
      await reader.ports(changed.filter((it) => !it.isDeleted).map(({ id }) => id)),
    );
    for (const server of changed) {
      ports.delete(server.id);
      if (server.isDeleted) servers.delete(server.id);
      else servers.set(server.id, withKnown(server, before.servers));
    }
    for (const [id, own] of fresh) ports.set(id, own);
    const isNew = [...fresh.values()]
      .flat()
      .some(({ network }) => !before.networks.labels.has(network));
    const networks = isNew ? await reader.networks() : before.networks;
    directory.cloud = { servers, ports, networks };
  }
}

/** Of an instance whose cell is down, what was known before. */
function withKnown(server: CloudServer, before: ReadonlyMap<string, CloudServer>): CloudServer {
  if (server.name !== undefined) return server;
  const known = before.get(server.id);
  return known?.project === server.project ? known : server;
}

function groupByDevice(ports: readonly CloudPort[]): ReadonlyMap<string, readonly CloudPort[]> {
  const groups = new Map<string, CloudPort[]>();
  for (const port of ports) {
    const group = groups.get(port.device) ?? [];
    groups.set(port.device, group);
    group.push(port);
  }
  return groups;
}

/**
 * Directory of peers: instances of one project that find each other. It contains enrolments, and
 * instances from the cloud.
 */

import { isIP } from 'node:net';
import Type, { type Static } from 'typebox';
import { BridgeError, type Enrolment, type EnrolmentModule, listOf } from '#heat-bridge';
import { inertText } from '#minion-protocol';
import type { CloudNetworks, CloudPort, CloudServer } from '../cloud/cloud-reader.ts';

const Text = Type.String();

/** Instance of the same project. Its state is not exposed. */
const PeerSchema = Type.Object({
  /** Id of the instance. Absent if only its enrolment is known. */
  id: Type.Optional(Text),
  /** Minion id of the instance. Absent if it is not enrolled. */
  minion: Type.Optional(Text),
  /**
   * Name of the instance. Empty if Salt would interpret the name, for example because it contains
   * `__slot__:`. This also applies to the names of groups, networks and zones.
   */
  name: Type.Optional(Text),
  /** Address from which its minion is connected. */
  address: Type.Optional(Text),
  availability_zone: Type.Optional(Text),
  /** Reservation id. Instances that one request has started share it. */
  reservation_id: Type.Optional(Text),
  security_groups: listOf(Type.Object({ id: Type.Optional(Text), name: Text })),
  /** Ports of the instance. */
  networks: listOf(
    Type.Object({
      id: Text,
      /** Name of the network; not unique. */
      label: Text,
      mac: Text,
      addresses: listOf(
        Type.Object({ address: Text, version: Type.Enum([4, 6]), cidr: Type.Optional(Text) }),
      ),
    }),
  ),
});

/** Instance of the same project. */
export type Peer = Readonly<Static<typeof PeerSchema>>;

/** Schema of the response that lists the peers of a guest. */
export const PeersSchema = Type.Object({
  project_id: Text,
  /** Id of the guest's own instance, if known. */
  self: Type.Optional(Text),
  peers: Type.Unsafe<readonly Peer[]>(Type.Array(PeerSchema)),
  /** Present if the list is truncated. */
  truncated: Type.Optional(Type.Literal(true)),
});

/** Response that lists the peers of a guest. */
export type PeerList = Readonly<Static<typeof PeersSchema>>;

type KnownEnrolments = Pick<EnrolmentModule['enrolments'], 'liveOf' | 'liveOfProject'>;

/** Maximum number of peers in a response. */
const maxPeers = 1000;

/** Data of the cloud, as the last poll read it. */
interface CloudState {
  readonly servers: ReadonlyMap<string, CloudServer>;
  /** Ports by instance. */
  readonly ports: ReadonlyMap<string, readonly CloudPort[]>;
  readonly networks: CloudNetworks;
}

const nothing: CloudState = {
  servers: new Map(),
  ports: new Map(),
  networks: { labels: new Map(), cidrs: new Map(), securityGroups: new Map() },
};

/**
 * Returns the address from which a minion is connected. Returns `undefined` if the address is
 * uncertain.
 */
export type AddressOf = (minion: string) => string | undefined;

/** Directory of instances and minions by project. */
export class PeerDirectory {
  readonly #enrolments: KnownEnrolments;
  #cloud: CloudState = nothing;
  /** Ids of instances by project. */
  #byProject: ReadonlyMap<string, readonly string[]> = new Map();

  constructor(enrolments: KnownEnrolments) {
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
   * Returns the peers of a minion in the project of its enrolment.
   * @param isTogether - whether to return only instances that were started together with the
   * minion's instance
   * @throws BridgeError ERR_ENROLL_UNKNOWN
   */
  of(minion: string, addressOf: AddressOf, isTogether = false): PeerList {
    const own = this.#enrolments.liveOf(minion);
    if (own === undefined || !hasKey(own)) {
      throw new BridgeError(
        'ERR_ENROLL_UNKNOWN',
        'the minion is not enrolled for a project, so it has no peers',
      );
    }
    const { project, instance: self } = own;
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
    // Omit instances without data from the cloud, because their reservation is unknown.
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
    // Tenants can set the id of another tenant's instance on their own port.
    const own = (ports.get(id) ?? []).filter(({ project }) => project === server?.project);
    const groups = new Set(own.flatMap(({ securityGroups }) => securityGroups));
    const named = [...groups].map((group) => ({
      id: group,
      name: inertText(networks.securityGroups.get(group) ?? ''),
    }));
    return {
      id,
      ...(minion === undefined ? {} : { minion }),
      ...(server?.name === undefined ? {} : { name: inertText(server.name) }),
      ...(server?.zone === undefined ? {} : { availability_zone: inertText(server.zone) }),
      ...(server?.reservation === undefined ? {} : { reservation_id: server.reservation }),
      security_groups:
        named.length > 0
          ? named
          : (server?.securityGroups ?? []).map((name) => ({ name: inertText(name) })),
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

function peerNetwork(port: CloudPort, { labels, cidrs }: CloudNetworks): Peer['networks'][number] {
  return {
    id: port.network,
    label: inertText(labels.get(port.network) ?? ''),
    mac: port.mac,
    addresses: port.addresses.flatMap(({ address, subnet }) => {
      const version = isIP(address);
      if (version !== 4 && version !== 6) return [];
      const cidr = cidrs.get(subnet);
      return [{ address, version, ...(cidr === undefined ? {} : { cidr }) }];
    }),
  };
}

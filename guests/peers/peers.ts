/**
 * Directory of peers: instances of one project that find each other. It contains enrolments, and
 * instances from the cloud.
 */

import { isIP } from 'node:net';
import Type, { type Static } from 'typebox';
import { BridgeError, type Enrolment, type EnrolmentModule, listOf } from '#heat-bridge';
import { findInterpretedText } from '#minion-protocol';
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
  /** Address from which the instance's minion is connected. */
  address: Type.Optional(Text),
  availability_zone: Type.Optional(Text),
  /** Reservation id. Instances that one request has started share it. */
  reservation_id: Type.Optional(Text),
  security_groups: listOf(Type.Object({ id: Type.Optional(Text), name: Text })),
  /** Networks of the instance, with one entry for each of its ports. */
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

type KnownEnrolments = Pick<
  EnrolmentModule['enrolments'],
  'acceptedOfProject' | 'liveOf' | 'liveOfInstance'
>;

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
 * Returns the address from which a minion is connected. Returns `undefined` if the minion is not
 * connected, if it is behind a relay, or if the connection may belong to another client.
 */
export type AddressOf = (minion: string) => string | undefined;

/** Directory of instances and minions by project. */
export class PeerDirectory {
  readonly #enrolments: KnownEnrolments;
  #cloud: CloudState = nothing;
  /** Instances by project. */
  #byProject: ReadonlyMap<string, readonly CloudServer[]> = new Map();
  /**
   * Instances, by the id of Nova's reservation. Nova gives all instances of one create
   * request the same reservation.
   */
  #byReservation: ReadonlyMap<string | undefined, readonly CloudServer[]> = new Map();

  constructor(enrolments: KnownEnrolments) {
    this.#enrolments = enrolments;
  }

  get cloud(): CloudState {
    return this.#cloud;
  }

  set cloud(state: CloudState) {
    this.#cloud = state;
    this.#byProject = Map.groupBy(state.servers.values(), ({ project }) => project);
    this.#byReservation = Map.groupBy(state.servers.values(), (it) => it.reservation);
  }

  /**
   * Returns the peers of a minion in the project of its enrolment.
   * @param isTogether - whether to return only instances that were started together with the
   * minion's instance
   * @param max - maximum number of peers. If there are more, the result is marked as truncated
   * @throws BridgeError ERR_ENROLL_UNKNOWN
   */
  of(minion: string, addressOf: AddressOf, isTogether = false, max = maxPeers): PeerList {
    const own = this.#enrolments.liveOf(minion);
    if (own === undefined || !hasKey(own)) {
      throw new BridgeError(
        'ERR_ENROLL_UNKNOWN',
        'the minion is not enrolled for a project, so it has no peers',
      );
    }
    const peers: Peer[] = [];
    let isTruncated = false;
    // Stop at the maximum, because each machine of a large project requests its peers.
    for (const create of this.#candidates(own, isTogether)) {
      isTruncated = peers.length === max;
      if (isTruncated) break;
      peers.push(withAddress(create(), addressOf));
    }
    const { project, instance: self } = own;
    return {
      project_id: project,
      ...(self === undefined ? {} : { self }),
      peers,
      ...(isTruncated ? { truncated: true } : {}),
    };
  }

  /** Returns the project for which a minion is enrolled. */
  projectOf(minion: string): string | undefined {
    const own = this.#enrolments.liveOf(minion);
    return own !== undefined && hasKey(own) ? own.project : undefined;
  }

  /**
   * Yields a function for each peer of an enrolled minion. When called, the function creates the
   * description of that peer. A caller that needs only some peers therefore creates no other
   * descriptions.
   */
  *#candidates(own: Enrolment, isTogether: boolean): Generator<() => Peer, void, void> {
    const { project, instance: self } = own;
    const { servers } = this.#cloud;
    const reservation = servers.get(self ?? '')?.reservation;
    const known = isTogether
      ? this.#byReservation.get(reservation ?? '')
      : this.#byProject.get(project);
    for (const { id } of known ?? []) {
      if (id === self || servers.get(id)?.project !== project) continue;
      yield () => this.#peer(id, this.#minionOf(id, own));
    }
    // Omit instances without data from the cloud, because their reservation is unknown.
    if (isTogether) return;
    for (const enrolment of this.#enrolments.acceptedOfProject(project)) {
      const { id, instance = '' } = enrolment;
      if (id === own.id || servers.get(instance)?.project === project) continue;
      yield () => peerOfEnrolment(enrolment);
    }
  }

  /**
   * Returns the id of the minion that was enrolled for an instance, or `undefined`. The minion must
   * belong to the project of the given enrolment, and must not be the minion of this enrolment
   * itself.
   */
  #minionOf(instance: string, { project, id: other }: Enrolment): string | undefined {
    const enrolled = [...this.#enrolments.liveOfInstance(instance)].filter(
      (it) => it.project === project && hasKey(it) && it.id !== other,
    );
    return enrolled.at(-1)?.id;
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

/** Returns the text, or an empty text if Salt would interpret the text. */
function inertText(text: string): string {
  return findInterpretedText(text) === undefined ? text : '';
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

/** A simulated cloud, a master with a bridge, and a metadata agent that serves its networks. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import { allow } from '#acl';
import { type Bridge, createBridge, loadMetadataAgent } from '#guests';
import { createLogger, type Master } from '#master';
import { freePort } from '../../bench/free-port.ts';
import {
  type EmbeddedMaster,
  freeSaltPorts,
  type SaltPorts,
  startEmbeddedMaster,
} from '../control-plane.ts';
import { type StandInCloud, startCloud } from './stand-in-cloud.ts';

/** An instance with one port, to be created in the cloud. */
export interface NewInstance {
  readonly id: string;
  readonly name: string;
  readonly project: string;
  readonly network: string;
  readonly address: string;
  /** MAC address of the port. Default: a unique address. */
  readonly mac?: string;
}

/**
 * Returns additional sections of the agent's configuration, for the agent's folder and the ports of
 * the master.
 */
type AgentSections = (folder: string, ports: SaltPorts) => object;

/** Rule for the enrolment of instances. */
const identity = (masters: readonly string[]): object => ({
  everybody: { instance: { project: ['p1', 'p2'] }, id: '{name}.{project}', masters },
});

export class GuestPlane {
  readonly folder: string = mkdtempSync(path.join(tmpdir(), 'sb-'));
  readonly cloud: StandInCloud;
  readonly #closers: (() => unknown)[] = [];
  #ports: SaltPorts = { requestPort: 0, publishPort: 0 };
  #running: EmbeddedMaster | undefined;

  private constructor(cloud: StandInCloud) {
    this.cloud = cloud;
    this.#closers.push(() => cloud.close());
  }

  /**
   * Starts the cloud, the master and the agent.
   * @param masters - addresses at which instances reach the master
   */
  static async start(
    agentSections: AgentSections,
    masters: readonly string[] = ['127.0.0.1'],
  ): Promise<GuestPlane> {
    const plane = new GuestPlane(await startCloud());
    try {
      await plane.#startMaster(agentSections, masters);
      return plane;
    } catch (error) {
      await plane.close();
      throw error;
    }
  }

  get master(): Master {
    if (this.#running === undefined) throw new Error('the master has not been started');
    return this.#running.master;
  }

  get bridge(): Bridge {
    if (this.#running === undefined) throw new Error('the master has not been started');
    return this.#running.bridge;
  }

  /** Ports that minions use as `publish_port` and `master_port`. */
  get ports(): SaltPorts {
    return this.#ports;
  }

  /** Creates an instance in the cloud. */
  add({ id, name, project, network, address, mac }: NewInstance): void {
    const { servers, ports, networks, subnets } = this.cloud;
    servers.push({
      id,
      name,
      tenant_id: project,
      reservation: `r-${project}`,
      updatedAt: Date.now(),
    });
    if (!networks.some((it) => it.id === network)) {
      networks.push({ id: network, name: 'private', project_id: project });
      subnets.push({ id: `subnet-of-${network}`, cidr: '10.0.0.0/24', network_id: network });
    }
    const number = ports.length.toString(16).padStart(4, '0');
    ports.push({
      id: `port-of-${id}`,
      device_id: id,
      device_owner: 'compute:az1',
      project_id: project,
      network_id: network,
      mac_address: mac ?? `fa:16:3e:00:${number.slice(0, 2)}:${number.slice(2)}`,
      security_groups: [],
      fixed_ips: [{ ip_address: address, subnet_id: `subnet-of-${network}` }],
    });
  }

  async close(): Promise<void> {
    for (const close of this.#closers.reverse()) await close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #startMaster(agentSections: AgentSections, masters: readonly string[]): Promise<void> {
    this.#ports = await freeSaltPorts();
    const relayPorts = { publishPort: await freePort(), retPort: await freePort() };
    const at = (name: string): string => path.join(this.folder, name);
    const { url, metadataSecret } = this.cloud;
    mkdirSync(at('files'));
    writeFileSync(at('files/motd'), 'from the master\n');
    writeFileSync(at('agent.secret'), 'the secret of the agent of these networks', { mode: 0o600 });
    writeFileSync(at('nova.secret'), metadataSecret, { mode: 0o600 });
    const account = { url: `${url}/v3`, username: 'saltbridge', password: 'x', project: 'service' };
    const running = await startEmbeddedMaster({
      directory: this.folder,
      ports: this.#ports,
      bridge: createBridge(),
      rules: [
        allow('guests use the interfaces of the bridge', {
          subject: { minion: '*' },
          action: 'runner',
          resource: { fun: 'saltbridge_*' },
        }),
      ],
      options: {
        confFile: at('master'),
        fileRoots: { base: [at('files')] },
        relay: { interface: '127.0.0.1', ...relayPorts, from: ['127.0.0.1'] },
        bridge: {
          enroll: { masters: ['127.0.0.1'] },
          guests: {
            agents: { 'net-1': { secret_file: 'agent.secret' } },
            peers: {
              keystone: account,
              compute: { url: `${url}/compute` },
              network: { url: `${url}/network` },
              poll_interval: 1,
            },
            identity: identity(masters),
          },
        },
      },
    });
    this.#closers.push(() => running.close());
    this.#running = running;
    const agentFile = {
      nova: { url: `${url}/metadata`, secret_file: 'nova.secret' },
      master: { url: running.url, name: 'net-1', secret_file: 'agent.secret' },
      neutron: { url: `${url}/network`, keystone: account },
      relay: {
        master: '127.0.0.1',
        publish_port: relayPorts.publishPort,
        ret_port: relayPorts.retPort,
        publish_socket: at('publish.sock'),
        ret_socket: at('ret.sock'),
        guest_publish_port: this.#ports.publishPort,
        guest_ret_port: this.#ports.requestPort,
      },
      ...agentSections(this.folder, this.#ports),
    };
    writeFileSync(at('agent.yaml'), stringify(agentFile));
    const closing = new AbortController();
    const log = createLogger('error', process.stderr);
    const { loadAgentOptions, startMetadataAgent, startRelay } = await loadMetadataAgent();
    const { relay, ...options } = await loadAgentOptions(at('agent.yaml'), closing.signal);
    const agent = await startMetadataAgent({ ...options, log, now: Date.now });
    this.#closers.push(() => agent.close());
    if (relay !== undefined) {
      const { find, networksOf } = options;
      const relayed = await startRelay(relay, { find, networksOf, log });
      this.#closers.push(() => relayed.close());
    }
  }
}

/**
 * Two networks with the same addresses on one machine. Each has one machine, 10.0.0.5, which can
 * reach only 169.254.169.254 and fe80::a9fe:a9fe.
 */

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

/** Names of both networks. */
export const labNetworks = ['A', 'B'] as const;
export type LabNetwork = (typeof labNetworks)[number];

const ip = (...args: readonly string[]): void => {
  execFileSync('ip', args, { stdio: 'ignore' });
};

export class NetworkLab {
  readonly #proxies: ChildProcess[] = [];
  /** Suffix of the names of namespaces, so that several labs can exist on one machine. */
  readonly #tag: string = `${process.pid}${Math.floor(performance.now()) % 1000}`;

  /**
   * Creates the networks.
   * @throws the error of the program `ip`. {@link close} removes the parts that were already
   * created
   */
  open(): void {
    for (const network of labNetworks) {
      const [own, guest, device] = [this.host(network), this.guest(network), this.device(network)];
      ip('netns', 'add', own);
      ip('netns', 'add', guest);
      ip('link', 'add', device, 'netns', own, 'type', 'veth', 'peer', 'name', 'e0', 'netns', guest);
      ip('-n', own, 'addr', 'add', '10.0.0.1/24', 'dev', device);
      ip('-n', own, 'addr', 'add', '169.254.169.254/32', 'dev', device);
      ip('-n', guest, 'addr', 'add', '10.0.0.5/24', 'dev', 'e0');
      for (const [space, link] of [
        [own, 'lo'],
        [own, device],
        [guest, 'lo'],
        [guest, 'e0'],
      ] as const) {
        ip('-n', space, 'link', 'set', link, 'up');
      }
      ip('-n', own, 'addr', 'add', 'fe80::a9fe:a9fe/64', 'dev', device, 'nodad');
      ip('-n', guest, 'route', 'add', '169.254.169.254/32', 'via', '10.0.0.1');
    }
  }

  /** Returns the name of the namespace of a network's machine. */
  guest(network: LabNetwork): string {
    return `sbg${network}${this.#tag}`;
  }

  /** Returns the name of the namespace of a network's proxy. */
  host(network: LabNetwork): string {
    return `sbn${network}${this.#tag}`;
  }

  /** Returns the network device in the namespace of the proxy. */
  device(network: LabNetwork): string {
    return `v${network}`;
  }

  /** Runs a program on the machine of a network, and returns its output. */
  async run(network: LabNetwork, program: string, ...args: readonly string[]): Promise<string> {
    const line = ['netns', 'exec', this.guest(network), program, ...args];
    return (await promisify(execFile)('ip', line)).stdout;
  }

  /**
   * Returns the link-local address of a network's machine, which is derived from its MAC address.
   */
  async linkLocal(network: LabNetwork): Promise<string> {
    const text = await this.run(network, 'cat', '/proc/net/if_inet6');
    const [, hex = ''] = /^(fe80[\da-f]{28}) .* e0$/m.exec(text) ?? [];
    return hex.replace(/(.{4})(?=.)/g, '$1:');
  }

  /**
   * Starts a metadata proxy in each network, as Neutron does.
   * @param socket - path of the agent's socket
   * @param more - returns additional configuration for the proxy of a network
   */
  async startProxies(
    folder: string,
    socket: string,
    more: (network: string) => string = () => '',
  ): Promise<void> {
    for (const network of labNetworks) {
      const file = path.join(folder, `haproxy-${network}.cfg`);
      writeFileSync(file, proxyConfiguration(`net-${network}`, socket) + more(`net-${network}`));
      const args = ['netns', 'exec', this.host(network), 'haproxy', '-db', '-f', file];
      this.#proxies.push(spawn('ip', args, { stdio: 'ignore' }));
    }
    for (const network of labNetworks) await this.untilUp(network, 'http://169.254.169.254/');
  }

  /** Sends requests until there is a response. */
  async untilUp(network: LabNetwork, url: string): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      try {
        await this.run(network, 'curl', '-s', '-g', '-o', '/dev/null', url);
        return;
      } catch (error) {
        if (tries === 100) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Ends the proxies and removes the networks. */
  async close(): Promise<void> {
    for (const proxy of this.#proxies) {
      if (proxy.exitCode !== null || proxy.signalCode !== null) continue;
      proxy.kill('SIGKILL');
      await once(proxy, 'exit');
    }
    for (const network of labNetworks) {
      for (const space of [this.host(network), this.guest(network)]) {
        try {
          ip('netns', 'del', space);
        } catch {
          // The namespace was not created.
        }
      }
    }
  }
}

/**
 * Returns the proxy configuration that Neutron's driver writes for the namespace of a network. It
 * does not remove the header X-Forwarded-For that guests send.
 */
function proxyConfiguration(network: string, socket: string): string {
  return `global
    maxconn 64
defaults
    mode http
    option http-server-close
    option forwardfor
    retries 3
    timeout connect 30s
    timeout client 32s
    timeout server 32s
listen listener
    bind 169.254.169.254:80
    http-request del-header X-Neutron-Router-ID
    http-request set-header X-Neutron-Network-ID ${network}
    server metadata ${socket}
`;
}

export interface RelayProxyOptions {
  /** Folder of the Unix sockets to the relay: `publish.sock` and `ret.sock`. */
  readonly folder: string;
  readonly publishPort: number;
  readonly requestPort: number;
  /** Time without data after which a connection is closed, in seconds. */
  readonly timeout: number;
}

/**
 * Returns the proxy configuration for Salt's ports in the namespace of a network, as described in
 * docs/relay.md.
 */
export function relayProxyConfiguration(
  network: string,
  { folder, publishPort, requestPort, timeout }: RelayProxyOptions,
): string {
  return [
    ['publish', publishPort],
    ['ret', requestPort],
  ]
    .map(
      ([name, port]) => `listen salt-${name}
    mode tcp
    option clitcpka
    option srvtcpka
    timeout client ${timeout}s
    timeout server ${timeout}s
    unique-id-format ${network}
    bind 169.254.169.254:${port}
    server master unix@${folder}/${name}.sock send-proxy-v2 proxy-v2-options unique-id
`,
    )
    .join('');
}

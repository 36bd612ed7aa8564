/**
 * Creates a router for two networks, `net-1` and `net-2`. Each network has a machine that reaches
 * 169.254.169.254 through the router. The proxy runs in the router's namespace, as Neutron starts
 * it there, and reports the router but no network.
 */

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ExecutionContext } from 'ava';
import { program } from '../../../examples/example.ts';

/** Number N of a network. Its machine has the address 10.0.N.5. */
type RoutedNetwork = 1 | 2;

export const hasRouterPrograms: boolean = ['ip', 'iptables', 'haproxy', 'curl'].every(
  (name) => program(name, name).isThere,
);

const ip = (...args: readonly string[]): void => {
  execFileSync('ip', args, { stdio: 'ignore' });
};

class RouterLab {
  readonly #tag: string = `${process.pid}${Math.floor(performance.now()) % 1000}`;
  #proxy: ChildProcess | undefined;

  open(): void {
    ip('netns', 'add', this.#router);
    ip('-n', this.#router, 'link', 'set', 'lo', 'up');
    for (const network of [1, 2] as const) {
      const [guest, device] = [this.#guest(network), `qr-${network}`];
      ip('netns', 'add', guest);
      const ends = ['netns', this.#router, 'type', 'veth', 'peer', 'name', 'e0', 'netns', guest];
      ip('link', 'add', device, ...ends);
      ip('-n', this.#router, 'addr', 'add', `10.0.${network}.1/24`, 'dev', device);
      ip('-n', this.#router, 'link', 'set', device, 'up');
      ip('-n', guest, 'addr', 'add', `10.0.${network}.5/24`, 'dev', 'e0');
      ip('-n', guest, 'link', 'set', 'e0', 'up');
      ip('-n', guest, 'route', 'add', 'default', 'via', `10.0.${network}.1`);
    }
    const redirect = ['-d', '169.254.169.254/32', '-i', 'qr-+', '-p', 'tcp', '--dport', '80'];
    const rule = ['-t', 'nat', '-A', 'PREROUTING', ...redirect, '-j', 'REDIRECT'];
    ip('netns', 'exec', this.#router, 'iptables', ...rule, '--to-ports', '9697');
  }

  /**
   * Starts the proxy.
   * @param socket - socket of the agent
   */
  async startProxy(folder: string, router: string, socket: string): Promise<void> {
    const file = path.join(folder, 'haproxy-router.cfg');
    writeFileSync(
      file,
      `defaults
    mode http
    option forwardfor
    timeout connect 30s
    timeout client 32s
    timeout server 32s
listen listener
    bind 0.0.0.0:9697
    http-request del-header X-Neutron-Network-ID
    http-request set-header X-Neutron-Router-ID ${router}
    server metadata ${socket}
`,
    );
    const args = ['netns', 'exec', this.#router, 'haproxy', '-db', '-f', file];
    this.#proxy = spawn('ip', args, { stdio: 'ignore' });
    const retry = ['--retry', '100', '--retry-connrefused', '--retry-delay', '0'];
    await this.curl(1, ...retry, '-o', '/dev/null');
  }

  /** Returns the response of the metadata address to the machine of a network. */
  async curl(network: RoutedNetwork, ...args: readonly string[]): Promise<string> {
    const url = 'http://169.254.169.254/openstack';
    const line = ['netns', 'exec', this.#guest(network), 'curl', '-s', ...args, url];
    return (await promisify(execFile)('ip', line)).stdout;
  }

  async close(): Promise<void> {
    if (this.#proxy?.exitCode === null && this.#proxy.kill('SIGKILL')) {
      await once(this.#proxy, 'exit');
    }
    for (const space of [this.#router, this.#guest(1), this.#guest(2)]) {
      try {
        ip('netns', 'del', space);
      } catch {
        // The namespace was not created.
      }
    }
  }

  get #router(): string {
    return `sbr${this.#tag}`;
  }

  #guest(network: RoutedNetwork): string {
    return `sbg${network}${this.#tag}`;
  }
}

/**
 * Creates the router. It is removed at the end of the test.
 * @param socket - socket of the agent
 */
export async function startRouter(
  t: ExecutionContext,
  folder: string,
  router: string,
  socket: string,
): Promise<RouterLab> {
  const lab = new RouterLab();
  t.teardown(() => lab.close());
  lab.open();
  await lab.startProxy(folder, router, socket);
  return lab;
}

/** Two networks with the same addresses on one machine, each with a metadata proxy as Neutron runs it. */

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ExecutionContext } from 'ava';

function hasProgram(name: string): boolean {
  return (process.env.PATH ?? '').split(':').some((folder) => existsSync(path.join(folder, name)));
}

/** Programs of it. */
export const hasLabPrograms: boolean = ['ip', 'haproxy', 'curl'].every(hasProgram);

export interface NetworkLab {
  /** Runs a program on the machine of a network; what it prints. */
  run(network: 'A' | 'B', program: string, ...args: readonly string[]): Promise<string>;
  /** The namespace of the machine of a network. */
  guest(network: 'A' | 'B'): string;
}

const ip = (...args: readonly string[]): void => {
  execFileSync('ip', args, { stdio: 'ignore' });
};

/**
 * Removed at the end of the test.
 * @param socket - of the agent
 * @param more - of the configuration of a network's proxy
 */
export async function startLab(
  t: ExecutionContext,
  folder: string,
  socket: string,
  more: (network: string) => string = () => '',
): Promise<NetworkLab> {
  const proxies: ChildProcess[] = [];
  const name = (kind: 'g' | 'n', network: string): string => `sb${kind}${network}${process.pid}`;
  t.teardown(() => {
    for (const proxy of proxies) proxy.kill('SIGKILL');
    for (const network of ['A', 'B']) {
      for (const kind of ['n', 'g'] as const) {
        try {
          ip('netns', 'del', name(kind, network));
        } catch {
          // It was not made.
        }
      }
    }
  });
  for (const network of ['A', 'B'] as const) {
    const [own, guest] = [name('n', network), name('g', network)];
    const device = `v${network}`;
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
    ip('-n', guest, 'route', 'add', '169.254.169.254/32', 'via', '10.0.0.1');
    const file = path.join(folder, `haproxy-${network}.cfg`);
    writeFileSync(file, proxyConfiguration(`net-${network}`, socket) + more(`net-${network}`));
    const args = ['netns', 'exec', own, 'haproxy', '-db', '-f', file];
    proxies.push(spawn('ip', args, { stdio: 'ignore' }));
  }
  const run: NetworkLab['run'] = async (network, program, ...args) => {
    const line = ['netns', 'exec', name('g', network), program, ...args];
    return (await promisify(execFile)('ip', line)).stdout;
  };
  for (const network of ['A', 'B'] as const)
    await untilUp(() => run(network, 'curl', '-s', '-o', '/dev/null', 'http://169.254.169.254/'));
  return { run, guest: (network) => name('g', network) };
}

/** Tries until the proxy listens. */
async function untilUp(ask: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      await ask();
      return;
    } catch (error) {
      if (tries === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** What Neutron's driver for a network's namespace writes: guests' own X-Forwarded-For stay. */
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

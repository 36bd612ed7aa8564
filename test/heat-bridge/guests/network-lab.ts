/** Creates the networks of the example for tests. */

import type { ExecutionContext } from 'ava';
import { program } from '../../../examples/example.ts';
import { NetworkLab } from '../../../examples/guests/network-lab.ts';

/** Whether the required programs are installed. */
export const hasLabPrograms: boolean = ['ip', 'haproxy', 'curl'].every(
  (name) => program(name, name).isThere,
);

/** Creates the networks without proxies. They are removed at the end of the test. */
export function openLab(t: ExecutionContext): NetworkLab {
  const lab = new NetworkLab();
  t.teardown(() => lab.close());
  lab.open();
  return lab;
}

/**
 * Creates the networks with proxies. They are removed at the end of the test.
 * @param socket - socket of the agent
 * @param more - further lines for the configuration of a network's proxy
 */
export async function startLab(
  t: ExecutionContext,
  folder: string,
  socket: string,
  more?: (network: string) => string,
): Promise<NetworkLab> {
  const lab = openLab(t);
  await lab.startProxies(folder, socket, more);
  return lab;
}

/** The networks of the example, as tests have them. */

import type { ExecutionContext } from 'ava';
import { program } from '../../../examples/example.ts';
import { NetworkLab } from '../../../examples/guests/network-lab.ts';

/** Whether the programs of it are there. */
export const hasLabPrograms: boolean = ['ip', 'haproxy', 'curl'].every(
  (name) => program(name, name).isThere,
);

/** Without proxies; removed at the end of the test. */
export function openLab(t: ExecutionContext): NetworkLab {
  const lab = new NetworkLab();
  t.teardown(() => lab.close());
  lab.open();
  return lab;
}

/**
 * Removed at the end of the test.
 * @param socket - of the agent
 * @param more - of the configuration of a network's proxy
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

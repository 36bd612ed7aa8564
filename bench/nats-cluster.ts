/** Real NATS servers on loopback, where nats-server is installed. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isRecommended } from '#cluster/log/transaction-log.ts';
import { freePort } from './free-port.ts';
import { ChildControl } from './kill-child.ts';

/** Debian's, unless the environment names another one. */
export const natsServerProgram: string = process.env.NATS_SERVER ?? '/usr/sbin/nats-server';

/** One server, which may be killed, stopped and started again. */
export class NatsServer extends ChildControl {
  readonly port: number;
  readonly #configuration: string;

  constructor(port: number, configuration: string) {
    super();
    this.port = port;
    this.#configuration = configuration;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  get pid(): number | undefined {
    return this.child?.pid;
  }

  start(): void {
    this.child = spawn(natsServerProgram, ['-c', this.#configuration], { stdio: 'ignore' });
  }
}

/**
 * Where a server finds the port for routes of another one. Default: there.
 * @param from - number of the server, counted from 0
 */
export type RoutePort = (from: number, to: number, port: number) => Promise<number>;

/** Starts one server, or several that are a cluster, below a directory; all are to be killed. */
export async function startNatsServers(
  directory: string,
  count: number,
  routePort?: RoutePort,
): Promise<NatsServer[]> {
  const ports = await Promise.all(Array.from({ length: count }, () => freePort()));
  const routes = await Promise.all(Array.from({ length: count }, () => freePort()));
  const servers: NatsServer[] = [];
  for (const [index, port] of ports.entries()) {
    const folder = path.join(directory, `nats-${index}`);
    mkdirSync(folder, { recursive: true });
    const lines = [
      `server_name: n${index}`,
      `listen: "127.0.0.1:${port}"`,
      `jetstream { store_dir: "${folder}", max_memory_store: 64M, max_file_store: 1G }`,
    ];
    if (count > 1) {
      const places = await Promise.all(
        routes.map((route, to) => routePort?.(index, to, route) ?? route),
      );
      const addresses = places.map((place) => `"nats-route://127.0.0.1:${place}"`).join(', ');
      // Others are to be found by their configuration alone: nobody listens where this one says.
      const own = routePort === undefined ? '' : 'advertise: "127.0.0.1:1", ';
      lines.push(
        `cluster { name: test, no_advertise: true, ${own}listen: "127.0.0.1:${routes[index]}", routes: [${addresses}] }`,
      );
    }
    const file = path.join(folder, 'nats.conf');
    writeFileSync(file, `${lines.join('\n')}\n`);
    servers.push(new NatsServer(port, file));
  }
  for (const server of servers) server.start();
  return servers;
}

/**
 * Whether copies of a log stay the same after faults: after some of them those of older servers, such
 * as Debian's 2.9, differ for good (docs/cluster.md).
 */
export function keepsCopiesEqual(): boolean {
  const told = spawnSync(natsServerProgram, ['--version'], { encoding: 'utf8' }).stdout;
  return isRecommended(told.replace(': v', ' '));
}

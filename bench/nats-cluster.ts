/** Runs real NATS servers on the loopback interface. nats-server must be installed. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isRecommended } from '#cluster/log/transaction-log.ts';
import { freePort } from './free-port.ts';
import { ChildControl } from './kill-child.ts';

/**
 * Path of nats-server. Default: the path in Debian. The environment variable NATS_SERVER overrides
 * it.
 */
export const natsServerProgram: string = process.env.NATS_SERVER ?? '/usr/sbin/nats-server';

/** A NATS server that can be killed, suspended and started again. */
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
 * Returns the port at which a server reaches the route port of another one, for example through a
 * proxy. Default: the route port itself.
 * @param from - index of the server, starting at 0
 */
export type RoutePort = (from: number, to: number, port: number) => Promise<number>;

/**
 * Starts one server, or several servers of a cluster, with their files below a directory. The
 * caller must kill all of them.
 */
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
      // The servers find each other only through their configuration. No process listens at this
      // address.
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
 * Whether the copies of a log stay equal after faults. With older servers, such as version 2.9 of
 * Debian, some faults make them differ permanently (docs/cluster.md).
 */
export function keepsCopiesEqual(): boolean {
  const version = spawnSync(natsServerProgram, ['--version'], { encoding: 'utf8' }).stdout;
  return isRecommended(version.replace(': v', ' '));
}

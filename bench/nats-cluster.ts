/** Real NATS servers on loopback, where nats-server is installed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort } from './free-port.ts';
import { killChild } from './kill-child.ts';

/** Debian's. */
export const natsServerProgram = '/usr/sbin/nats-server';

/** One server, which may be killed, stopped and started again. */
export class NatsServer {
  readonly port: number;
  readonly #configuration: string;
  #child: ChildProcess | undefined;

  constructor(port: number, configuration: string) {
    this.port = port;
    this.#configuration = configuration;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    this.#child = spawn(natsServerProgram, ['-c', this.#configuration], { stdio: 'ignore' });
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(name);
  }

  kill(): Promise<void> {
    return killChild(this.#child);
  }
}

/** Starts one server, or several that are a cluster, below a directory; all are to be killed. */
export async function startNatsServers(directory: string, count: number): Promise<NatsServer[]> {
  const ports = await Promise.all(Array.from({ length: count }, () => freePort()));
  const routes = await Promise.all(Array.from({ length: count }, () => freePort()));
  const servers = ports.map((port, index) => {
    const folder = path.join(directory, `nats-${index}`);
    mkdirSync(folder, { recursive: true });
    const lines = [
      `server_name: n${index}`,
      `listen: "127.0.0.1:${port}"`,
      `jetstream { store_dir: "${folder}", max_memory_store: 64M, max_file_store: 1G }`,
    ];
    if (count > 1) {
      const addresses = routes.map((route) => `"nats-route://127.0.0.1:${route}"`).join(', ');
      lines.push(
        `cluster { name: test, no_advertise: true, listen: "127.0.0.1:${routes[index]}", routes: [${addresses}] }`,
      );
    }
    const file = path.join(folder, 'nats.conf');
    writeFileSync(file, `${lines.join('\n')}\n`);
    return new NatsServer(port, file);
  });
  for (const server of servers) server.start();
  return servers;
}

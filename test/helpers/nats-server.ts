/** Starts Debian's nats-server on loopback for one test. */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node';
import type { ExecutionContext } from 'ava';
import { isRecommended } from '#cluster/log/transaction-log.ts';
import { freePort } from '../../bench/free-port.ts';
import { killChild } from '../../bench/kill-child.ts';
import { natsServerProgram } from '../../bench/nats-cluster.ts';
import { type Declare, testWhere } from './needs.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** Whether nats-server is installed. */
export const hasNatsServer: boolean = existsSync(natsServerProgram);

/**
 * Whether the installed version is one that docs/cluster.md recommends. The program prints, for
 * example, `nats-server: v2.12.1`.
 */
export function isRecommendedNatsServer(): boolean {
  if (!hasNatsServer) return false;
  const text = execFileSync(natsServerProgram, ['--version'], { encoding: 'utf8' });
  return isRecommended(text.trim().replace(': v', ' '));
}

/** Declares a test that needs nats-server. It is skipped if the program is not installed. */
export const natsTest: Declare = testWhere(hasNatsServer, 'nats-server of Debian');

export interface TestNatsServer {
  /** Address of the server, `127.0.0.1:<port>`. */
  readonly host: string;
  readonly port: number;
  /** Connects a client, which is closed at the end of the test. */
  connect(options?: NodeConnectionOptions): Promise<NatsConnection>;
  /** Ends the process. Data that JetStream has stored is kept. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/**
 * Starts a server.
 * @param config - lines of its configuration besides the address
 */
export async function startNatsServer(
  t: ExecutionContext,
  config: readonly string[] = [],
): Promise<TestNatsServer> {
  const directory = temporaryDirectory(t);
  const store = path.join(directory, 'store');
  mkdirSync(store);
  const port = await freePort();
  const host = `127.0.0.1:${port}`;
  const file = path.join(directory, 'nats.conf');
  const jetstream = `jetstream { store_dir: ${JSON.stringify(store)} }`;
  const lines = [`listen: ${host}`, jetstream, ...config];
  writeFileSync(file, lines.join('\n'));
  let server: ChildProcess | undefined;
  const stop = (): Promise<void> => killChild(server);
  const start = async (): Promise<void> => {
    server = spawn(natsServerProgram, ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    const lines: string[] = [];
    for await (const line of createInterface(server.stderr ?? process.stdin)) {
      lines.push(line);
      if (line.includes('Server is ready')) break;
    }
    server.stderr?.resume();
    if (!lines.at(-1)?.includes('ready')) throw new Error(lines.join('\n'));
  };
  t.teardown(stop);
  await start();
  return {
    host,
    port,
    stop,
    start,
    connect: async (options = {}) => {
      const connection = await connect({
        servers: `localhost:${port}`,
        reconnect: false,
        ...options,
      });
      t.teardown(() => connection.close());
      return connection;
    },
  };
}

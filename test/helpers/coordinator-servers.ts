/**
 * Starts real servers of etcd and ZooKeeper on loopback, if they are installed. Tests can kill and
 * restart them.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { freePort } from '../../bench/free-port.ts';
import { killChild } from '../../bench/kill-child.ts';

/** A server that keeps its data on the disk when it is killed. */
export interface CoordinatorServer {
  readonly port: number;
  /** Kills the server with SIGKILL. Resolves when it has ended. */
  kill(): Promise<void>;
  /** Starts the server again with the same data. Resolves when it responds. */
  start(): Promise<void>;
}

/** Whether etcd is installed. */
export const hasEtcd: boolean = existsSync('/usr/bin/etcd');
export const hasZookeeper: boolean =
  existsSync('/usr/share/java/zookeeper.jar') && spawnSync('java', ['-version']).status === 0;

export interface EtcdOptions {
  /** TLS files of the server. If `ca` is set, clients must have a certificate that it signed. */
  readonly tls?: { readonly ca?: string; readonly cert: string; readonly key: string };
}

export async function startEtcd(
  directory: string,
  { tls }: EtcdOptions = {},
): Promise<CoordinatorServer> {
  const [port, peerPort] = [await freePort(), await freePort()];
  const scheme = tls === undefined ? 'http' : 'https';
  const url = `${scheme}://127.0.0.1:${port}`;
  const args = [
    ...['--data-dir', path.join(directory, 'etcd'), '--log-level', 'error'],
    ...['--listen-client-urls', url, '--advertise-client-urls', url],
    ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
    ...(tls === undefined
      ? []
      : [
          ...['--cert-file', tls.cert, '--key-file', tls.key],
          ...(tls.ca === undefined ? [] : ['--client-cert-auth', '--trusted-ca-file', tls.ca]),
        ]),
  ];
  return startServer(port, () => spawn('/usr/bin/etcd', args, { stdio: 'ignore' }));
}

export async function startZookeeper(directory: string): Promise<CoordinatorServer> {
  const port = await freePort();
  const data = path.join(directory, 'zookeeper');
  mkdirSync(data, { recursive: true });
  const file = path.join(directory, 'zoo.cfg');
  const options = [
    ...['tickTime=500', `dataDir=${data}`, `clientPort=${port}`, 'clientPortAddress=127.0.0.1'],
    ...['admin.enableServer=false', 'maxClientCnxns=0'],
  ];
  writeFileSync(file, `${options.join('\n')}\n`);
  const args = [
    // These options let a JVM start quickly that runs for only a few seconds.
    ...['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx128m', '-Xshare:auto'],
    ...['-cp', '/usr/share/java/zookeeper.jar'],
    ...['org.apache.zookeeper.server.quorum.QuorumPeerMain', file],
  ];
  return startServer(port, () => spawn('java', args, { stdio: 'ignore' }));
}

async function startServer(port: number, launch: () => ChildProcess): Promise<CoordinatorServer> {
  let running: ChildProcess | undefined;
  const server: CoordinatorServer = {
    port,
    kill: async () => {
      const child = running;
      running = undefined;
      await killChild(child);
    },
    start: async () => {
      const child = launch();
      running = child;
      const end = performance.now() + 30_000;
      while (!(await accepts(port))) {
        if (child.exitCode !== null || performance.now() > end) {
          throw new Error(`the server does not listen (ended with ${child.exitCode})`);
        }
        await new Promise((resolve) => {
          setTimeout(resolve, 20);
        });
      }
    },
  };
  await server.start();
  return server;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

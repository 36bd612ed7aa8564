/**
 * Links between the sites of the example and their centre. A link is slow, loses packets and can be
 * cut, if this user can create network namespaces. Otherwise it is a TCP proxy.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { BadLink, hasBadLinks, type LinkSettings } from '../../test/campaigns/edge/bad-link.ts';
import { TcpProxy } from '../../test/helpers/tcp-proxy.ts';

/** Link of one site. */
export interface SiteLink {
  /** Address of the centre for this site. */
  readonly centre: string;
  /** Description for the output of the example. */
  readonly text: string;
  /** Cuts the link. A bad link notifies neither side. */
  cut(): void;
  mend(): void;
  close(): Promise<void>;
}

const settings: LinkSettings = { rate: 50_000, delay: 1, loss: 0.05 };

/** Program in the namespace of a bad link. It forwards connections to a socket of the example. */
const relay = `
  const net = require('node:net');
  const [socket, host] = process.argv.slice(1);
  const server = net.createServer((client) => {
    const centre = net.connect(socket);
    for (const each of [client, centre]) each.on('error', () => {});
    client.pipe(centre).pipe(client);
    client.on('close', () => centre.destroy());
    centre.on('close', () => client.destroy());
  });
  server.listen(0, host, () => console.log(server.address().port));
`;

/** Addresses at which sites reach their centre. Its certificate contains them. */
export function addressesOfLinks(count: number): readonly string[] {
  return hasBadLinks ? Array.from({ length: count }, (_, index) => BadLink.farAddress(index)) : [];
}

/**
 * Opens a link to the port of a centre.
 * @param index - number of the link in this process
 * @param directory - directory for the socket of the link
 */
export async function openLink(port: number, index: number, directory: string): Promise<SiteLink> {
  if (hasBadLinks) return PacketLink.open(port, index, directory);
  const proxy = await TcpProxy.start(port);
  return {
    centre: `https://127.0.0.1:${proxy.port}`,
    text: 'TCP proxy',
    cut: () => proxy.close(),
    mend: () => proxy.resume(),
    close: async () => proxy.close(),
  };
}

/** Link that transfers packets. The site's own TCP connections cross it. */
class PacketLink implements SiteLink {
  readonly text = '50 kbit/s, 1 s one way, 5 % loss';
  readonly centre: string;
  readonly #link: BadLink;
  readonly #relay: ChildProcess;
  readonly #server: Server;

  private constructor(centre: string, link: BadLink, process: ChildProcess, server: Server) {
    this.centre = centre;
    this.#link = link;
    this.#relay = process;
    this.#server = server;
  }

  static async open(port: number, index: number, directory: string): Promise<PacketLink> {
    const link = await BadLink.start(index + 1, index);
    const socket = path.join(directory, `link-${index}`);
    const server = createServer((far) => {
      const centre = connect(port, '127.0.0.1');
      for (const each of [far, centre]) each.on('error', () => {});
      far.pipe(centre).pipe(far);
      far.on('close', () => centre.destroy());
      centre.on('close', () => far.destroy());
    });
    await once(server.listen(socket), 'listening');
    const host = BadLink.farAddress(index);
    const program = ['netns', 'exec', link.namespace, process.execPath, '-e', relay, socket, host];
    const started = spawn('ip', program, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [data] = await once(started.stdout, 'data');
    link.set(settings);
    return new PacketLink(`https://${host}:${Number(String(data))}`, link, started, server);
  }

  cut(): void {
    this.#link.cut();
  }

  mend(): void {
    this.#link.mend();
  }

  async close(): Promise<void> {
    this.#relay.kill();
    this.#server.close();
    this.#link.close();
  }
}

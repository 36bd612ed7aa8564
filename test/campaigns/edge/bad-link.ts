/** A slow, lossy link that can be cut, between this network namespace and another one. Needs root. */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { hasNamespaces } from '../../helpers/network-namespace.ts';

export interface LinkSettings {
  /** Bits in a second, in each direction. */
  readonly rate: number;
  /** Delay one way, in seconds. */
  readonly delay: number;
  /** Part of the packets that are lost. */
  readonly loss: number;
}

export interface LinkFigures {
  readonly sent: number;
  readonly bytes: number;
  readonly lost: number;
  readonly overflow: number;
  readonly cut: number;
}

/** Network of the link. Its first address is in this namespace, and its second one in the other. */
const network = `10.231.${process.pid % 256}`;

const program = fileURLToPath(new URL('./link-tun.py', import.meta.url));

/** Whether this machine can create the link. */
export const hasBadLinks: boolean = hasNamespaces && existsSync('/dev/net/tun');

export class BadLink {
  readonly namespace: string;
  /** Address of this side. */
  readonly address = `${network}.1`;
  readonly #process: ChildProcess;
  #onFigures: (figures: LinkFigures) => void = () => {};

  private constructor(namespace: string, process: ChildProcess) {
    this.namespace = namespace;
    this.#process = process;
  }

  /** Creates the namespace and the link. The link is fast at first. */
  static async start(seed: number): Promise<BadLink> {
    const namespace = `sblink${process.pid}`;
    const started = spawn(
      'python3',
      [program, namespace, '--net', network, '--seed', String(seed), '--rate', '100000000'].concat([
        '--delay',
        '0',
        '--loss',
        '0',
      ]),
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    const link = new BadLink(namespace, started);
    await new Promise<void>((resolve, reject) => {
      started.once('exit', () => reject(new Error('the link has ended')));
      started.stdout.on('data', (data: Buffer) => {
        for (const line of data.toString('utf8').split('\n')) {
          if (line === 'ready') resolve();
          if (line.startsWith('{')) link.#onFigures(JSON.parse(line));
        }
      });
    });
    useCubic(namespace);
    return link;
  }

  set({ rate, delay, loss }: LinkSettings): void {
    this.#command(`rate ${rate}`);
    this.#command(`delay ${delay}`);
    this.#command(`loss ${loss}`);
  }

  /** Loses all packets, without a notice to either side. */
  cut(): void {
    this.#command('down');
  }

  mend(): void {
    this.#command('up');
  }

  figures(): Promise<LinkFigures> {
    return new Promise((resolve) => {
      this.#onFigures = resolve;
      this.#command('stats');
    });
  }

  /** Removes the link and the namespace. */
  close(): void {
    this.#process.removeAllListeners('exit');
    this.#process.kill();
    try {
      execFileSync('ip', ['netns', 'del', this.namespace], { stdio: 'ignore' });
    } catch {
      // The namespace was removed.
    }
  }

  #command(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }
}

/** Uses the congestion control that most sites have. */
function useCubic(namespace: string): void {
  const sysctl = 'net.ipv4.tcp_congestion_control=cubic';
  try {
    execFileSync('ip', ['netns', 'exec', namespace, 'sysctl', '-w', sysctl], { stdio: 'ignore' });
  } catch {
    // The system does not permit it. Its own one applies.
  }
}

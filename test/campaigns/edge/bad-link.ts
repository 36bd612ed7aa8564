/** A slow, lossy link that can be cut, between this network namespace and another one. Needs root. */

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
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

/**
 * Returns the network of a link. Its first address is in this namespace, and its second one in the
 * other.
 * @param index - number of the link in this process
 */
function networkOf(index: number): string {
  return `10.231.${(process.pid * 4 + index) % 256}`;
}

const program = fileURLToPath(new URL('./link-tun.py', import.meta.url));

/** Whether this process can create the link. It may lack rights, `/dev/net/tun` or Python. */
export const hasBadLinks: boolean =
  hasNamespaces && spawnSync('python3', [program, '--check', 'none']).status === 0;

export class BadLink {
  readonly namespace: string;
  /** Address of this side. */
  readonly address: string;
  readonly #process: ChildProcess;
  #onFigures: (figures: LinkFigures) => void = () => {};

  private constructor(namespace: string, index: number, process: ChildProcess) {
    this.namespace = namespace;
    this.address = `${networkOf(index)}.1`;
    this.#process = process;
  }

  /** Returns the address in the namespace of a link. */
  static farAddress(index: number): string {
    return `${networkOf(index)}.2`;
  }

  /**
   * Creates the namespace and the link. The link is fast at first.
   * @param index - number of the link in this process, from 0 to 3
   */
  static async start(seed: number, index = 0): Promise<BadLink> {
    // The names of the devices contain the first twelve characters.
    const namespace = `sbl${process.pid}n${index}`;
    const started = spawn(
      'python3',
      [
        program,
        namespace,
        '--net',
        networkOf(index),
        '--seed',
        String(seed),
        '--rate',
        '100000000',
      ].concat(['--delay', '0', '--loss', '0']),
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    const link = new BadLink(namespace, index, started);
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

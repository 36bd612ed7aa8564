/**
 * Starts real, unmodified salt-minions. Each has its own folder below the system's temporary
 * directory.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { within } from '../helpers/deadline.ts';
import { ProcessGroup } from './process-group.ts';
import { versionOf } from './program-version.ts';
import { inThrowawayRoot } from './throwaway-root.ts';

/** Ports of the master for minions. */
export interface MasterPorts {
  readonly requestPort: number;
  readonly publishPort: number;
}

/** Options of a real minion. */
export interface RealMinionOptions extends MasterPorts {
  readonly program: string;
  /** First part of its id, which is followed by a hyphen and the version. Default: `salt`. */
  readonly name?: string;
  /** Grains of its configuration, as YAML. Default: `{role: interop}`. */
  readonly grains?: string;
  /** Addresses of its masters. Default: only 127.0.0.1. */
  readonly masters?: readonly string[];
  /** Whether the program is `salt-proxy`. */
  readonly isProxy?: true;
  /** Further lines of its configuration, as YAML. */
  readonly extra?: string;
  /** Whether it runs in a temporary root. Only its own folder survives. */
  readonly isThrownAway?: true;
  /** Process 1 of that root. Default: the program itself. */
  readonly init?: 'systemd';
  /** Network namespace in which it runs. */
  readonly namespace?: string;
}

/** A real minion: its folder, and its process while it is running. */
export class RealMinion {
  readonly id: string;
  readonly version: string;
  readonly directory: string;
  readonly #program: string;
  readonly #isProxy: boolean;
  readonly #isThrownAway: boolean;
  readonly #init: 'systemd' | undefined;
  readonly #namespace: string | undefined;
  #group: ProcessGroup | undefined;

  private constructor(options: RealMinionOptions, version: string) {
    this.#program = options.program;
    this.#isProxy = options.isProxy ?? false;
    this.#isThrownAway = options.isThrownAway ?? false;
    this.#init = options.init;
    this.#namespace = options.namespace;
    this.version = version;
    this.id = `${options.name ?? 'salt'}-${version}`;
    // The path is short, because the paths of its sockets have a limited length.
    this.directory = mkdtempSync(path.join(tmpdir(), 'm-'));
    mkdirSync(path.join(this.directory, 'etc'));
    mkdirSync(path.join(this.directory, 's'));
    const file = this.#isProxy ? 'proxy' : 'minion';
    writeFileSync(path.join(this.directory, 'etc', file), this.#configuration(options));
  }

  static async create(options: RealMinionOptions): Promise<RealMinion> {
    return new RealMinion(options, await versionOf(options.program));
  }

  start(): void {
    const etc = path.join(this.directory, 'etc');
    const more = this.#isProxy ? [`--proxyid=${this.id}`] : [];
    const plain = [this.#program, '-c', etc, '-l', 'quiet', ...more];
    const within = this.#namespace === undefined ? [] : ['ip', 'netns', 'exec', this.#namespace];
    const command = [...within, ...plain];
    const [program = '', ...args] = this.#isThrownAway
      ? inThrowawayRoot(this.directory, command, this.#init)
      : command;
    this.#group = new ProcessGroup(program, args);
  }

  /** Returns the exit code when the process has ended by itself. */
  async exited(ms: number): Promise<number | null> {
    if (this.#group === undefined) throw new Error(`${this.id} was not started`);
    return within(`the end of ${this.id}'s process`, this.#group.exited, ms);
  }

  /** Kills the process and all processes that it started. */
  async kill(): Promise<void> {
    await this.#group?.kill();
    this.#group = undefined;
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Returns the output of `salt-call` on this minion. */
  async saltCall(...args: readonly string[]): Promise<string> {
    const program = path.join(path.dirname(this.#program), 'salt-call');
    const command = ['-c', path.join(this.directory, 'etc'), '--out=txt', ...args];
    return (await promisify(execFile)(program, command)).stdout;
  }

  /** Log of the minion so far. */
  get log(): string {
    const log = path.join(this.directory, 'log');
    return existsSync(log) ? readFileSync(log, 'utf8') : '';
  }

  /** Returns the id of the minion and the end of its log, for error messages. */
  describe(): string {
    const lines = this.log.trimEnd().split('\n').slice(-25);
    return [`${this.id}, salt-minion ${this.version}; its log ends:`, ...lines].join('\n');
  }

  #configuration(options: RealMinionOptions): string {
    const { requestPort, publishPort, masters = ['127.0.0.1'], grains, extra = '' } = options;
    return `id: ${this.id}
master: ${masters.length > 1 ? `[${masters.join(', ')}]` : masters.join()}
master_port: ${requestPort}
publish_port: ${publishPort}
user: root
root_dir: ${this.directory}
pki_dir: ${this.directory}/pki
cachedir: ${this.directory}/cache
sock_dir: ${this.directory}/s
pidfile: ${this.directory}/minion.pid
log_file: ${this.directory}/log
log_level_logfile: info
acceptance_wait_time: 2
random_reauth_delay: 1
recon_default: 100
recon_max: 1000
recon_randomize: False
enable_fqdns_grains: False
enable_gpu_grains: False
grains: ${grains ?? '{role: interop}'}
${extra}
`;
  }
}

/** Starts real, unmodified salt-minions, each in a folder of its own below the system's temporary. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { within } from '../helpers/deadline.ts';
import { ProcessGroup } from './process-group.ts';
import { versionOf } from './program-version.ts';
import { inThrowawayRoot } from './throwaway-root.ts';

/** Where minions find their master. */
export interface MasterPorts {
  readonly requestPort: number;
  readonly publishPort: number;
}

/** A real minion to be. */
export interface RealMinionOptions extends MasterPorts {
  readonly program: string;
  /** Its id is this, a hyphen, and its version. Default `salt`. */
  readonly name?: string;
  /** Its own grains, YAML. Default `{role: interop}`. */
  readonly grains?: string;
  /** Addresses of its masters. Default: one, on 127.0.0.1. */
  readonly masters?: readonly string[];
  /** The program is `salt-proxy`. */
  readonly isProxy?: true;
  /** More lines of its configuration, YAML. */
  readonly extra?: string;
  /** It runs in a root of its own, of which only its folder stays. */
  readonly isThrownAway?: true;
  /** Process 1 of that root. Default: the program. */
  readonly init?: 'systemd';
  /** The network namespace that it runs in. */
  readonly namespace?: string;
}

/** One real minion: its folder, and its process while it runs. */
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
    // Short: the paths of its sockets are bounded.
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

  /** The exit code, once the process has ended by itself. */
  async exited(ms: number): Promise<number | null> {
    if (this.#group === undefined) throw new Error(`${this.id} was not started`);
    return within(`the end of ${this.id}'s process`, this.#group.exited, ms);
  }

  /** Ends the process and all it started, at once. */
  async kill(): Promise<void> {
    await this.#group?.kill();
    this.#group = undefined;
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** What `salt-call` prints on this minion's host, as text. */
  async saltCall(...args: readonly string[]): Promise<string> {
    const program = path.join(path.dirname(this.#program), 'salt-call');
    const command = ['-c', path.join(this.directory, 'etc'), '--out=txt', ...args];
    return (await promisify(execFile)(program, command)).stdout;
  }

  /** Its log until now. */
  get log(): string {
    const log = path.join(this.directory, 'log');
    return existsSync(log) ? readFileSync(log, 'utf8') : '';
  }

  /** Who it is and the end of its log, for the message of a failing step. */
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

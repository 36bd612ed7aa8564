/**
 * Starts real, unmodified salt-minions named by the environment: `SALT_MINION` is a list, separated
 * by commas, of paths to `salt-minion` programs. Each gets a folder of its own under the system's
 * temporary one.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** The programs to test against; empty where none is named. */
export const minionPrograms: readonly string[] = (process.env.SALT_MINION ?? '')
  .split(',')
  .map((program) => program.trim())
  .filter((program) => program !== '');

/** `3006.16`, as the program says itself. */
export function versionOf(program: string): string {
  const text = execFileSync(program, ['--version'], { encoding: 'utf8' });
  return /\d+(\.\d+)*/.exec(text)?.[0] ?? 'unknown';
}

/** Where the minion finds its master, and what else is in its configuration. */
export interface RealMinionOptions {
  readonly program: string;
  readonly id: string;
  readonly requestPort: number;
  readonly publishPort: number;
  /** More lines of its configuration, YAML. */
  readonly extra?: string;
}

/** One real minion's process. */
export class RealMinion {
  readonly id: string;
  readonly directory: string;
  readonly #options: RealMinionOptions;
  #process: ChildProcess | undefined;

  constructor(options: RealMinionOptions) {
    this.id = options.id;
    this.#options = options;
    // Short: the paths of its sockets are bounded.
    this.directory = mkdtempSync(path.join(tmpdir(), 'm-'));
    mkdirSync(path.join(this.directory, 'etc'));
    mkdirSync(path.join(this.directory, 's'));
    this.configure(options.requestPort, options.publishPort);
  }

  get pkiDir(): string {
    return path.join(this.directory, 'pki');
  }

  /** Writes the configuration; a running minion does not notice. */
  configure(requestPort: number, publishPort: number): void {
    writeFileSync(
      path.join(this.directory, 'etc', 'minion'),
      `id: ${this.#options.id}
master: 127.0.0.1
master_port: ${requestPort}
publish_port: ${publishPort}
user: root
root_dir: ${this.directory}
pki_dir: ${this.pkiDir}
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
grains: {role: interop}
${this.#options.extra ?? ''}
`,
    );
  }

  start(): void {
    this.#process = spawn(
      this.#options.program,
      ['-c', path.join(this.directory, 'etc'), '-l', 'quiet'],
      { detached: true, stdio: 'ignore' },
    );
  }

  /** The exit code, once the process has ended. */
  exited(): Promise<number | null> {
    const child = this.#process;
    if (child === undefined) return Promise.resolve(null);
    if (child.exitCode !== null) return Promise.resolve(child.exitCode);
    return new Promise((resolve) => child.once('exit', (code) => resolve(code)));
  }

  /** Ends the process and all it started, at once. */
  async kill(): Promise<void> {
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    const exited = this.exited();
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
    }
    await exited;
    this.#process = undefined;
  }

  log(): string {
    return readFileSync(path.join(this.directory, 'log'), 'utf8');
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

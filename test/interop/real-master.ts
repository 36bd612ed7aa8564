import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { until, within } from '../helpers/deadline.ts';
import { ProcessGroup } from './process-group.ts';
import type { MasterPorts } from './real-minion.ts';

/** Salt's own master, with a configuration directory that our master can read unchanged. */
export class RealMaster {
  readonly directory: string = mkdtempSync(path.join(tmpdir(), 'M-'));
  readonly #program: string;
  #group: ProcessGroup | undefined;

  /**
   * Creates a master.
   * @param program - path of `salt-master`; `salt` and `salt-key` are in the same directory
   * @param mainFile - text of the main configuration file; `master.d` adds the options that tests
   * need
   */
  constructor(program: string, { requestPort, publishPort }: MasterPorts, mainFile = '') {
    this.#program = program;
    mkdirSync(path.join(this.directory, 's'));
    mkdirSync(path.join(this.configDirectory, 'master.d'), { recursive: true });
    writeFileSync(path.join(this.configDirectory, 'master'), mainFile);
    writeFileSync(
      path.join(this.configDirectory, 'master.d', 'interop.conf'),
      `interface: 127.0.0.1
publish_port: ${publishPort}
ret_port: ${requestPort}
user: root
root_dir: ${this.directory}
pki_dir: ${this.directory}/pki
cachedir: ${this.directory}/cache
sock_dir: ${this.directory}/s
pidfile: ${this.directory}/master.pid
log_file: ${this.directory}/log
worker_threads: 2
timeout: 5
`,
    );
  }

  get configDirectory(): string {
    return path.join(this.directory, 'etc');
  }

  /** Returns all key files in `pki_dir`, by their path there. */
  keyFiles(): ReadonlyMap<string, string> {
    const pki = path.join(this.directory, 'pki');
    const names = readdirSync(pki, { recursive: true, encoding: 'utf8' }).sort();
    const isKey = (name: string): boolean => /^(minions[a-z_]*\/.+|master\.(pem|pub))$/.test(name);
    return new Map(
      names.filter(isKey).map((name) => [name, readFileSync(path.join(pki, name), 'utf8')]),
    );
  }

  start(): void {
    const args = ['-c', this.configDirectory, '-l', 'quiet'];
    this.#group = new ProcessGroup(this.#program, args);
  }

  /**
   * Stops the master like a service manager: by SIGTERM, and by SIGKILL for processes that remain.
   */
  async stop(): Promise<void> {
    if (this.#group === undefined) return;
    this.#group.terminate();
    await within("the end of salt-master's process", this.#group.exited);
    await this.kill();
  }

  async kill(): Promise<void> {
    await this.#group?.kill();
    this.#group = undefined;
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Accepts a key with `salt-key` when it is pending. */
  async accept(id: string): Promise<void> {
    const pending = path.join(this.directory, 'pki', 'minions_pre');
    await until(`${id} to be pending`, () => contains(pending, id));
    await this.#run('salt-key', ['-y', '-a', id]);
  }

  /**
   * Runs `salt` until the minion answers. The minion subscribes some time after its key is
   * accepted.
   */
  async ping(id: string, attempts = 12): Promise<void> {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const answer = await this.#run('salt', ['--out=txt', id, 'test.ping']);
      if (answer.includes(`${id}: True`)) return;
    }
    throw new Error(`${id} did not answer salt's test.ping in ${attempts} attempts`);
  }

  /** Returns the output of a tool. Its exit code only reports whether minions answered. */
  async #run(tool: string, args: readonly string[]): Promise<string> {
    const program = path.join(path.dirname(this.#program), tool);
    const command = ['-c', this.configDirectory, ...args];
    return promisify(execFile)(program, command).then(
      ({ stdout }) => stdout,
      (error: { stdout?: string }) => error.stdout ?? '',
    );
  }
}

function contains(directory: string, name: string): boolean {
  try {
    return readdirSync(directory).includes(name);
  } catch {
    return false;
  }
}

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { until, within } from '../helpers/deadline.ts';
import { ProcessGroup } from './process-group.ts';
import type { MasterPorts } from './real-minion.ts';

/** Salt's own master, with a configuration directory that ours can read as it is. */
export class RealMaster {
  readonly directory: string = mkdtempSync(path.join(tmpdir(), 'M-'));
  readonly #program: string;
  #group: ProcessGroup | undefined;

  /**
   * @param program `salt-master`; `salt` and `salt-key` are taken from beside it
   * @param mainFile text of its main configuration file, to which `master.d` adds what tests need
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

  /** Every key file of `pki_dir`, by its path there. */
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

  /** As a service manager does: SIGTERM, and SIGKILL for what is left of it. */
  async stop(): Promise<void> {
    if (this.#group === undefined) return;
    this.#group.terminate();
    await within("the end of salt-master's process", this.#group.exited, 60_000);
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

  /** Accepts a key with `salt-key`, once it is pending. */
  async accept(id: string): Promise<void> {
    const pending = path.join(this.directory, 'pki', 'minions_pre');
    await until(`${id} to be pending`, () => contains(pending, id), 90_000);
    await this.#run('salt-key', ['-y', '-a', id]);
  }

  /** Asks with `salt` until the minion answers: it subscribes some time after it is accepted. */
  async ping(id: string, attempts = 12): Promise<void> {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const answer = await this.#run('salt', ['--out=txt', id, 'test.ping']);
      if (answer.includes(`${id}: True`)) return;
    }
    throw new Error(`${id} did not answer salt's test.ping in ${attempts} attempts`);
  }

  /** What a tool prints; its exit code says only whether minions answered. */
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

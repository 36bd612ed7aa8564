/** Simulates a machine that boots with user-data. The user-data is executed in a folder. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import type { MinionConfig } from '#heat-bridge';
import { minionConfigIn, serviceScriptFor } from './minion-folder.ts';

const run = promisify(execFile);

interface WrittenFile {
  readonly path: string;
  readonly content: string;
}

export class Machine {
  readonly folder: string;
  readonly #guard: ChildProcess;

  /**
   * Creates the folder. The minion is one of the programs in `SALT_MINION`.
   * @param pidFiles - pid files of further processes to end with the machine, as shell patterns
   * relative to the folder
   * @param number - number of the machine. Machines use the programs in `SALT_MINION` in turn.
   * Default: 0
   */
  constructor(pidFiles: string, number = 0) {
    const programs = (process.env.SALT_MINION ?? '').split(',');
    // The path is short, because the length of the paths of a minion's sockets is limited.
    this.folder = mkdtempSync(path.join(tmpdir(), 't-'));
    mkdirSync(path.join(this.folder, 'bin'));
    this.#program('salt-minion', `exec ${programs[number % programs.length]} "$@"`);
    this.#program('systemctl', 'exit 0');
    this.#program('service', serviceScriptFor(this.folder));
    // When this process ends, for any reason, the pipe closes and the script kills the machine's
    // processes.
    const ends = `cat >/dev/null
      kill -KILL "-$(cat ${this.folder}/pid)"
      for file in ${this.folder}/${pidFiles}; do kill -KILL "$(cat "$file")"; done`;
    this.#guard = spawn('sh', ['-c', ends], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
  }

  get configDir(): string {
    return path.join(this.folder, 'salt');
  }

  /** Options of the minion. With them, all its files are below the folder. */
  get config(): MinionConfig {
    return { ...minionConfigIn(this.folder), log_level_logfile: 'debug' };
  }

  /**
   * Processes user-data as cloud-init does. It is a MIME message with cloud-config and a script.
   */
  async boot(userData: string): Promise<void> {
    const { configs, scripts } = await readUserData(userData);
    for (const { write_files: files = [] } of configs) {
      for (const { path: name, content } of files) this.#write(name, content);
    }
    for (const [index, script] of scripts.entries()) {
      const file = this.#write(
        `/user-data-${index}`,
        Buffer.from(script).toString('base64'),
        0o700,
      );
      const env = { ...process.env, PATH: `${this.folder}/bin:${process.env.PATH ?? ''}` };
      await run(file, [], { env });
    }
  }

  /** Returns the content of a file that the user-data has written. */
  read(name: string): string {
    return readFileSync(path.join(this.folder, name), 'utf8');
  }

  /** Log of the minion. */
  get log(): string {
    const file = path.join(this.folder, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8').slice(-2000) : '';
  }

  async close(): Promise<void> {
    const end = once(this.#guard, 'exit');
    this.#guard.stdin?.end();
    await end;
    rmSync(this.folder, { recursive: true, force: true });
  }

  #write(name: string, base64: string, mode = 0o600): string {
    const file = path.join(this.folder, path.normalize(`/${name}`));
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, Buffer.from(base64, 'base64'), { mode });
    return file;
  }

  #program(name: string, script: string): void {
    const file = path.join(this.folder, 'bin', name);
    writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
}

interface CloudConfig {
  readonly write_files?: readonly WrittenFile[];
  readonly salt_minion?: { readonly conf: MinionConfig };
}

/** Returns the parts of a MIME message. It uses Python's module for MIME messages. */
export async function readUserData(
  userData: string,
): Promise<{ readonly configs: readonly CloudConfig[]; readonly scripts: readonly string[] }> {
  const program = `import email, json, sys
parts = [it for it in email.message_from_string(sys.stdin.read()).walk() if not it.is_multipart()]
print(json.dumps([it.get_payload(decode=True).decode() for it in parts]))`;
  const reading = run('python3', ['-c', program]);
  reading.child.stdin?.end(userData);
  const parts: readonly string[] = JSON.parse((await reading).stdout);
  return {
    configs: parts.filter((it) => it.startsWith('#cloud-config')).map((it) => parse(it)),
    scripts: parts.filter((it) => it.startsWith('#!')),
  };
}

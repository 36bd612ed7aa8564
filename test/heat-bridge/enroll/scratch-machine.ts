/** A machine to be: a folder with a service manager of its own, in which user-data is run. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MinionConfig } from '#heat-bridge';
import { minionConfigIn, serviceScriptFor } from '../../../examples/minion-folder.ts';

/** What became of a run of user-data. */
export interface Outcome {
  readonly status: number;
  readonly output: string;
}

const cloudInit = fileURLToPath(
  new URL('../../../test/fixtures/cloud-init/machine.py', import.meta.url),
);

export class ScratchMachine {
  readonly folder: string;

  /**
   * @param salt the minion's program; a text of a shell script, or the path of one that is there
   * @param more scripts that stand in the way of the system's programs, by name
   */
  constructor(salt: { readonly script: string } | { readonly path: string }, more: object = {}) {
    // Short: the paths of a minion's sockets are bounded.
    this.folder = mkdtempSync(path.join(tmpdir(), 'e-'));
    mkdirSync(path.join(this.folder, 'bin'));
    const minion = 'path' in salt ? `exec ${salt.path} "$@"` : salt.script;
    const programs = {
      'salt-minion': minion,
      service: serviceScriptFor(this.folder),
      systemctl: 'echo "systemd 252"; echo +PAM',
      ...more,
    };
    for (const [name, script] of Object.entries(programs)) {
      const file = path.join(this.folder, 'bin', name);
      writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
  }

  get configDir(): string {
    return path.join(this.folder, 'salt');
  }

  /** Keeps a minion below the folder. */
  get config(): MinionConfig {
    return minionConfigIn(this.folder);
  }

  /** Runs it as a script. */
  runShell(userData: string): Promise<Outcome> {
    const file = path.join(this.folder, 'user-data');
    writeFileSync(file, userData, { mode: 0o700 });
    return this.#run(file, [], '');
  }

  /** Gives it to cloud-init's own code. */
  runCloudInit(userData: string): Promise<Outcome> {
    return this.#run('/usr/bin/python3', [cloudInit, path.join(this.folder, 'cloud')], userData);
  }

  /** What the minion last logged. */
  get log(): string {
    const file = path.join(this.folder, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8').slice(-3000) : '';
  }

  /** Ends the minion and all that it started. */
  dispose(): void {
    const file = path.join(this.folder, 'pid');
    if (existsSync(file)) {
      try {
        process.kill(-Number(readFileSync(file, 'utf8')), 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  #run(program: string, args: readonly string[], input: string): Promise<Outcome> {
    const env = { ...process.env, PATH: `${this.folder}/bin:${process.env.PATH ?? ''}` };
    return new Promise((resolve) => {
      const child = execFile(program, args, { env }, (error, stdout, stderr) => {
        const status = error === null ? 0 : Number(error.code ?? 1);
        resolve({ status, output: `${stdout}${stderr}` });
      });
      child.stdin?.end(input);
    });
  }
}

/** A simulated machine: a folder with its own service manager in which user-data is run. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MinionConfig } from '#heat-bridge';
import { minionConfigIn, serviceScriptFor } from '../../../examples/minion-folder.ts';

/** Result of running user-data. */
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
   * Creates a machine.
   * @param salt - program of the minion: the text of a shell script, or the path of an existing
   * program
   * @param more - scripts that replace programs of the system, by name
   */
  constructor(salt: { readonly script: string } | { readonly path: string }, more: object = {}) {
    // The path is short, because the paths of the minion's sockets have a limited length.
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

  /** Configuration with which a minion keeps its files below the folder. */
  get config(): MinionConfig {
    return minionConfigIn(this.folder);
  }

  /** Runs user-data as a shell script. */
  runShell(userData: string): Promise<Outcome> {
    const file = path.join(this.folder, 'user-data');
    writeFileSync(file, userData);
    // A file that was just written cannot always be executed: another thread may have started a
    // process that still has it open for writing.
    const [, shell = ''] = /^#!(\S+)\n/.exec(userData) ?? [];
    return this.#run(shell, [file], '');
  }

  /** Runs user-data with cloud-init's own code. */
  runCloudInit(userData: string): Promise<Outcome> {
    return this.#run('/usr/bin/python3', [cloudInit, path.join(this.folder, 'cloud')], userData);
  }

  /** The log of the minion. */
  get log(): string {
    const file = path.join(this.folder, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8').slice(-3000) : '';
  }

  /** Ends the minion and all processes that it started. */
  dispose(): void {
    const file = path.join(this.folder, 'pid');
    if (existsSync(file)) {
      try {
        process.kill(-Number(readFileSync(file, 'utf8')), 'SIGKILL');
      } catch {
        // The process has already ended.
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

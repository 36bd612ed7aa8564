/** Runs the `saltbridge` command with a running master, like an operator. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MasterHome } from './our-master.ts';

const program = fileURLToPath(new URL('../../bin/saltbridge', import.meta.url));

/** Output and exit code of a command. */
export interface CommandOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs commands for one master. */
export class CommandLine {
  readonly #directory: string;

  /** Writes a configuration with which commands find the master. */
  constructor({ directory, options }: MasterHome) {
    this.#directory = directory;
    const configuration = { root_dir: '/', sock_dir: options.sockDir };
    writeFileSync(path.join(directory, 'master'), JSON.stringify(configuration));
  }

  /** Runs `saltbridge <command> -c <directory> …`. */
  run(command: readonly string[], ...args: readonly string[]): Promise<CommandOutcome> {
    const words = [program, ...command, '-c', this.#directory, ...args];
    return new Promise((resolve) => {
      execFile(process.execPath, words, (error, stdout, stderr) => {
        const code = error === null ? 0 : Number(error.code ?? -1);
        resolve({ code, stdout, stderr });
      });
    });
  }

  /** Runs `saltbridge salt`. */
  salt(...args: readonly string[]): Promise<CommandOutcome> {
    return this.run(['salt'], ...args);
  }

  /** Returns the sorted ids of minions that answered `test.ping` with `True`. */
  async ping(...target: readonly string[]): Promise<string[]> {
    const { stdout } = await this.salt('--out', 'txt', ...target, 'test.ping');
    return [...stdout.matchAll(/^(\S+): True$/gm)].map(([, id = '']) => id).sort();
  }
}

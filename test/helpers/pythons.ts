/** Finds the Python interpreters of this machine. */

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

export interface Python {
  readonly program: string;
  /** Version, for example `3.11`. */
  readonly version: string;
}

const question = 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2])';

/**
 * Returns one interpreter for each version from 3.9 to 3.13 that can create virtual environments.
 * `python3` is the first, followed by those in PATH and of pyenv.
 */
export function findPythons(): readonly Python[] {
  const minors = [9, 10, 11, 12, 13].map((minor) => `3.${minor}`);
  const pyenv = path.join(process.env.PYENV_ROOT ?? path.join(homedir(), '.pyenv'), 'versions');
  const ofPyenv = existsSync(pyenv) ? readdirSync(pyenv) : [];
  const programs = [
    'python3',
    ...minors.map((version) => `python${version}`),
    ...ofPyenv
      .filter((name) => minors.includes(name.replace(/\.\d+$/, '')))
      .map((name) => path.join(pyenv, name, 'bin/python3')),
  ];
  const found = new Map<string, string>();
  for (const program of programs) {
    const { status, stdout } = spawnSync(program, ['-c', question], { encoding: 'utf8' });
    const version = stdout?.trim() ?? '';
    if (status === 0 && minors.includes(version) && !found.has(version)) {
      found.set(version, program);
    }
  }
  return Array.from(found, ([version, program]) => ({ program, version }));
}

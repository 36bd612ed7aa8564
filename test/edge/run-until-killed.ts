/** Runs a program that may kill itself at a step. */

import { spawn } from 'node:child_process';

/**
 * Runs a program of Node.js. Resolves with its standard output when it has ended or was killed.
 * Rejects with its standard error if it failed.
 */
export function runUntilKilled(program: string, words: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const started = spawn(process.execPath, [program, ...words]);
    let output = '';
    let errors = '';
    started.stdout.on('data', (data) => (output += data));
    started.stderr.on('data', (data) => (errors += data));
    started.on('close', (code, signal) => {
      if (code === 0 || signal === 'SIGKILL') resolve(output);
      else reject(new Error(errors));
    });
  });
}

/** Runs a program for a short time, without shell and environment. */

import { spawn } from 'node:child_process';

/** What became of it. */
export interface ProgramOutcome {
  /** `null`: it was ended. */
  readonly code: number | null;
  readonly output: string;
}

const maxOutput = 65_536;

/**
 * Runs it to its end, or until the signal fires. It is in the list of processes: secrets go to its
 * standard input, never among its words.
 * @throws Error with the code ENOENT when there is none
 */
export function runProgram(
  program: string,
  words: readonly string[],
  { input = '', signal }: { readonly input?: string; readonly signal: AbortSignal },
): Promise<ProgramOutcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { PATH: searchPath, LC_ALL: 'C' },
      signal,
      killSignal: 'SIGKILL',
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (output.length < maxOutput) output += text;
    });
    child.once('error', (error) => {
      // Not a failure of ours: it had its time.
      if (error.name === 'AbortError') resolve({ code: null, output });
      else reject(error);
    });
    child.once('close', (code) => resolve({ code, output }));
    // It may end without reading.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

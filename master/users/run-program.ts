import { spawn } from 'node:child_process';

/** Result of running a program. */
export interface ProgramOutcome {
  /** Exit code, or `null` if the program was killed. */
  readonly code: number | null;
  readonly output: string;
}

const maxOutput = 65_536;

/**
 * Runs a program without a shell, until it ends or the signal is aborted. Its only environment
 * variables are `PATH` and `LC_ALL`. The arguments are visible in the process list, so secrets must
 * go to standard input.
 * @param words - arguments
 * @throws Error with the code ENOENT if the program does not exist
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
      // After a timeout, the result is reported as usual, without an error.
      if (error.name === 'AbortError') resolve({ code: null, output });
      else reject(error);
    });
    child.once('close', (code) => resolve({ code, output }));
    // The program may end before it has read its whole input. That is not an error.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

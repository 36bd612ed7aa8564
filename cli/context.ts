import { readFile } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { CommandError } from './errors.ts';
import type { LocalMaster } from './local-master.ts';
import type { LoginContext } from './login.ts';
import type { StandardInput } from './standard-input.ts';

/** Stream that may be a terminal. */
export type OutputStream = Writable & { readonly isTTY?: boolean };

/** Environment of commands: streams, input and access to the master. Tests can replace it. */
export interface CommandContext extends LocalMaster, LoginContext {
  readonly stdout: OutputStream;
  /** Stream for messages, questions and progress. Results are never written to it. */
  readonly stderr: OutputStream;
  /** Standard input, which may be a terminal, a pipe or a file. */
  readonly input: Pick<StandardInput, 'readAll' | 'readLine'>;
  /** Returns a signal that is aborted when the user presses Ctrl-C. */
  readonly interruption: () => AbortSignal;
  /** Sets the exit code of a command that succeeds. Default: 0. */
  readonly setExitCode: (code: number) => void;
}

/**
 * Reads the file that an argument names. `-` means standard input.
 * @throws CommandError ERR_ARGS if it cannot be read
 */
export async function readFileOrStandardInput(
  file: string,
  { input }: Pick<CommandContext, 'input'>,
): Promise<string> {
  return file === '-' ? input.readAll() : readTextFile(file);
}

/**
 * Reads the file that an argument names.
 * @throws CommandError ERR_ARGS if it cannot be read
 */
async function readTextFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new CommandError('ERR_ARGS', `the file ${file} cannot be read`, { cause });
  }
}

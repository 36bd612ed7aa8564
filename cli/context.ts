import { readFile } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { CommandError } from './errors.ts';
import type { LocalMaster } from './local-master.ts';
import type { LoginContext } from './login.ts';
import type { StandardInput } from './standard-input.ts';

/** A stream that may be a terminal. */
export type OutputStream = Writable & { readonly isTTY?: boolean };

/** What a command is given: streams, input, access to the master; tests give another one. */
export interface CommandContext extends LocalMaster, LoginContext {
  readonly stdout: OutputStream;
  /** For messages, questions and progress: never for what a command was asked for. */
  readonly stderr: OutputStream;
  /** Standard input, whatever it is. */
  readonly input: Pick<StandardInput, 'readAll' | 'readLine'>;
  /** Fires at the first Ctrl-C after the call. */
  readonly interruption: () => AbortSignal;
  /** What the process ends with if nothing fails. Default 0. */
  readonly setExitCode: (code: number) => void;
}

/**
 * A file that a command was given, or standard input where it is `-`.
 * @throws CommandError ERR_ARGS when it cannot be read
 */
export async function readFileOrStandardInput(
  file: string,
  { input }: Pick<CommandContext, 'input'>,
): Promise<string> {
  return file === '-' ? input.readAll() : readTextFile(file);
}

/** A file that a command was given. @throws CommandError ERR_ARGS when it cannot be read */
async function readTextFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new CommandError('ERR_ARGS', `${file} cannot be read`, { cause });
  }
}

import { readFile } from 'node:fs/promises';
import type { CommandContext } from './context.ts';
import { CommandError } from './errors.ts';

/**
 * A file that a command was given, or standard input where it is `-`.
 * @throws CommandError ERR_ARGS when it cannot be read
 */
export async function readInput(
  file: string,
  { input }: Pick<CommandContext, 'input'>,
): Promise<string> {
  return file === '-' ? input.readAll() : readText(file);
}

/** A file that a command was given. @throws CommandError ERR_ARGS when it cannot be read */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new CommandError('ERR_ARGS', `${file} cannot be read`, { cause });
  }
}

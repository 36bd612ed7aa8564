/**
 * Prints failures that Salt's commands treat as results. The messages are Salt's, and go to
 * standard output.
 */

import type { CommandContext } from '../context.ts';
import { errorCodeOf, exitCodes } from '../errors.ts';
import { LoginFailure } from '../login.ts';
import { chooseOutput, type OutputCommandOptions } from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { escapeLines, printLine } from '../terminal.ts';

/** Name of a command that saltbridge shares with Salt. */
type SaltCommand = 'salt' | 'salt-cp' | 'salt-key' | 'salt-run';

/**
 * Prints a failed login or an unknown nodegroup in the same way as Salt.
 * @returns the exit code. After a failed login, it is 77, although Salt's commands return 0 or 2
 * @throws every other error
 */
export async function printSaltFailure(
  error: unknown,
  command: SaltCommand,
  context: CommandContext,
  options: OutputCommandOptions & { readonly configDir: string },
): Promise<number> {
  const { stdout, stderr } = context;
  if (error instanceof LoginFailure && error.served !== undefined) {
    await printLine(stdout, escapeLines(formatUnavailableEauth(error.eauth, error.served)));
    await printLine(stderr, 'ERROR: Authentication failed');
    return exitCodes.notPermitted;
  }
  const { output, sink } = await chooseOutput(options, context);
  if (error instanceof LoginFailure) {
    const text =
      command === 'salt'
        ? 'Authentication error occurred.'
        : `Authentication failure of type "eauth" occurred for user ${error.username}.`;
    await sink.write(formatData(text, undefined, output));
    return exitCodes.notPermitted;
  }
  if (!(error instanceof Error) || errorCodeOf(error) !== 'ERR_NODEGROUP_UNKNOWN') throw error;
  const { confFile } = await context.commandDefaults(options.configDir);
  await sink.write(formatData(`${error.message} in ${confFile}`, undefined, output));
  return command === 'salt' ? exitCodes.ok : exitCodes.failure;
}

function formatUnavailableEauth(eauth: string, served: readonly string[]): string {
  return [
    `The specified external authentication system "${eauth}" is not available`,
    `Available eauth types: ${served.join(', ')}`,
  ].join('\n');
}

/** Builds the command line from the modules in `commands/`, and runs a command. */
import { stat } from 'node:fs/promises';
import { Command, CommanderError, Help } from 'commander';
import type { CommandContext } from './context.ts';
import { commandHints, errorCodeOf, exitCodeOf, exitCodes } from './errors.ts';
import { addSubcommands, usageOf } from './subcommands.ts';
import { escapeLine, escapeLines, printLine } from './terminal.ts';

/** Log levels at which errors are printed with their stack traces. */
const stackLevels: ReadonlySet<unknown> = new Set(['debug', 'trace', 'garbage', 'all']);

/** Width of the help in columns. It does not depend on the terminal. */
const helpWidth = 80;

/**
 * Returns the line about a command in the help of the program. The module of the command need not
 * be loaded.
 */
function subcommandTerm(command: Command): string {
  const isOfProgram = command.parent?.parent === null;
  if (!isOfProgram) return new Help().subcommandTerm(command);
  const usage = usageOf(command.name());
  return usage === undefined ? command.name() : `${command.name()} ${usage}`;
}

/** Builds the command line. Only the commands that `argv` names are loaded. */
async function createProgram(
  argv: readonly string[],
  context: CommandContext,
  version: string,
): Promise<Command> {
  const program = new Command('saltbridge')
    .description('A Salt-compatible master')
    .version(version)
    // A `-V` after the name of a subcommand belongs to the subcommand.
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('(add --help for the usage)')
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
      getOutHelpWidth: () => helpWidth,
      getErrHelpWidth: () => helpWidth,
    });
  program.configureHelp({ subcommandTerm });
  const name = argv[0] === 'help' ? argv[1] : argv[0];
  await addSubcommands(program, context, (it) => it === name);
  return program;
}

/**
 * Runs one command line. Prints all failures to standard error.
 * @param argv - arguments after the name of the program
 * @returns exit code of the process
 */
export async function runCommandLine(
  argv: readonly string[],
  context: Omit<CommandContext, 'setExitCode'>,
  version: string,
): Promise<number> {
  let exitCode: number = exitCodes.ok;
  const setExitCode = (code: number): void => {
    exitCode = code;
  };
  const program = await createProgram(argv, { ...context, setExitCode }, version);
  let isDebugging = false;
  program.hook('preAction', async (_, command) => {
    isDebugging = stackLevels.has(command.opts().logLevel);
    await requireConfigDirectory(command);
  });
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return exitCode;
  } catch (error) {
    return reportError(error, context, isDebugging);
  }
}

/**
 * Checks that a configuration directory exists if the user has named one. The default directory may
 * be missing.
 */
async function requireConfigDirectory(command: Command): Promise<void> {
  if (command.getOptionValueSource('configDir') !== 'cli') return;
  const directory = String(command.opts().configDir);
  const found = await stat(directory).catch(() => undefined);
  if (found?.isDirectory()) return;
  const problem =
    '-c: the directory does not exist; give a directory that contains a file named master';
  const { ConfigError } = await import('#config');
  throw new ConfigError('ERR_CONFIG_READ', { file: directory, line: 0, key: '' }, problem);
}

/** Returns the number of errors in a configuration error. Returns 1 for any other error. */
function problemCount(error: unknown): number {
  const { problems } = Object(error);
  return Array.isArray(problems) ? problems.length : 1;
}

async function reportError(
  error: unknown,
  { stderr }: Pick<CommandContext, 'stderr'>,
  isDebugging: boolean,
): Promise<number> {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  const code = errorCodeOf(error) ?? '';
  if (code === 'EPIPE') return exitCodes.ok;
  const known = exitCodeOf(code);
  const { describeSystemError, errorMessage } = await import('#runtime');
  const ofSystem = describeSystemError(error);
  const message = ofSystem ?? errorMessage(error);
  const prefix = known === undefined && ofSystem === undefined ? 'unexpected error: ' : '';
  const count = problemCount(error);
  const heading = count > 1 ? `the configuration has ${count} errors:\n` : prefix;
  // Only the message of a configuration error may have several lines, because it quotes text of the
  // operator.
  const escapeMessage = known === exitCodes.configuration ? escapeLines : escapeLine;
  const hint = commandHints.get(code);
  const more = hint === undefined ? '' : `; ${hint}`;
  await printLine(stderr, `saltbridge: ${heading}${escapeMessage(message)}${more}`);
  if (isDebugging && error instanceof Error) await printLine(stderr, error.stack ?? '');
  return known ?? exitCodes.software;
}

/** Creates the command line from the subcommands in `commands/`, and runs it. */
import { stat } from 'node:fs/promises';
import { Command, CommanderError } from 'commander';
import { ConfigError } from '#master';
import { describeSystemError } from '#runtime';
import { addAclCommand } from './commands/acl.ts';
import { addAuditCommand } from './commands/audit.ts';
import { addBridgeCommand } from './commands/bridge.ts';
import { addClusterCommand } from './commands/cluster.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { addConfigCommand } from './commands/config.ts';
import { addDemoCommand } from './commands/demo.ts';
import { addEnrollCommand } from './commands/enroll.ts';
import { addEventsCommand } from './commands/events.ts';
import { addHeatCommand } from './commands/heat.ts';
import { addJobsCommand } from './commands/jobs.ts';
import { addKeyCommand } from './commands/key.ts';
import { addLocalClientCommand } from './commands/localclient.ts';
import { addMasterCommand } from './commands/master.ts';
import { addMetadataAgentCommand } from './commands/metadata-agent.ts';
import { addMinionCommand } from './commands/minion.ts';
import { addDoctorCommand, addMigrateCommand } from './commands/ops.ts';
import { addPillarCommand } from './commands/pillar.ts';
import { addReactionsCommand } from './commands/reactions.ts';
import { addSaltCommand } from './commands/salt.ts';
import { addSaltCpCommand } from './commands/salt-cp.ts';
import { addSaltKeyCommand } from './commands/salt-key.ts';
import { addSaltRunCommand } from './commands/salt-run.ts';
import { toSaltUsageError } from './commands/salt-usage.ts';
import { addStatusCommand } from './commands/status.ts';
import { addStoreCommand } from './commands/store.ts';
import { addTokenCommand } from './commands/token.ts';
import type { CommandContext } from './context.ts';
import { commandHints, errorCodeOf, exitCodeOf, exitCodes } from './errors.ts';
import { escapeLine, escapeLines, printLine } from './terminal.ts';

const addCommands: readonly ((program: Command, context: CommandContext) => void)[] = [
  addMasterCommand,
  addKeyCommand,
  addEnrollCommand,
  addSaltCommand,
  addSaltCpCommand,
  addSaltKeyCommand,
  addSaltRunCommand,
  addJobsCommand,
  addEventsCommand,
  addStatusCommand,
  addStoreCommand,
  addClusterCommand,
  addAclCommand,
  addPillarCommand,
  addAuditCommand,
  addTokenCommand,
  addReactionsCommand,
  addBridgeCommand,
  addConfigCommand,
  addHeatCommand,
  addLocalClientCommand,
  addMetadataAgentCommand,
  addMigrateCommand,
  addDoctorCommand,
  addMinionCommand,
  addCompletionCommand,
  addDemoCommand,
];

/** Who asks for these wants to see where an error comes from. */
const stackLevels: ReadonlySet<unknown> = new Set(['debug', 'trace', 'garbage', 'all']);

/** Columns: help is the same on every terminal. */
const helpWidth = 80;

/** The whole command line, ready to parse. */
function createProgram(argv: readonly string[], context: CommandContext, version: string): Command {
  const program = new Command('saltbridge')
    .description('A Salt-compatible master')
    .version(version)
    // `-V` behind the name of a subcommand is that subcommand's.
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('(add --help for what is expected)')
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
      outputError: (text, write) => {
        const told = toSaltUsageError(argv[0] ?? '', text);
        write(told ?? text);
      },
      getOutHelpWidth: () => helpWidth,
      getErrHelpWidth: () => helpWidth,
    });
  for (const addCommand of addCommands) addCommand(program, context);
  return program;
}

/**
 * Runs one command line to its end; every failure is told on stderr.
 * @param argv what follows the program's name
 * @returns what the process shall end with
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
  const program = createProgram(argv, { ...context, setExitCode }, version);
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

/** A directory that somebody names must be there; the standard one may be missing. */
async function requireConfigDirectory(command: Command): Promise<void> {
  if (command.getOptionValueSource('configDir') !== 'cli') return;
  const directory = String(command.opts().configDir);
  const found = await stat(directory).catch(() => undefined);
  if (found?.isDirectory()) return;
  const problem = '-c names no directory, expected one with a file named master';
  throw new ConfigError('ERR_CONFIG_READ', { file: directory, line: 0, key: '' }, problem);
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
  const ofSystem = describeSystemError(error);
  const message = ofSystem ?? (error instanceof Error ? error.message : String(error));
  const prefix = known === undefined && ofSystem === undefined ? 'unexpected error: ' : '';
  const count = error instanceof ConfigError ? error.problems.length : 1;
  const heading = count > 1 ? `${count} mistakes in the configuration:\n` : prefix;
  // What a configuration says is the operator's own, and may be told on several lines.
  const escapeMessage = known === exitCodes.configuration ? escapeLines : escapeLine;
  const hint = commandHints.get(code);
  const more = hint === undefined ? '' : `; ${hint}`;
  await printLine(stderr, `saltbridge: ${heading}${escapeMessage(message)}${more}`);
  if (isDebugging && error instanceof Error) await printLine(stderr, error.stack ?? '');
  return known ?? exitCodes.software;
}

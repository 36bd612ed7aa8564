import { type Command, Option } from 'commander';
import { type FunctionResult, type MasterApi, parseArguments } from '#master';
import { isWireMap, plainNumber, type WireValue } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { errorCodeOf, exitCodes } from '../errors.ts';
import { openCommandSession, sudoUser } from '../login.ts';
import { addLoginOptions, type LoginOptions } from '../login-options.ts';
import { configOption, logLevelOption, parseSeconds } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputCommandOptions,
} from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { printLine } from '../terminal.ts';
import { printSaltFailure } from './salt-failures.ts';
import { formatSaltUsageError, useSaltUsage } from './salt-usage.ts';

/** Options of the command, with commander's names. */
interface SaltRunOptions extends OutputCommandOptions, LoginOptions {
  readonly timeout?: number;
  readonly doc?: boolean;
  readonly documentation?: boolean;
  readonly async?: boolean;
  readonly quiet?: boolean;
  readonly jid?: string;
  /**
   * Names of keyword arguments, separated by commas. Their values are not parsed. Commander stores
   * `--no-parse` under this name.
   */
  readonly parse: string;
}

/** Prints the documentation of a function, of a module, or of all functions. */
async function showRunnerDocs(
  context: CommandContext,
  prefix: string | undefined,
  options: SaltRunOptions,
): Promise<number> {
  const { runners } = await context.openApi(options.configDir);
  for (const [name, text] of Object.entries(await runners.docs(prefix))) {
    await printLine(context.stdout, `${name}:\n\n${indented(text)}\n`);
  }
  return exitCodes.ok;
}

/**
 * Runs a function and prints its return.
 * @returns Salt's exit code
 */
async function runRunner(
  context: CommandContext,
  fun: string,
  args: readonly string[],
  options: SaltRunOptions,
): Promise<number> {
  const session = await openCommandSession(context, options);
  try {
    return await callRunner(session.runners, fun, args, options, context);
  } finally {
    await session.close();
  }
}

async function callRunner(
  runners: MasterApi['runners'],
  fun: string,
  args: readonly string[],
  options: SaltRunOptions,
  context: CommandContext,
): Promise<number> {
  const { timeout, jid, parse } = options;
  const call = {
    fun,
    ...parseArguments(args, parse.split(',')),
    ...sudoUser(),
    ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
    ...(jid === undefined ? {} : { jid }),
  };
  try {
    if (options.async === true) {
      const { tag } = await runners.start(call);
      await printLine(context.stderr, `saltbridge: started; its events have the prefix ${tag}`);
      return exitCodes.ok;
    }
    const result = await runners.run(call);
    await printResult(context, result.return, options);
    return exitCodeOfResult(result);
  } catch (error) {
    const text = error instanceof Error ? await refusalText(error, fun, runners) : undefined;
    if (text === undefined) throw error;
    // Salt prints this error as a result, with exit code 0.
    await printResult(context, text, options);
    return exitCodes.ok;
  }
}

/** Returns Salt's text for an unknown function or invalid arguments. */
async function refusalText(
  error: Error,
  fun: string,
  runners: MasterApi['runners'],
): Promise<string | undefined> {
  const code = errorCodeOf(error);
  if (code === 'ERR_UNKNOWN_FUN') return error.message;
  if (code !== 'ERR_ARGS') return undefined;
  const { [fun]: usage = '' } = await runners.docs(fun);
  return `\nPassed invalid arguments: ${error.message}\n\nUsage:\n\n${indented(usage)}`;
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '    ');
}

async function printResult(
  context: CommandContext,
  returned: WireValue,
  options: SaltRunOptions,
): Promise<void> {
  const { output, sink } = await chooseOutput(options, context);
  if (options.quiet === true) return;
  const { outputter, data } = splitOutputter(returned, output.outputter);
  await sink.write(formatData(data, outputter, output));
}

/**
 * Returns the outputter for a result, and the data to format. A function selects its outputter by
 * returning a map with `outputter` and `data`. If this map has other keys too, as after an
 * orchestration, the whole map is the data.
 * @param asked - outputter that the user selected. {@link formatData} prefers it to the returned
 * outputter, unless it is `highstate`
 */
function splitOutputter(
  value: WireValue,
  asked: string | undefined,
): { readonly outputter: string | undefined; readonly data: WireValue } {
  const { outputter, data } = isWireMap(value) ? value : {};
  if (typeof outputter !== 'string' || data === undefined) return { outputter: asked, data: value };
  const isAll = isWireMap(value) && Object.keys(value).length === 2;
  return isAll ? { outputter, data } : { outputter: asked ?? outputter, data: value };
}

/** Returns the exit code of a call, which the function can set in its result. */
function exitCodeOfResult({ return: value, retcode }: FunctionResult): number {
  if (retcode !== undefined) return retcode;
  const exitCode = isWireMap(value)
    ? plainNumber(value.retcode ?? retcodeInData(value.data))
    : undefined;
  return typeof exitCode === 'number' ? exitCode & 0xff : exitCodes.ok;
}

function retcodeInData(data: WireValue | undefined): WireValue | undefined {
  return isWireMap(data) ? data.retcode : undefined;
}

/**
 * Defines `saltbridge salt-run`, which accepts the flags of Salt's command and prints its output.
 */
export function defineSaltRun(command: Command, context: CommandContext): void {
  command
    .usage('[options] <function> [arguments]')
    .argument('[fun]', 'function, for example jobs.list_jobs (default: list all functions)')
    .argument('[args...]', 'arguments of the function: YAML values, or name=value')
    .addOption(configOption())
    .option(
      '-t, --timeout <seconds>',
      'time to wait for returns of minions, in seconds',
      parseSeconds,
    )
    .option('-d, --doc', 'show the documentation of a function, of a module or of all functions')
    .addOption(new Option('--documentation').hideHelp())
    .option('--async', 'start the function, and do not wait for its return')
    .option('--quiet', 'do not print the return of the function')
    .option('--jid <jid>', 'jid to use instead of a new one')
    .addOption(
      new Option(
        '--no-parse <names>',
        'keyword arguments whose values are not parsed as YAML, separated by commas',
      ).default('', 'none'),
    )
    .addOption(new Option('--skip-grains').hideHelp())
    .addOption(new Option('--hard-crash').hideHelp());
  addLoginOptions(command);
  addOutputOptions(command);
  useSaltUsage(command, context.stdout)
    .addOption(logLevelOption())
    .action(async (fun: string | undefined, args: string[], options: SaltRunOptions) => {
      const isDoc = options.doc === true || options.documentation === true;
      if (isDoc && args.length > 0) {
        const problem = 'You can only get documentation for one method at one time';
        await printLine(context.stderr, formatSaltUsageError('salt-run', problem));
        return context.setExitCode(exitCodes.usage);
      }
      const status =
        isDoc || fun === undefined
          ? showRunnerDocs(context, fun, options)
          : runRunner(context, fun, args, options);
      context.setExitCode(
        await status.catch((error) => printSaltFailure(error, 'salt-run', context, options)),
      );
    });
}

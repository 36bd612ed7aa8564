/** What `salt-run` does and prints [salt/cli/run.py, salt/runner.py, salt/client/mixins.py]. */
import { type FunctionResult, type FunctionsApi, parseArguments } from '../master/index.ts';
import { isWireMap, type WireValue } from '../minion-protocol/index.ts';
import type { CommandContext } from './context.ts';
import { codeOf } from './error-code.ts';
import { exitCodes } from './exit-codes.ts';
import type { LoginOptions } from './login-options.ts';
import { formatData } from './output/returns.ts';
import { chooseOutput, type OutputCommandOptions } from './output-options.ts';
import { printLine } from './print.ts';
import { openSession } from './user-session.ts';

/** As commander names them. */
export interface SaltRunOptions extends OutputCommandOptions, LoginOptions {
  readonly timeout?: number;
  readonly doc?: boolean;
  readonly documentation?: boolean;
  readonly async?: boolean;
  readonly quiet?: boolean;
  readonly jid?: string;
  /** Names, comma separated; commander's name for `--no-parse`. */
  readonly parse: string;
}

/** Prints what a function, a module or all functions are for. */
export async function showDocs(
  context: CommandContext,
  prefix: string | undefined,
  options: SaltRunOptions,
): Promise<number> {
  const { runners } = await context.openApi(options.configDir);
  for (const [name, text] of Object.entries(await runners.docs(prefix))) {
    const indented = text.replace(/^(?=.)/gm, '    ');
    await printLine(context.stdout, `${name}:\n\n${indented}\n`);
  }
  return exitCodes.ok;
}

/** Runs a function and prints what it returns. @returns the exit code, as Salt's */
export async function runFunction(
  context: CommandContext,
  fun: string,
  args: readonly string[],
  options: SaltRunOptions,
): Promise<number> {
  const session = await openSession(context, options);
  try {
    return await callFunction(session.runners, fun, args, options, context);
  } finally {
    await session.close();
  }
}

async function callFunction(
  runners: FunctionsApi,
  fun: string,
  args: readonly string[],
  options: SaltRunOptions,
  context: CommandContext,
): Promise<number> {
  const { timeout, jid, parse } = options;
  const call = {
    fun,
    ...parseArguments(args, parse.split(',')),
    user: userName(),
    ...(timeout === undefined ? {} : { timeout }),
    ...(jid === undefined ? {} : { jid }),
  };
  try {
    if (options.async === true) {
      const { tag } = await runners.start(call);
      await printLine(context.stderr, `saltbridge: started; its events begin with ${tag}`);
      return exitCodes.ok;
    }
    const result = await runners.run(call);
    await print(context, result.return, options);
    return exitCodeOf(result);
  } catch (error) {
    if (!isUnknownFunction(error)) throw error;
    // Salt prints this as if it were a result, and ends well.
    await print(context, error.message, options);
    return exitCodes.ok;
  }
}

async function print(
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
 * `{outputter, data}`: the way in which a function asks for an outputter. Where there is more in
 * it, as of orchestrations, whoever asked for another outputter gets that, with all of it.
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

/** A function may say itself what the command ends with. */
function exitCodeOf({ return: value, retcode }: FunctionResult): number {
  if (retcode !== undefined) return retcode;
  const told = isWireMap(value) ? (value.retcode ?? codeInData(value.data)) : undefined;
  return typeof told === 'number' ? told & 0xff : exitCodes.ok;
}

function codeInData(data: WireValue | undefined): WireValue | undefined {
  return isWireMap(data) ? data.retcode : undefined;
}

function isUnknownFunction(error: unknown): error is Error {
  return codeOf(error) === 'ERR_UNKNOWN_FUN';
}

/** Who is told in the events. */
function userName(): string {
  return process.env.SUDO_USER === undefined
    ? (process.env.USER ?? 'root')
    : `sudo_${process.env.SUDO_USER}`;
}

/**
 * Output options of the commands `salt`, `salt-key`, `salt-run` and `salt-cp` [salt
 * utils/parsers.py OutputOptionsMixIn].
 */

import { appendFile, open } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandDefaults } from '../command-defaults.ts';
import type { CommandContext, OutputStream } from '../context.ts';
import { numberProblems } from '../options.ts';
import { escapeName, noColors, printLine, terminalColors } from '../terminal.ts';
import { type OutputOptions, outputters } from './outputters.ts';

/** Destination of the output: a stream, or a file with `--out-file`. */
export interface OutputSink {
  /** Writes a line. As in Salt, an empty line is omitted. */
  write(text: string): Promise<void>;
}

/** Returns a sink that writes to a stream. */
function streamSink(stream: OutputStream): OutputSink {
  return {
    write: async (text) => {
      if (text !== '') await printLine(stream, text);
    },
  };
}

/** Returns a sink that writes to a file. Without `--out-file-append`, the file is emptied first. */
async function fileSink(
  file: string,
  { append }: { readonly append: boolean },
): Promise<OutputSink> {
  const handle = await open(file, append ? 'a' : 'w');
  await handle.close();
  return {
    write: async (text) => {
      if (text !== '') await appendFile(file, `${text}\n`);
    },
  };
}

/** Output options, with commander's names. An option with two names in Salt occurs twice. */
export interface OutputCommandOptions {
  readonly configDir: string;
  readonly out?: string;
  readonly output?: string;
  readonly outIndent?: number;
  readonly outputIndent?: number;
  readonly outFile?: string;
  readonly outputFile?: string;
  readonly outFileAppend?: boolean;
  readonly outputFileAppend?: boolean;
  readonly color: boolean;
  readonly colour: boolean;
  readonly forceColor?: boolean;
  readonly forceColour?: boolean;
  readonly stateOutput?: string;
  readonly stateVerbose?: boolean;
  readonly state_output?: string;
  readonly state_verbose?: boolean;
}

/** Outputter, colours and destination that the options select. */
export interface OutputChoice {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
}

export function addOutputOptions(command: Command): void {
  command
    .option('--out <outputter>', 'output format: nested, json, yaml, txt, raw, quiet, …')
    .addOption(new Option('--output <outputter>').hideHelp())
    .option(
      '--out-indent <n>',
      'number of spaces per level; a negative number prints everything on one line',
      parseInteger,
    )
    .addOption(new Option('--output-indent <n>').argParser(parseInteger).hideHelp())
    .option('--out-file <file>', 'write returns to this file')
    .addOption(new Option('--output-file <file>').hideHelp())
    .option('--out-file-append', 'append returns to this file')
    .addOption(new Option('--output-file-append').hideHelp())
    .option('--no-color', 'disable colours')
    .addOption(new Option('--no-colour').hideHelp())
    .option('--force-color', 'use colours even if the output is not a terminal')
    .addOption(new Option('--force-colour').hideHelp())
    .option(
      '--state-output <form>',
      'format in which states are printed: full, terse, mixed, changes',
    )
    .addOption(new Option('--state_output <form>').hideHelp())
    .option(
      '--state-verbose <boolean>',
      'also print states that succeeded without changes',
      parseBoolean,
    )
    .addOption(new Option('--state_verbose <boolean>').argParser(parseBoolean).hideHelp());
}

/**
 * Selects the outputter, colours and destination.
 * @throws ConfigError if the configuration cannot be read
 */
export async function chooseOutput(
  options: OutputCommandOptions,
  {
    stdout,
    stderr,
    commandDefaults,
  }: Pick<CommandContext, 'stdout' | 'stderr' | 'commandDefaults'>,
): Promise<OutputChoice> {
  const defaults = await commandDefaults(options.configDir);
  const outputter = options.out ?? options.output ?? defaults.output ?? undefined;
  const file = options.outFile ?? options.outputFile;
  if (outputter !== undefined && !outputters.has(outputter)) {
    const name = escapeName(outputter);
    await printLine(stderr, `[ERROR   ] Invalid outputter ${name} specified, fall back to nested`);
  }
  const isColored = wantsColors(options, defaults) ?? stdout.isTTY === true;
  return {
    output: {
      outputter,
      indent: options.outIndent ?? options.outputIndent,
      colors: isColored ? terminalColors : noColors,
      stateOutput: options.stateOutput ?? options.state_output ?? defaults.stateOutput,
      stateVerbose: options.stateVerbose ?? options.state_verbose ?? defaults.stateVerbose,
      stateProfile: defaults.stateOutputProfile,
    },
    sink:
      file === undefined
        ? streamSink(stdout)
        : await fileSink(file, {
            append: options.outFileAppend === true || options.outputFileAppend === true,
          }),
  };
}

/** Whether to use colours. If the option is `undefined`, colours are used on a terminal. */
function wantsColors(
  { forceColor, forceColour, color, colour }: OutputCommandOptions,
  defaults: CommandDefaults,
): boolean | undefined {
  if (forceColor === true || forceColour === true) return true;
  return color && colour ? (defaults.color ?? undefined) : false;
}

function parseInteger(text: string): number {
  if (!/^-?\d{1,3}$/.test(text)) throw new InvalidArgumentError(numberProblems.whole);
  return Number(text);
}

function parseBoolean(text: string): boolean {
  if (/^[Tt]rue$/.test(text)) return true;
  if (/^[Ff]alse$/.test(text)) return false;
  throw new InvalidArgumentError('the value must be True or False.');
}

/** The options of Salt's commands that say how to print [salt utils/parsers.py OutputOptionsMixIn]. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandContext } from './context.ts';
import { noColors, terminalColors } from './output/colors.ts';
import { escapeName } from './output/escape.ts';
import { isOutputter, type OutputOptions } from './output/returns.ts';
import { fileSink, type OutputSink, streamSink } from './output-sink.ts';
import { printLine } from './print.ts';

/** As commander names them; each that Salt has two names for is there twice. */
export interface OutputCommandOptions {
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

/** What returns are printed with. */
export interface OutputChoice {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
}

export function addOutputOptions(command: Command): void {
  command
    .option('--out <outputter>', 'how to print: nested, json, yaml, txt, raw, quiet, …')
    .addOption(new Option('--output <outputter>').hideHelp())
    .option('--out-indent <n>', 'spaces for each level; negative: on one line', parseInteger)
    .addOption(new Option('--output-indent <n>').argParser(parseInteger).hideHelp())
    .option('--out-file <file>', 'print returns to a file')
    .addOption(new Option('--output-file <file>').hideHelp())
    .option('--out-file-append', 'keep what is in that file')
    .addOption(new Option('--output-file-append').hideHelp())
    .option('--no-color', 'without colours')
    .addOption(new Option('--no-colour').hideHelp())
    .option('--force-color', 'with colours, also where there is no terminal')
    .addOption(new Option('--force-colour').hideHelp())
    .option('--state-output <form>', 'how to print states: full, terse, mixed, changes')
    .addOption(new Option('--state_output <form>').hideHelp())
    .option('--state-verbose <boolean>', 'print states that need no change', parseBoolean)
    .addOption(new Option('--state_verbose <boolean>').argParser(parseBoolean).hideHelp());
}

/** Chooses outputter, colours and place. */
export async function chooseOutput(
  options: OutputCommandOptions,
  { stdout, stderr }: Pick<CommandContext, 'stdout' | 'stderr'>,
): Promise<OutputChoice> {
  const outputter = options.out ?? options.output;
  const file = options.outFile ?? options.outputFile;
  if (outputter !== undefined && !isOutputter(outputter)) {
    const name = escapeName(outputter);
    await printLine(stderr, `[ERROR   ] Invalid outputter ${name} specified, fall back to nested`);
  }
  const isForced = options.forceColor === true || options.forceColour === true;
  const hasColors = options.color && options.colour && stdout.isTTY === true;
  return {
    output: {
      outputter,
      indent: options.outIndent ?? options.outputIndent,
      colors: isForced || hasColors ? terminalColors : noColors,
      stateOutput: options.stateOutput ?? options.state_output,
      stateVerbose: options.stateVerbose ?? options.state_verbose,
    },
    sink:
      file === undefined
        ? streamSink(stdout)
        : await fileSink(file, {
            append: options.outFileAppend === true || options.outputFileAppend === true,
          }),
  };
}

function parseInteger(text: string): number {
  if (!/^-?\d{1,3}$/.test(text)) throw new InvalidArgumentError('expected a whole number.');
  return Number(text);
}

function parseBoolean(text: string): boolean {
  if (/^[Tt]rue$/.test(text)) return true;
  if (/^[Ff]alse$/.test(text)) return false;
  throw new InvalidArgumentError('expected True or False.');
}

/** Which outputter prints what, as `salt` chooses it [salt output/__init__.py get_printout]. */

import { appendFile, open } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';
import { splitLines } from '../../python/text.ts';
import type { CommandDefaults } from '../command-defaults.ts';
import type { CommandContext, OutputStream } from '../context.ts';
import {
  type Colors,
  escapeLine,
  escapeLines,
  escapeName,
  noColors,
  printLine,
  terminalColors,
} from '../terminal.ts';
import { formatHighstate } from './highstate.ts';
import {
  formatJson,
  formatNested,
  formatPprint,
  formatYaml,
  mapEntries,
  pythonRepr,
  pythonStr,
} from './nested.ts';

// No return [salt output/no_return.py].

/** The minion's id and, below it, why there is no return. */
export function formatNoReturn(minion: string, reason: string, colors: Colors = noColors): string {
  const lines = reason
    .split('\n')
    .map((line) => `${colors.red}    ${escapeLine(line)}${colors.end}`);
  return [`${colors.cyan}${escapeName(minion)}${colors.end}:`, ...lines].join('\n');
}

// Plain outputters, for other programs.

/** `txt`: each line of each value behind its key [salt output/txt.py]. */
export function formatTxt(value: WireValue): string {
  const entries = mapEntries(value);
  if (entries === undefined) return escapeLines(pythonStr(value));
  return entries
    .flatMap(([key, item]) => {
      const lines = typeof item === 'string' ? splitLines(item) : [pythonRepr(item)];
      return lines.map((line) => `${escapeName(pythonStr(key))}: ${escapeLine(line)}`);
    })
    .join('\n');
}

/** `raw`: what Python shows of it [salt output/raw.py]. */
export function formatRaw(value: WireValue): string {
  return escapeLines(pythonStr(value));
}

/** `newline_values_only`: no ids, a list's items each on a line [salt output/newline_values_only.py]. */
export function formatValuesOnly(value: WireValue): string {
  const values = (mapEntries(value) ?? []).flatMap(([, item]) => item);
  return escapeLines(values.map(pythonStr).join('\n'));
}

/** What one minion said, or that it said nothing. */
export interface MinionReturn {
  readonly minion: string;
  readonly value: WireValue;
  readonly isFailure: boolean;
  /** The outputter that the function asks for. */
  readonly out?: string;
}

/** How returns are shown. */
export interface OutputOptions {
  /** What the person asked for; it wins over what a function asks for. */
  readonly outputter?: string | undefined;
  /** Spaces for each level; negative: none, on as few lines as possible. */
  readonly indent?: number | undefined;
  readonly colors: Colors;
  /** `state_output`. Default `full`. */
  readonly stateOutput?: string | undefined;
  /** `state_verbose`. Default true. */
  readonly stateVerbose?: boolean | undefined;
  /** `state_output_profile`. Default true. */
  readonly stateProfile?: boolean | undefined;
}

type Outputter = (data: WireValue, options: OutputOptions, isFailure: boolean) => string;

const formatNestedReturn: Outputter = (data, { colors }, isFailure) =>
  formatNested(data, { colors, isFailure });

const outputters: ReadonlyMap<string, Outputter> = new Map<string, Outputter>([
  ['nested', formatNestedReturn],
  [
    'highstate',
    (data, options) => formatHighstate(data, options) ?? formatNestedReturn(data, options, false),
  ],
  ['json', (data, { indent = 4 }) => formatJson(data, indent < 0 ? {} : { indent })],
  ['newline_values_only', formatValuesOnly],
  ['no_return', formatNoReturns],
  ['pprint', (data, { indent = 1 }) => formatPprint(data, indent < 0 ? 1 : indent)],
  ['quiet', () => ''],
  ['raw', formatRaw],
  ['text', formatTxt],
  ['txt', formatTxt],
  ['yaml', (data, { indent }) => formatYaml(data, { indent })],
]);

/** Whether there is an outputter of this name; Salt's nested takes the place of others. */
function isOutputter(name: string): boolean {
  return outputters.has(name);
}

/**
 * Data as it is printed, without blanks and newlines at its end. May be empty.
 * @param out the outputter that the function asks for
 */
export function formatData(
  data: WireValue,
  out: string | undefined,
  options: OutputOptions,
  isFailure = false,
): string {
  const { outputter } = options;
  const chosen = outputter === undefined || outputter === 'highstate' ? out : outputter;
  const format = outputters.get(chosen || 'nested') ?? formatNestedReturn;
  return format(data, options, isFailure).trimEnd();
}

/** One minion's return, as it is printed when it comes. */
export function formatReturn(result: MinionReturn, options: OutputOptions): string {
  const { minion, value, isFailure, out } = result;
  return formatData(new Map([[minion, value]]), out, options, isFailure);
}

/**
 * All returns at once, as `--static` prints them: states need no asking for their outputter.
 * @param fun what was run
 */
export function formatReturns(
  results: readonly MinionReturn[],
  fun: string | readonly string[],
  options: OutputOptions,
): string {
  const data = new Map(results.map(({ minion, value }): [string, WireValue] => [minion, value]));
  const isState = typeof fun === 'string' && fun.startsWith('state.');
  const out = options.outputter ?? (isState ? 'highstate' : undefined);
  return formatData(data, out, options);
}

function formatNoReturns(data: WireValue, { colors }: OutputOptions): string {
  const entries = data instanceof Map ? [...data] : Object.entries(isWireMap(data) ? data : {});
  return entries
    .map(([minion, reason]) => formatNoReturn(String(minion), String(reason), colors))
    .join('\n');
}

/** Where returns go: to a stream, or with `--out-file` to a file. */
export interface OutputSink {
  /** Writes a line; an empty one is left out, as Salt leaves out what has no text. */
  write(text: string): Promise<void>;
}

/** Returns on a stream. */
function streamSink(stream: OutputStream): OutputSink {
  return {
    write: async (text) => {
      if (text !== '') await printLine(stream, text);
    },
  };
}

/** Returns in a file. One that is there is emptied first, unless it is to be continued. */
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

// Output options [salt utils/parsers.py OutputOptionsMixIn].

/** As commander names them; each that Salt has two names for is there twice. */
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

/** What returns are printed with. */
export interface OutputChoice {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
}

export function addOutputOptions(command: Command): void {
  command
    .option('--out <outputter>', 'output format: nested, json, yaml, txt, raw, quiet, …')
    .addOption(new Option('--output <outputter>').hideHelp())
    .option('--out-indent <n>', 'spaces per level; negative: one line', parseInteger)
    .addOption(new Option('--output-indent <n>').argParser(parseInteger).hideHelp())
    .option('--out-file <file>', 'write returns to a file')
    .addOption(new Option('--output-file <file>').hideHelp())
    .option('--out-file-append', 'append to that file')
    .addOption(new Option('--output-file-append').hideHelp())
    .option('--no-color', 'disable colours')
    .addOption(new Option('--no-colour').hideHelp())
    .option('--force-color', 'use colours even if the output is not a terminal')
    .addOption(new Option('--force-colour').hideHelp())
    .option('--state-output <form>', 'format of states: full, terse, mixed, changes')
    .addOption(new Option('--state_output <form>').hideHelp())
    .option('--state-verbose <boolean>', 'also print states without changes', parseBoolean)
    .addOption(new Option('--state_verbose <boolean>').argParser(parseBoolean).hideHelp());
}

/** Chooses outputter, colours and place. @throws ConfigError when the configuration cannot be read */
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
  if (outputter !== undefined && !isOutputter(outputter)) {
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

/** `undefined`: as the terminal has it. */
function wantsColors(
  { forceColor, forceColour, color, colour }: OutputCommandOptions,
  defaults: CommandDefaults,
): boolean | undefined {
  if (forceColor === true || forceColour === true) return true;
  return color && colour ? (defaults.color ?? undefined) : false;
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

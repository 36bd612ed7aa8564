/**
 * `saltbridge config`: checks a configuration, shows its current options, prints the JSON Schema.
 */

import type { Command } from 'commander';
import {
  ConfigError,
  checkMasterConfig,
  configJsonSchema,
  listOptions,
  type OptionInForce,
} from '#config';
import type { ConfigCheck } from '#server';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { withCommonOptions } from '../options.ts';
import { escapeLine, escapeLines, printJson, printLine } from '../terminal.ts';

interface ConfigOptions {
  readonly configDir: string;
  readonly changed?: boolean;
  readonly json?: boolean;
}

/** Defines `saltbridge config check`, `config show` and `config schema`. */
export function defineConfig(command: Command, context: CommandContext): void {
  withCommonOptions(
    command
      .command('check')
      .description('report every error and warning of a configuration')
      .argument('[dir]', 'configuration directory (default: that of -c)'),
  ).action(async (directory: string | undefined, { configDir, json }: ConfigOptions) => {
    // Load this module on demand, because it includes the readers of all options.
    const { checkServerConfig } = await import('#server');
    const check = await checkServerConfig(directory ?? configDir);
    if (json) await printJson(context.stdout, asJson(check));
    else await printLine(context.stdout, formatCheck(check));
    if (check.problems.length > 0) context.setExitCode(exitCodes.configuration);
  });
  withCommonOptions(
    command
      .command('show')
      .description('print every option with its value and the file that sets it, without secrets')
      .argument('[dir]', 'configuration directory (default: that of -c)')
      .option('--changed', 'print only options that the configuration files set'),
  ).action(async (directory: string | undefined, { configDir, changed, json }: ConfigOptions) => {
    const checked = await checkMasterConfig(directory ?? configDir);
    const mistake = ConfigError.of(checked.problems);
    if (mistake !== undefined) throw mistake;
    const options = listOptions(checked).filter(({ origin }) => !changed || origin !== undefined);
    if (json) await printJson(context.stdout, options);
    else await printLine(context.stdout, formatOptions(options));
  });
  command
    .command('schema')
    .description('print a JSON Schema of configuration files, for editors')
    .action(async () => printJson(context.stdout, configJsonSchema()));
}

/** Place of an error or warning in the files. */
interface Place {
  readonly file: string;
  readonly line: number;
}

/** Returns the errors and warnings as text, in the order of files and lines. */
function formatCheck({ directory, files, problems, warnings }: ConfigCheck): string {
  const count = (number: number, what: string): string =>
    `${number === 0 ? 'no' : number} ${what}${number === 1 ? '' : 's'}`;
  const inOrder = <T extends Place>(found: readonly T[]): T[] =>
    found.toSorted((a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line);
  return [
    ...inOrder(problems).map(({ message }) => `error: ${escapeLines(message)}`),
    ...inOrder(warnings).map(({ message }) => `warning: ${escapeLine(message)}`),
    `${escapeLine(directory)}: ${count(problems.length, 'mistake')}, ${count(warnings.length, 'warning')} in ${count(files.length, 'file')}`,
  ].join('\n');
}

function asJson({ directory, files, problems, warnings }: ConfigCheck): object {
  return {
    directory,
    files,
    problems: problems.map(({ code, file, line, key, entry, problem, message }) => ({
      code,
      file,
      line,
      key,
      entry,
      problem,
      message,
    })),
    warnings,
  };
}

/**
 * Returns the options as YAML with comments. Their values are written as JSON, which is valid YAML.
 */
function formatOptions(options: readonly OptionInForce[]): string {
  const lines: string[] = [];
  let before: readonly string[] = [];
  for (const { key, value, origin } of options) {
    const above = key.slice(0, -1);
    for (const [depth, name] of above.entries()) {
      if (before[depth] !== name) lines.push(`${'  '.repeat(depth)}${name}:`);
    }
    before = above;
    const place = origin === undefined ? 'default' : `${origin.file}:${origin.line}`;
    const text = `${'  '.repeat(above.length)}${key.at(-1)}: ${JSON.stringify(value)} # ${place}`;
    lines.push(escapeLine(text));
  }
  return lines.join('\n');
}

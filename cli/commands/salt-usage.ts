/**
 * Usage errors and versions of the commands `salt`, `salt-key`, `salt-run` and `salt-cp`, in Salt's
 * form [salt/utils/parsers.py].
 */

import { type Command, CommanderError } from 'commander';
import type { OutputStream } from '../context.ts';
import { numberProblems } from '../options.ts';
import { formatVersionsReport } from '../output/versions-report.ts';
import { inOrderOfFlags } from './salt-target.ts';

/** Usage lines of Salt's own commands, without the leading `Usage:`. */
const usages: Readonly<Record<string, string>> = {
  salt: "salt [options] '<target>' <function> [arguments]",
  'salt-cp': "salt-cp [options] '<target>' SOURCE DEST",
  'salt-key': 'salt-key [options]',
  'salt-run': 'salt-run [options] <function> [arguments]',
};

/** Returns Salt's text about an invalid command line. */
export function formatSaltUsageError(command: string, complaint: string): string {
  return `Usage: ${usages[command] ?? command}\n\n${command}: error: ${complaint}`;
}

/** Matches commander's message about an option whose number is invalid. */
const invalidNumber = new RegExp(
  `^error: option '([^ ',]+)(?:[ ,][^']*)?' argument '(.*)' is invalid\\. (?:${Object.values(numberProblems).join('|')})`,
  's',
);

/** Patterns of commander's messages, with the corresponding messages of Python's optparse. */
const complaints: readonly (readonly [RegExp, (...groups: readonly string[]) => string])[] = [
  [/^error: unknown option '([^'=]+)(?:=.*)?'/s, (flag) => `no such option: ${flag}`],
  [
    /^error: option '(?:-., )?([^ ']+)(?: [^']*)?' cannot be used with option '(?:-., )?([^ ']+)/,
    (...flags) =>
      `The options ${inOrderOfFlags(flags).join('/')} are mutually exclusive. Please only choose one of them`,
  ],
  [
    /^error: option '([^ ',]+)(?:[ ,][^']*)?' argument missing/,
    (flag) => `${flag} option requires 1 argument`,
  ],
  [invalidNumber, (flag, value) => `option ${flag}: invalid integer value: '${value}'`],
];

/** Converts a message of commander about an invalid command line to Salt's text. */
function toSaltUsageError(command: string, text: string): string {
  const [found] = complaints.flatMap(([form, say]) => {
    const [, ...groups] = form.exec(text) ?? [];
    return groups.length === 0 ? [] : [say(...groups)];
  });
  const complaint = found ?? text.replace(/^error: /, '').trimEnd();
  return `${formatSaltUsageError(command, complaint)}\n`;
}

/** Makes a command print its usage errors and its version as Salt does. */
export function useSaltUsage(command: Command, stdout: OutputStream): Command {
  const version = command.parent?.version() ?? '';
  command
    .showHelpAfterError(false)
    .configureOutput({
      outputError: (text, write) => write(toSaltUsageError(command.name(), text)),
    })
    .version(`${command.name()} ${version} (saltbridge)`, '--version', 'print the version')
    .option('-V, --versions-report', 'print the versions of all components')
    .on('option:versions-report', () => {
      stdout.write(`${formatVersionsReport(version)}\n`);
      throw new CommanderError(0, 'saltbridge.versionsReport', '');
    });
  return command;
}

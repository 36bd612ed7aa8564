/** Usage errors and versions of the commands that are named as Salt's [salt/utils/parsers.py]. */

import { type Command, CommanderError } from 'commander';
import type { OutputStream } from '../context.ts';
import { formatVersionsReport } from '../output/versions-report.ts';
import { inOrderOfFlags } from './salt-target.ts';

/** What stands behind `Usage:` in Salt's own. */
const usages: Readonly<Record<string, string>> = {
  salt: "salt [options] '<target>' <function> [arguments]",
  'salt-cp': "salt-cp [options] '<target>' SOURCE DEST",
  'salt-key': 'salt-key [options]',
  'salt-run': 'salt-run [options] <function> [arguments]',
};

/** The text that a wrong command line ends with. */
export function formatSaltUsageError(command: string, complaint: string): string {
  return `Usage: ${usages[command] ?? command}\n\n${command}: error: ${complaint}`;
}

/** What Python's optparse says in place of what commander does. */
const complaints: readonly (readonly [RegExp, (...groups: readonly string[]) => string])[] = [
  [/^error: unknown option '([^'=]+)(?:=.*)?'/s, (flag) => `no such option: ${flag}`],
  [
    /^error: option '(?:-., )?([^ ']+)[^']*' cannot be used with option '(?:-., )?([^ ']+)/,
    (...flags) =>
      `The options ${inOrderOfFlags(flags).join('/')} are mutually exclusive. Please only choose one of them`,
  ],
  [
    /^error: option '([^ ',]+)[^']*' argument missing/,
    (flag) => `${flag} option requires 1 argument`,
  ],
  [
    /^error: option '([^ ',]+)[^']*' argument '(.*)' is invalid\. expected (?:a whole number|seconds)\./s,
    (flag, value) => `option ${flag}: invalid integer value: '${value}'`,
  ],
];

/** A usage error of commander in Salt's words. */
function toSaltUsageError(command: string, text: string): string {
  const [found] = complaints.flatMap(([form, say]) => {
    const [, ...groups] = form.exec(text) ?? [];
    return groups.length === 0 ? [] : [say(...groups)];
  });
  const complaint = found ?? text.replace(/^error: /, '').trimEnd();
  return `${formatSaltUsageError(command, complaint)}\n`;
}

/** Makes a command of Salt's name complain as Salt's does, and tell versions. */
export function useSaltUsage(command: Command, stdout: OutputStream): Command {
  const version = command.parent?.version() ?? '';
  command
    .showHelpAfterError(false)
    .configureOutput({
      outputError: (text, write) => write(toSaltUsageError(command.name(), text)),
    })
    .version(`${command.name()} ${version} (saltbridge)`, '--version', 'print the version')
    .option('-V, --versions-report', 'print the versions of all that takes part')
    .on('option:versions-report', () => {
      stdout.write(`${formatVersionsReport(version)}\n`);
      throw new CommanderError(0, 'saltbridge.versionsReport', '');
    });
  return command;
}

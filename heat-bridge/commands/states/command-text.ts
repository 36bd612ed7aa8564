/**
 * Converts commands in the description of a machine (`install:` or cfn-init) to text for /bin/sh.
 * Text from the description is always quoted. A command line becomes one quoted argument of
 * `/bin/sh -c`, so only this inner shell interprets it.
 */

import { quoteForShell } from '../../shell-text.ts';
import type { Command } from './state-config.ts';

/** Returns shell text that runs a command in its directory and environment. */
export function commandText(command: Command): string {
  const { command: what, ignoreErrors } = command;
  const text = typeof what === 'string' ? inShell(what) : what.map(quoteForShell).join(' ');
  const run = inPlace(command, text);
  // Ignore a failure to start the command too.
  return ignoreErrors ? `( ${run} ) || echo "ignored: exit status $?"` : run;
}

/**
 * Returns shell text that runs a command's test, in the directory and environment of the command.
 * If the directory is missing, the test succeeds, so that the command runs and reports the missing
 * directory.
 */
export function testText(command: Command, test: string): string {
  return inPlace(command, inShell(test), '|| exit 0; ');
}

function inShell(text: string): string {
  return `/bin/sh -c ${quoteForShell(text)}`;
}

function inPlace({ cwd, env }: Command, text: string, afterEnter = '&& '): string {
  const enter = cwd === undefined ? '' : `cd -- ${directoryText(cwd)} ${afterEnter}`;
  if (env === undefined) return `${enter}exec ${text}`;
  // Pass the values in the environment of this shell, so that they are not visible in process
  // lists.
  const variables = Object.keys(env).map((name) => `${name}="$${name}"`);
  return `${enter}exec ${['/usr/bin/env -i', ...variables, text].join(' ')}`;
}

/** Quotes a directory, except a leading `~` or `~user`, which the shell expands. */
function directoryText(cwd: string): string {
  const [, home, rest = ''] = /^(~[a-z_][a-z0-9_-]*|~)(\/.*)?$/s.exec(cwd) ?? [];
  if (home === undefined) return quoteForShell(cwd);
  const start = home === '~' ? `"\${HOME:-/root}"` : home;
  return rest === '' ? start : `${start}${quoteForShell(rest)}`;
}

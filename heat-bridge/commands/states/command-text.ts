/**
 * Commands of configs as text for /bin/sh. What somebody else wrote is in single quotes: our own
 * shell reads nothing in it, and the shell that it is meant for gets all of it.
 */

import { quoteForShell } from '../../shell-text.ts';
import type { Command } from './state-config.ts';

/** The command in its directory and environment. */
export function commandText(command: Command): string {
  const { command: what, ignoreErrors } = command;
  const text = typeof what === 'string' ? inShell(what) : what.map(quoteForShell).join(' ');
  const run = inPlace(command, text);
  // What fails to start is ignored as well.
  return ignoreErrors ? `( ${run} ) || echo "ignored: exit status $?"` : run;
}

/**
 * The test of a command, in the same directory and environment. If the directory is missing, the test
 * succeeds, so that the command runs and fails for the same reason.
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
  // Values come in the environment of this shell, so that they are in no list of processes.
  const variables = Object.keys(env).map((name) => `${name}="$${name}"`);
  return `${enter}exec ${['/usr/bin/env -i', ...variables, text].join(' ')}`;
}

/** `~` and `~user` at the beginning are for the shell. */
function directoryText(cwd: string): string {
  const [, home, rest = ''] = /^(~[a-z_][a-z0-9_-]*|~)(\/.*)?$/s.exec(cwd) ?? [];
  if (home === undefined) return quoteForShell(cwd);
  const start = home === '~' ? `"\${HOME:-/root}"` : home;
  return rest === '' ? start : `${start}${quoteForShell(rest)}`;
}

import type { Command } from 'commander';

/** The program that a command belongs to. */
export function programOf(command: Command): Command {
  return command.parent === null ? command : programOf(command.parent);
}

import type { Command } from 'commander';
import type { CommandContext } from './context.ts';

/**
 * Loads the program with all of its commands. It is needed by commands that describe the whole
 * program.
 */
export type LoadAll = () => Promise<Command>;

/** Function that adds arguments, options, subcommands and the action to a command. */
export type DefineCommand = (command: Command, context: CommandContext, loadAll: LoadAll) => void;

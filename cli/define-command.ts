import type { Command } from 'commander';
import type { CommandContext } from './context.ts';

/** Loads the program with all of its commands, for a command that describes them. */
export type LoadAll = () => Promise<Command>;

/** Adds arguments, options and subcommands to a command, and what it does. */
export type DefineCommand = (command: Command, context: CommandContext, loadAll: LoadAll) => void;
